"""Checks that a plan's devices keep the levels below the node that a gang requires.

The check reads the gang, the topology, the claims and the slices again, without the constraints and searches of the
planner.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.devices.claims import Devices, PodClaim
from cluster.devices.inventory import Content
from cluster.devices.selectors import matches
from gangs.model import Gang
from kube.devices import DeviceAttribute, DeviceSelector, ExactDeviceRequest, ResourceClaimSpec
from kube.topology import DeviceLevel, Topology
from planning.devices.verifying import PlacedPod

Levels = Mapping[str, Sequence[DeviceLevel]]
"""By pod (`namespace/name`), the levels below the node of which its devices must share one domain."""


def levels_by_pod(gang: Gang, topology: Topology) -> Levels:
    """Return, by member (`namespace/name`), the required levels below the node: the member's devices must be in one
    domain of each.
    """
    of_nodes = {name for level in topology.levels for name in (level.name, *level.label_keys, *level.aliases)}
    sets = {each.name: each.required for each in gang.pod_sets}
    found: dict[str, list[DeviceLevel]] = {}
    for member in gang.members:
        names = {gang.required, sets.get(member.pod_set)} - of_nodes | {gang.device_level}
        own = [each for each in topology.below if names & {each.name, *each.attributes}]
        if own:
            found[member.pod.key] = own
    return found


def level_faults(placed: Sequence[PlacedPod], levels: Levels, devices: Devices) -> Iterator[str]:
    """Yield one fault for each pod whose devices are in several domains of a level that binds the pod, or in no domain
    of it.
    """
    by_claim = {
        (pod, allocation.pod_claim or allocation.name): allocation
        for each in placed
        for allocation in each.allocations
        for pod in (f"{allocation.namespace}/{one}" for one in allocation.pods)
    }
    if not levels:
        return
    reader = _Reader(devices)
    specs = [_spec(claim) for each in placed for claim in devices.claims_of(each.pod)]
    every = {level for own in levels.values() for level in own}
    attribute = {
        level: next((name for name in level.attributes if any(reader.publishes(one, name) for one in specs)), "")
        for level in every
    }
    for each in placed:
        for level in levels.get(each.pod.key, ()):
            values = set[DeviceAttribute | None]()
            for claim in devices.claims_of(each.pod):
                allocation = by_claim.get((each.pod.key, claim.entry)) or by_claim.get((each.pod.key, _name(claim)))
                for one in allocation.devices if allocation is not None else ():
                    if one.admin_access or not reader.counts(_spec(claim), one.request, attribute[level]):
                        continue
                    content = devices.inventory.content_at(devices.inventory.positions[one.device])
                    values.add(_value(content, attribute[level]))
            if len(values) > 1 or None in values:
                yield f"{each.pod.key}: its devices are not in one domain of {level.name}"


def _name(claim: PodClaim) -> str:
    return claim.claim.metadata.name if claim.claim is not None else ""


def _spec(claim: PodClaim) -> ResourceClaimSpec:
    if claim.claim is not None:
        return claim.claim.spec
    return claim.template.spec.spec if claim.template is not None else ResourceClaimSpec()


def _alternatives(spec: ResourceClaimSpec) -> Iterator[tuple[str, ExactDeviceRequest]]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for each in request.first_available:
            yield f"{request.name}/{each.name}", each


@dataclass(slots=True)
class _Reader:
    """Finds whether requests select a device with an attribute. The results are cached, so equal requests are evaluated
    once.
    """

    devices: Devices
    _known: dict[tuple[str, tuple[DeviceSelector, ...], str], bool] = field(default_factory=dict)

    def publishes(self, spec: ResourceClaimSpec, attribute: str) -> bool:
        """Return whether a request of the claim selects a device with the attribute."""
        return any(self._selects(request, attribute) for _, request in _alternatives(spec))

    def counts(self, spec: ResourceClaimSpec, name: str, attribute: str) -> bool:
        """Return whether the request or alternative `name` selects a device with the attribute."""
        return self._selects(dict(_alternatives(spec))[name], attribute)

    def _selects(self, request: ExactDeviceRequest, attribute: str) -> bool:
        key = request.device_class_name, request.selectors, attribute
        if key not in self._known:
            of_class = self.devices.classes[request.device_class_name].spec.selectors
            expressions = [one.cel.expression for one in (*of_class, *request.selectors) if one.cel is not None]
            having = (one for one in self.devices.inventory.contents if _value(one, attribute) is not None)
            self._known[key] = any(all(matches(e, one.device, one.driver) for e in expressions) for one in having)
        return self._known[key]


def _value(content: Content, attribute: str) -> DeviceAttribute | None:
    domain, _, name = attribute.partition("/")
    own = content.device.attributes.get(name) if domain == content.driver else None
    return content.device.attributes.get(attribute, own)
