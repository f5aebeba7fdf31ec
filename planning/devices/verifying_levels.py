"""Checks that a plan's devices keep the levels below the node that a gang requires.

It reads the gang, the topology, the claims and the slices again, without the constraints and searches of the planner.
"""

from collections.abc import Iterator, Mapping, Sequence

from cluster.devices.claims import Devices, PodClaim
from cluster.devices.inventory import Content
from cluster.devices.selectors import matches
from gangs.model import Gang
from kube.devices import DeviceAttribute, ExactDeviceRequest, ResourceClaimSpec
from kube.topology import DeviceLevel, Topology
from planning.devices.verifying import PlacedPod

Levels = Mapping[str, Sequence[DeviceLevel]]
"""By pod (`namespace/name`), the levels below the node of which its devices must share one domain."""


def levels_by_pod(gang: Gang, topology: Topology) -> Levels:
    """Return the levels below the node that bind the members of a gang."""
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
    """Yield the pods whose devices are in several domains of a level, or in none."""
    by_claim = {
        (pod, allocation.pod_claim or allocation.name): allocation
        for each in placed
        for allocation in each.allocations
        for pod in (f"{allocation.namespace}/{one}" for one in allocation.pods)
    }
    contents = devices.inventory.contents
    every = {level for own in levels.values() for level in own}
    specs = [_spec(claim) for each in placed for claim in devices.claims_of(each.pod)]
    selected = [content for content in contents if any(_selects(spec, content, devices) for spec in specs)]
    attribute = {
        level: next((name for name in level.attributes if any(_value(content, name) for content in selected)), "")
        for level in every
    }
    for each in placed:
        for level in levels.get(each.pod.key, ()):
            values = set[DeviceAttribute | None]()
            for claim in devices.claims_of(each.pod):
                allocation = by_claim.get((each.pod.key, claim.entry)) or by_claim.get((each.pod.key, _name(claim)))
                for one in allocation.devices if allocation is not None else ():
                    if one.admin_access or not _counts(_spec(claim), one.request, attribute[level], devices):
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


def _selects(spec: ResourceClaimSpec, content: Content, devices: Devices) -> bool:
    return any(_matches(request, content, devices) for _, request in _alternatives(spec))


def _matches(request: ExactDeviceRequest, content: Content, devices: Devices) -> bool:
    selectors = (*devices.classes[request.device_class_name].spec.selectors, *request.selectors)
    return all(
        each.cel is not None and matches(each.cel.expression, content.device, content.driver) for each in selectors
    )


def _counts(spec: ResourceClaimSpec, name: str, attribute: str, devices: Devices) -> bool:
    """Return whether the request `name` can get devices that have the attribute."""
    request = dict(_alternatives(spec))[name]
    having = (each for each in devices.inventory.contents if _value(each, attribute) is not None)
    return any(_matches(request, each, devices) for each in having)


def _value(content: Content, attribute: str) -> DeviceAttribute | None:
    domain, _, name = attribute.partition("/")
    own = content.device.attributes.get(name) if domain == content.driver else None
    return content.device.attributes.get(attribute, own)
