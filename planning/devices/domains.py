"""Levels below the node: the domains that devices form by the values of an attribute, such as NVLink domains.

A topology names the attribute (`kube.topology.DeviceLevel`). A domain of such a level is all devices of one node with
one value. All devices without a value are one further domain of their node.

A level that a gang requires binds each member: the devices of its claims share one domain. This is one more constraint
of the claims (`bound`), so it decides which nodes can hold which members. After the choice of nodes, the members of
a gang get devices in as few domains as possible, level by level from the widest (`FewestDomains`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from cluster.devices.inventory import Flags, IntColumn, Inventory
from gangs.model import Gang
from kube.devices import DeviceAttribute
from kube.topology import DeviceLevel, Topology
from planning.devices.demands import (
    Asked,
    ClaimDemand,
    Constraint,
    NotPlannedError,
    PodDemand,
    Request,
    requests_of,
)
from planning.devices.kinds import selected
from planning.devices.node_search import concerned_contents, value_of

NO_VALUE = -1
"""The number of the domain of devices that lack the attribute."""


@dataclass(frozen=True, slots=True)
class DomainLevel:
    """A level below the node, with its domains on the devices of an inventory.

    `attribute`: the attribute of devices that defines the level. `of_content`: for each content of the inventory, the
    number of its domain, or `NO_VALUE`. `values`: for each number of a domain, the attribute's value as text.
    """

    level: DeviceLevel
    attribute: str
    of_content: IntColumn
    values: tuple[str, ...]

    def concerns(self, request: Request, inventory: Inventory) -> bool:
        """Return whether the request selects devices of which some have a value of the attribute."""
        return not request.admin and bool((selected(request.kind, inventory) & (self.of_content != NO_VALUE)).any())

    def text(self, domain: int) -> str:
        """Return the name of the domain with this number, for messages."""
        return "(none)" if domain == NO_VALUE else self.values[domain]


def domain_levels(below: Iterable[DeviceLevel], counting: Flags, inventory: Inventory) -> tuple[DomainLevel, ...]:
    """Return the levels of `below` for which a device publishes a value. `counting`: one flag for each content of the
    inventory: whether its value is considered.

    If a level has several attributes, the level uses the first attribute of which a device has a value.
    """
    found = []
    for level in below:
        for attribute in level.attributes:
            of_content, values = _domains(attribute, inventory)
            if (counting & (of_content != NO_VALUE)).any():
                found.append(DomainLevel(level, attribute, of_content, values))
                break
    return tuple(found)


_Domains = tuple[IntColumn, tuple[str, ...]]
"""`of_content` and `values` of a `DomainLevel`."""
_known: WeakKeyDictionary[Inventory, dict[str, _Domains]] = WeakKeyDictionary()


def _domains(attribute: str, inventory: Inventory) -> _Domains:
    """Return the domains that an attribute defines. The result is cached for each inventory, because an inventory may
    have 40,000 contents.
    """
    known = _known.setdefault(inventory, {})
    if attribute not in known:
        values = [value_of(each.device, each.driver, attribute) for each in inventory.contents]
        numbers: dict[DeviceAttribute, int] = {}
        for value in values:
            if value is not None:
                numbers.setdefault(value, len(numbers))
        of_content = np.array([NO_VALUE if each is None else numbers[each] for each in values], dtype=np.int64)
        known[attribute] = of_content, tuple(map(_text, numbers))
    return known[attribute]


def _text(value: DeviceAttribute) -> str:
    for each in (value.string, value.version, value.int_):
        if each is not None:
            return str(each)
    return str(value.bool_).lower()


def required_levels(gang: Gang, topology: Topology) -> dict[str, tuple[DeviceLevel, ...]]:
    """Return, by pod set of the gang, the levels below the node that the gang requires for its members."""
    by_dialect = next((each for each in topology.below if gang.device_level and each.named_by(gang.device_level)), None)
    found = {}
    for pod_set in gang.pod_sets:
        named = [topology.find_below(name) for name in (gang.required, pod_set.required) if name is not None]
        found[pod_set.name] = tuple(dict.fromkeys(each for each in (by_dialect, *named) if each is not None))
    return found


def without_required(gang: Gang, topology: Topology) -> tuple[Gang, tuple[str, ...]]:
    """Return the gang without its required levels below the node, and the names of these levels."""
    names = dict.fromkeys(each.name for levels in required_levels(gang, topology).values() for each in levels)

    def kept(required: str | None) -> str | None:
        return None if required is not None and topology.find_below(required) else required

    if not names:
        return gang, ()
    pod_sets = tuple(replace(each, required=kept(each.required)) for each in gang.pod_sets)
    return replace(gang, required=kept(gang.required), device_level=None, pod_sets=pod_sets), tuple(names)


def bound(
    demand: PodDemand, required: Sequence[DeviceLevel], levels: Sequence[DomainLevel], inventory: Inventory
) -> PodDemand:
    """Return the demand of a member with the constraints of its required levels below the node: its devices share one
    domain of each level.

    Devices for administration are exempt. Raises `NotPlannedError` if several claims of the member would have to share
    a domain, or if a part of its devices is chosen already.
    """
    for level in required:
        known = next((each for each in levels if each.level == level), None)
        if known is None:
            continue
        names = [bool(_concerned(claim, known, inventory)) for claim in demand.claims]
        if sum(names) > 1:
            raise NotPlannedError(
                f'the level "{level.name}" below the node for a pod with several claims for its devices'
            )
        if any(names) and demand.pins:
            raise NotPlannedError(
                f'the level "{level.name}" below the node for a pod of which a claim has devices already'
            )
        demand = replace(demand, claims=tuple(constrained(claim, known, inventory) for claim in demand.claims))
    return demand


def _concerned(claim: ClaimDemand, level: DomainLevel, inventory: Inventory) -> frozenset[str]:
    every = (one for alternatives in claim.asked.requests for one in alternatives)
    return frozenset(one.name for one in every if level.concerns(one, inventory))


def constrained(claim: ClaimDemand, level: DomainLevel, inventory: Inventory) -> ClaimDemand:
    """Return the claim with the constraint that its devices share one domain of the level.

    Devices of requests that select no device with a domain are exempt.
    """
    names, asked = _concerned(claim, level, inventory), claim.asked
    constraint = Constraint(names, level.attribute, distinct=False)
    if not names or constraint in asked.constraints:
        return claim
    return replace(claim, asked=asked._replace(constraints=(*asked.constraints, constraint)))


def with_levels(
    gangs: Sequence[Gang], demands: Mapping[str, PodDemand], topology: Topology | None, inventory: Inventory
) -> tuple[dict[str, PodDemand], tuple[DomainLevel, ...]]:
    """Return the demands with the constraints of required levels below the node, and the levels that devices publish.

    `demands`: the demands of the gangs' pods, by pod. Only levels of the topology and selected devices count.

    Raises `NotPlannedError` in four cases. Several claims of a member would have to share a domain. A part of a
    member's devices is chosen already. No selected device has the attribute of a required level. Pods of pod sets with
    different required levels share a claim.
    """
    if topology is None:
        return dict(demands), ()
    counting = concerned_contents(requests_of(demands.values()), inventory)
    required_by_any = {each for gang in gangs for own in required_levels(gang, topology).values() for each in own}
    below = [each for each in topology.below if not each.only_required or each in required_by_any]
    levels = domain_levels(below, counting, inventory)
    found = dict(demands)
    known: dict[tuple[int, tuple[DeviceLevel, ...]], PodDemand] = {}
    for gang in gangs:
        by_set = required_levels(gang, topology)
        own = [(each.pod.key, by_set.get(each.pod_set, ())) for each in gang.members if each.pod.key in demands]
        for level in dict.fromkeys(level for _, required in own for level in required):
            _check_published(level, [demands[pod] for pod, required in own if level in required], levels, inventory)
        for pod, required in own:
            key = id(demands[pod]), required
            if key not in known:  # equal demands stay one object
                known[key] = bound(demands[pod], required, levels, inventory)
            found[pod] = known[key]
    _check_shared(found.values())
    return found, levels


def _check_published(
    level: DeviceLevel, demands: Iterable[PodDemand], levels: Sequence[DomainLevel], inventory: Inventory
) -> None:
    """Raise `NotPlannedError` if no device that these demands select has a value of the level's attribute."""
    claims = [claim for demand in demands for claim in demand.claims]
    known = next((each for each in levels if each.level == level), None)
    if claims and (known is None or not any(_concerned(claim, known, inventory) for claim in claims)):
        if not level.attributes:
            raise NotPlannedError(f'the level "{level.name}" below the node, for which the topology names no attribute')
        what = (
            f'the level "{level.name}" below the node, of which no selected device in a ResourceSlice has the attribute'
        )
        raise NotPlannedError(f"{what} ({' or '.join(level.attributes)})")


def _check_shared(demands: Iterable[PodDemand]) -> None:
    asked: dict[str, Asked] = {}
    for claim in (claim for demand in demands for claim in demand.claims):
        if claim.shared_as and asked.setdefault(claim.shared_as, claim.asked) != claim.asked:
            raise NotPlannedError(f"a claim that pods with different levels below the node share ({claim.name})")
