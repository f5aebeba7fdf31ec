"""What the pods of a gang ask for: their claims, resolved with the DeviceClasses and templates that they name."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from cluster.devices.claims import Devices, PodClaim
from cluster.devices.inventory import Flags, Inventory
from cluster.devices.selectors import SelectorError, check, matches
from cluster.eligibility.taints import untolerated
from kube.devices import DeviceRequest, DeviceSelector, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec
from kube.keys import GATE
from kube.objects import NodeSelector, Pod, Taint, Toleration

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
ALL = "All"
EXACT = "ExactCount"


class Kind(NamedTuple):
    """The devices that one request accepts: those that match all CEL `selectors` and whose taints are tolerated.

    `label`: the name of the DeviceClass, and the selectors of the request, for messages.
    """

    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim. `name`: as in the results of an allocation. `count`: the number of devices; 0 for all.

    `admin`: the devices are only observed, and may be allocated to other claims.
    """

    name: str
    kind: Kind
    count: int
    admin: bool = False


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """A claim that needs devices. `name`: "" if it does not exist yet. `entry`: its entry in the pod, if it is the
    pod's own; "" for a claim that the pod names.
    """

    namespace: str
    name: str
    entry: str
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What one pod needs. `claims`: claims without devices. `pins`: where the devices of other claims are usable."""

    claims: tuple[ClaimDemand, ...] = ()
    pins: tuple[NodeSelector, ...] = ()


NO_DEMAND = PodDemand()


class NotPlannedError(Exception):
    """A pod asks for devices in a way that Phalanx does not plan. The text, a part of a message, says in which way."""


@dataclass(slots=True)
class DemandTable:
    """The demands of pods. Equal claims of pods are resolved once."""

    devices: Devices
    _known: dict[bytes, PodDemand] = field(default_factory=dict)

    def of(self, pod: Pod) -> PodDemand:
        """Return what the pod needs beyond the devices that it has.

        Expects that `missing` is empty for the pod. Raises `NotPlannedError`.
        """
        if not pod.spec.resource_claims:
            return NO_DEMAND
        key = _encode(
            (pod.metadata.namespace, pod.spec.resource_claims, pod.status.resource_claim_statuses, pod.gated_by(GATE))
        )
        if key not in self._known:
            self._known[key] = self._demand(pod)
        return self._known[key]

    def _demand(self, pod: Pod) -> PodDemand:
        claims, pins = list[ClaimDemand](), list[NodeSelector]()
        for each in self.devices.claims_of(pod):
            if each.claim is not None and each.claim.status.allocation is not None and not is_held(each.claim, pod):
                if (selector := each.claim.status.allocation.node_selector) is not None:
                    pins.append(selector)
            else:
                claims.append(self._claim(pod, each))
        return PodDemand(tuple(claims), tuple(pins))

    def _claim(self, pod: Pod, each: PodClaim) -> ClaimDemand:
        spec = _spec_of(each)
        if each.claim is not None and not _of_template(each.claim):
            raise NotPlannedError(f"claims that pods name (ResourceClaim {each.claim.metadata.name})")
        if spec.devices.constraints:
            raise NotPlannedError("constraints between the devices of a claim (matchAttribute, distinctAttribute)")
        requests = tuple(self._request(one) for one in spec.devices.requests)
        name = each.claim.metadata.name if each.claim is not None else ""
        return ClaimDemand(pod.metadata.namespace, name, each.entry, requests)

    def _request(self, request: DeviceRequest) -> Request:
        if request.exactly is None:
            raise NotPlannedError(f'requests with alternatives (firstAvailable, request "{request.name}")')
        exactly = request.exactly
        if exactly.allocation_mode != EXACT:
            raise NotPlannedError(f'the allocation mode {exactly.allocation_mode} (request "{request.name}")')
        if exactly.capacity is not None and exactly.capacity.requests:
            raise NotPlannedError(f'requests for a part of a device\'s capacity (request "{request.name}")')
        if exactly.admin_access:
            raise NotPlannedError(f'adminAccess (request "{request.name}")')
        return Request(request.name, self._kind(exactly), exactly.count, exactly.admin_access)

    def _kind(self, request: ExactDeviceRequest) -> Kind:
        of_class = self.devices.classes[request.device_class_name].spec.selectors
        own = _expressions(request.selectors)
        label = request.device_class_name
        if own:
            label += f" with {' and '.join(' '.join(each.split()) for each in own)}"
        return Kind((*_expressions(of_class), *own), request.tolerations, label)


def is_held(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim's devices are held for this gated pod alone, so that a new plan may give them back.

    The stock scheduler allocates no devices to a gated pod: these were allocated by Phalanx.
    """
    users = claim.status.reserved_for
    return pod.gated_by(GATE) and [(each.resource, each.name) for each in users] == [("pods", pod.metadata.name)]


def missing(pod: Pod, devices: Devices) -> Iterator[str]:
    """Yield the objects that the pod's claims name and that do not exist, such as "DeviceClass gpu"."""
    for each in devices.claims_of(pod):
        if each.wanted:
            yield each.wanted
            continue
        for name in _classes(_spec_of(each)):
            if name not in devices.classes:
                yield f"DeviceClass {name}"


def _classes(spec: ResourceClaimSpec) -> Iterator[str]:
    for request in spec.devices.requests:
        every = (request.exactly,) if request.exactly is not None else request.first_available
        yield from (each.device_class_name for each in every)


def _spec_of(each: PodClaim) -> ResourceClaimSpec:
    if each.claim is not None:
        return each.claim.spec
    return each.template.spec.spec if each.template is not None else ResourceClaimSpec()


def _of_template(claim: ResourceClaim) -> bool:
    """Whether the claim was created for one pod, from a template."""
    return any(each.kind == "Pod" and each.controller for each in claim.metadata.owner_references)


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    found = tuple(each.cel.expression if each.cel is not None else "" for each in selectors)
    if not all(found):
        raise NotPlannedError("selectors of devices that are not written in CEL")
    return found


def accepting(kind: Kind, inventory: Inventory) -> Flags:
    """Return which of the inventory's contents a request of this kind accepts. The result must not be changed.

    Raises `NotPlannedError` if a selector is not understood, or fails for a device that all selectors before it match.
    """
    key = kind.selectors, kind.tolerations
    if key not in inventory.flags:
        found = np.zeros(len(inventory.contents), dtype=np.bool_)
        try:
            for expression in kind.selectors:
                check(expression)
            for place, content in enumerate(inventory.contents):
                selected = all(matches(each, content.device, content.driver) for each in kind.selectors)
                found[place] = selected and _bearable(place, inventory, kind.tolerations)
        except SelectorError as error:
            raise NotPlannedError(str(error)) from None
        inventory.flags[key] = found
    return inventory.flags[key]


def _bearable(place: int, inventory: Inventory, tolerations: Sequence[Toleration]) -> bool:
    taints = inventory.contents[place].device.taints
    return (
        untolerated([Taint(key=each.key, value=each.value, effect=each.effect) for each in taints], tolerations) is None
    )
