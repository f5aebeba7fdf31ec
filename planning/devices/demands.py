"""The demands of a gang's pods for devices: their claims, with the DeviceClasses and templates that they name."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

import msgspec

from cluster.devices.capacity import amounts_asked, written
from cluster.devices.claims import Devices, PodClaim
from cluster.devices.extended_resources import converted_entry
from kube.devices import (
    GROUP,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kube.objects import NodeSelector, NodeSelectorTerm, Pod, Requirement, Toleration

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
ALL = "All"
EXACT = "ExactCount"
MOST_IN_CLAIM = 32
"""The most devices of one claim (API: AllocationResultsMaxSize)."""
MOST_USERS = 256
"""The most pods that use one claim (API: ResourceClaimReservedForMaxSize)."""


class Kind(NamedTuple):
    """The devices that one request accepts: those that match all CEL `selectors` and whose taints are tolerated.

    `capacity`: the amounts that the request asks for of a device's capacities, by name and in the order of names.
    `label`: the name of the DeviceClass, and the selectors of the request, for messages.
    """

    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    label: str
    capacity: tuple[tuple[str, Decimal], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices in a ResourceClaim, or one of the alternatives of such a request.

    `name`: the name that an allocation's results use, such as `gpu` or `gpu/large`. `count`: the number of devices; 0
    for all devices of the node that match the selectors. A user may write any number, so each number above
    `MOST_IN_CLAIM` is replaced by `MOST_IN_CLAIM` + 1. `admin`: the devices are only observed, and may be allocated to
    other claims.
    """

    name: str
    kind: Kind
    count: int
    admin: bool = False

    @property
    def every(self) -> bool:
        """Whether the request is for all devices of the node that match its selectors."""
        return self.count == 0


class Constraint(NamedTuple):
    """A constraint of a claim: the devices of some of its requests have equal values of one attribute. If `distinct` is
    True, the values are pairwise different instead.

    `requests`: names of requests or of alternatives; empty: all requests of the claim. `attribute`: the attribute's
    name with its domain.
    """

    requests: frozenset[str]
    attribute: str
    distinct: bool

    def concerns(self, request: Request) -> bool:
        """Whether the constraint is about the devices of this request."""
        return not self.requests or bool({request.name, request.name.partition("/")[0]} & self.requests)


class Asked(NamedTuple):
    """The requests and constraints of a claim, without the claim's name. `requests`: for each request its alternatives,
    the preferred one first.
    """

    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[Constraint, ...] = ()

    @property
    def by_number(self) -> bool:
        """Whether only numbers of devices matter for the claim. False if the claim has alternatives, constraints,
        observed devices (`admin`), or a request for all devices.
        """
        alone = all(len(each) == 1 and not each[0].admin and not each[0].every for each in self.requests)
        return alone and not self.constraints


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """A claim to which devices must be allocated. `name`: "" if the claim does not exist yet. `entry`: the name of the
    entry in `spec.resourceClaims`, for a claim that is created from a template for one pod; "" for a claim that pods
    name.
    """

    namespace: str
    name: str
    entry: str
    asked: Asked

    @property
    def shared_as(self) -> str:
        """The `namespace/name` of a claim that pods name, and can share; "" for a pod's own claim."""
        return "" if self.entry else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodDemand:
    """The devices that one pod still needs. `claims`: its claims to which no devices are allocated. `pins`: for each
    claim that has devices already, the nodes on which these devices are usable.
    """

    claims: tuple[ClaimDemand, ...] = ()
    pins: tuple[NodeSelector, ...] = ()


NO_DEMAND = PodDemand()


class NotPlannedError(Exception):
    """A pod asks for devices in a way that Phalanx does not plan. The text, a part of a message, says in which way."""


class ClaimTooLargeError(NotPlannedError):
    """A claim asks for more devices than one claim can get, so no scheduler allocates it. The text is the claim, with
    the field that asks for the devices.
    """


class ClaimOfTooManyPodsError(NotPlannedError):
    """More pods use a claim than `status.reservedFor` can have, so no scheduler can start all of them. The text is the
    claim.
    """


@dataclass(slots=True)
class DemandTable:
    """Computes the demand of each pod for devices. Pods with equal claims share one result."""

    devices: Devices
    gated: frozenset[str] = frozenset()
    """The gated pods of the gangs that are planned, as `namespace/name`."""
    _known: dict[bytes, PodDemand] = field(default_factory=dict)

    def of(self, pod: Pod) -> PodDemand:
        """Return which devices the pod needs in addition to the devices that it has already.

        Expects that all objects that the pod's claims name exist (`missing` is empty). Raises `NotPlannedError`.
        """
        if not pod.spec.resource_claims:
            return NO_DEMAND
        key = _encode((pod.metadata.namespace, pod.spec.resource_claims, pod.status.resource_claim_statuses))
        if key not in self._known:
            self._known[key] = self._demand(pod)
        return self._known[key]

    def _demand(self, pod: Pod) -> PodDemand:
        claims, pins = list[ClaimDemand](), list[NodeSelector]()
        named = dict[str, PodClaim]()  # two entries of a pod may name one claim
        for each in self.devices.claims_of(pod):
            if each.claim is not None and named.setdefault(each.claim.key, each) is not each:
                continue
            planned = self.devices.planned_node(each.claim)
            if planned:
                pins.append(_only(planned))
            elif each.claim is not None and each.claim.status.allocation is not None and not self._is_held(each.claim):
                if (selector := each.claim.status.allocation.node_selector) is not None:
                    pins.append(selector)
            else:
                claims.append(self._claim(pod, each))
        return PodDemand(tuple(claims), tuple(pins))

    def _is_held(self, claim: ResourceClaim) -> bool:
        """Whether the claim's devices count as not allocated, because only gated pods of the planned gangs use the
        claim. A new plan may then choose other devices for it.

        Phalanx has allocated these devices, because the stock scheduler allocates no devices to a gated pod.
        """
        users = claim.status.reserved_for
        return bool(users) and all(f"{claim.metadata.namespace}/{each.name}" in self.gated for each in users)

    def _claim(self, pod: Pod, each: PodClaim) -> ClaimDemand:
        spec = _spec_of(each).devices
        requests = tuple(self._request(one) for one in spec.requests)
        if sum(min(one.count for one in alternatives) for alternatives in requests) > MOST_IN_CLAIM:
            raise ClaimTooLargeError(_written_in(pod, each))
        constraints = tuple(_constraint(one) for one in spec.constraints)
        own = each.claim is None or _of_template(each.claim)
        name = each.claim.metadata.name if each.claim is not None else ""
        asked = Asked(requests, constraints)
        return ClaimDemand(pod.metadata.namespace, name, each.entry if own else "", asked)

    def _request(self, request: DeviceRequest) -> tuple[Request, ...]:
        if request.exactly is not None:
            return (self._alternative(request.name, request.exactly),)
        return tuple(self._alternative(f"{request.name}/{each.name}", each) for each in request.first_available)

    def _alternative(self, name: str, request: ExactDeviceRequest) -> Request:
        if request.allocation_mode not in (EXACT, ALL):
            raise NotPlannedError(f'the allocation mode {request.allocation_mode} (request "{name}")')
        count = 0 if request.allocation_mode == ALL else min(request.count, MOST_IN_CLAIM + 1)
        return Request(name, self._kind(request), count, request.admin_access)

    def _kind(self, request: ExactDeviceRequest) -> Kind:
        of_class = self.devices.classes[request.device_class_name].spec.selectors
        own = _expressions(request.selectors)
        label = request.device_class_name
        if own:
            label += f" with {' and '.join(' '.join(each.split()) for each in own)}"
        capacity = _amounts(request)
        if capacity:
            label += f" with {' and '.join(f'{amount} of {name}' for name, amount in written(dict(capacity)))}"
        return Kind((*_expressions(of_class), *own), request.tolerations, label, capacity)


def _written_in(pod: Pod, claim: PodClaim) -> str:
    """Return the object and the field in which the user wrote the requests of a pod's claim, for messages."""
    if claim.entry == converted_entry(pod):
        return "spec.containers[*].resources"
    if claim.template is not None:
        return f"ResourceClaimTemplate {claim.template.metadata.name}: spec.spec.devices.requests"
    return f"ResourceClaim {claim.claim.metadata.name if claim.claim is not None else ''}: spec.devices.requests"


def _amounts(request: ExactDeviceRequest) -> tuple[tuple[str, Decimal], ...]:
    try:
        return amounts_asked(request.capacity)
    except ValueError as error:
        raise NotPlannedError(f"a capacity of which {error}") from None


def _only(node: str) -> NodeSelector:
    """Return the selector of one node, by its name."""
    term = NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=(node,)),))
    return NodeSelector(node_selector_terms=(term,))


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


def _constraint(constraint: DeviceConstraint) -> Constraint:
    attribute = constraint.match_attribute or constraint.distinct_attribute
    if not attribute:
        raise NotPlannedError(f"constraints of {GROUP} other than matchAttribute and distinctAttribute")
    return Constraint(frozenset(constraint.requests), attribute, bool(constraint.distinct_attribute))


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    found = tuple(each.cel.expression if each.cel is not None else "" for each in selectors)
    if not all(found):
        raise NotPlannedError("selectors of devices that are not written in CEL")
    return found


def requests_of(demands: Iterable[PodDemand]) -> list[Request]:
    """Return every request of these pods once, alternatives included."""
    every = (
        request
        for demand in demands
        for claim in demand.claims
        for alternatives in claim.asked.requests
        for request in alternatives
    )
    return list(dict.fromkeys(every))


def most_devices(asked: Asked, *, every: int) -> int:
    """Return the largest number of devices that the claim may take for itself. Of a request's alternatives, the one
    with the most devices counts. `every`: the number that counts for a request for all devices.
    """
    return sum(max(_taken(each, every) for each in alternatives) for alternatives in asked.requests)


def fewest_devices(asked: Asked) -> int:
    """Return the smallest number of devices that the claim may take for itself. Of a request's alternatives, the one
    with the fewest devices counts. A request for all devices counts as 1.
    """
    return sum(min(_taken(each, 1) for each in alternatives) for alternatives in asked.requests)


def _taken(request: Request, every: int) -> int:
    if request.admin:
        return 0
    return every if request.every else request.count


def claims_asked(claims: Sequence[ClaimDemand]) -> tuple[Asked, ...]:
    """Return what these claims ask for, without their names."""
    return tuple(each.asked for each in claims)
