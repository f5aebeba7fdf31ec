"""Devices as resources of the solver's problem: one column of whole numbers for each set of kinds that can be short.

Members ask for numbers of devices of several kinds, and a device may be of several kinds. By Hall's theorem a node can
serve given numbers at once if and only if for each set of kinds the members ask for at most as many devices as are of
any of these kinds. So each such set is a resource. A set is left out if other sets imply its limit.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from cluster.devices.claims import Devices
from cluster.devices.inventory import NOWHERE, Flags, IntColumn
from cluster.evictable_pods import EvictablePods
from cluster.room_columns import RoomColumn
from cluster.snapshot import Snapshot
from gangs.model import Member
from kube.keys import GATE
from planning.devices.demands import DemandTable, Kind, NotPlannedError, PodDemand, accepting

MOST_KINDS = 6
"""The most kinds of devices that one problem may have: 63 sets of kinds at most."""


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """The devices of one problem as resources.

    `names`: of the resources. `demands`: what each member needs, by its pod's `namespace/name`. `asked`: the amounts of
    these demands by resource. `free` and `terminating`: which devices of the inventory are free for the gang, and
    which of them a terminating pod still uses. `counted`: by resource, the devices that count in it. `gone`: the pods
    that count as gone, as `namespace/name`.
    """

    names: tuple[str, ...] = ()
    demands: Mapping[str, PodDemand] = field(default_factory=dict)
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = ()
    free: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    terminating: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    counted: Mapping[str, Flags] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    devices: Devices = field(default_factory=Devices)

    def column(self, name: str, snapshot: Snapshot) -> RoomColumn:
        """Return the free and the terminating amount of a resource on each node of the snapshot."""
        return RoomColumn(
            _by_node(self.counted[name] & self.free, snapshot).tolist(),
            _by_node(self.counted[name] & self.terminating, snapshot).tolist(),
        )

    def on(self, nodes: Collection[str]) -> Flags:
        """Return which devices of the inventory are on one of these nodes."""
        inventory = self.devices.inventory
        inside = np.array([*(name in nodes for name in inventory.nodes), False], dtype=np.bool_)
        found: Flags = inside[inventory.node]  # `NOWHERE` is the last entry
        return found

    def largest(self, snapshot: Snapshot) -> dict[str, int]:
        """Return by resource the amount of the node that has most of it, whether it is free or not."""
        return {name: max(_by_node(each, snapshot).tolist(), default=0) for name, each in self.counted.items()}

    def freed_by(self, name: str, pods: EvictablePods) -> list[int]:
        """Return for each of these pods how much of a resource its eviction frees."""
        found, devices = [0] * len(pods.keys), self.devices
        if not devices.uses_of:
            return found
        for place, key in enumerate(pods.keys):
            if key in devices.uses_of:
                found[place] = int(self.counted[name][list(freed(key, devices, self.gone))].sum())
        return found


NO_DEVICES = DeviceColumns()


def freed(pod: str, devices: Devices, gone: Collection[str]) -> Iterable[int]:
    """Yield the devices that become free when this pod (`namespace/name`) goes: nobody else has a claim on them.

    `gone`: the pods that count as gone already.
    """
    for place in devices.uses_of.get(pod, ()):
        use = devices.uses[place]
        if all(each == pod or each in gone for each in use.consumers):
            yield from (each for each in use.positions if devices.holders[each] == 1)


def device_columns(members: Sequence[Member], snapshot: Snapshot, *, priority: int) -> DeviceColumns:
    """Return the devices as resources of the problem in which these members are placed.

    `members`: all members of the gangs. `priority`: the gangs' priority. Devices that are only held
    for pods of lower priority count as free. Raises `NotPlannedError`.
    """
    devices = snapshot.devices
    asking = [each.pod for each in members if each.pod.spec.resource_claims and not each.pod.bound]
    if devices is None or not asking:
        return NO_DEVICES
    table = DemandTable(devices)
    demands = {pod.key: table.of(pod) for pod in asking}
    amounts = {key: _kinds_of(demand) for key, demand in demands.items()}
    kinds = tuple(dict.fromkeys(kind for each in amounts.values() for kind in each))
    if len(kinds) > MOST_KINDS:
        raise NotPlannedError(f"more than {MOST_KINDS} kinds of devices in one gang")
    accepted = [_planned(kind, devices) for kind in kinds]
    sets = _sets(accepted)
    names = _names(kinds, sets)
    gone, leaving = _gone(snapshot, members, priority)
    free, terminating = _free(devices, gone, leaving)
    content = devices.inventory.content
    return DeviceColumns(
        names=tuple(names),
        demands=demands,
        asked={
            key: {
                name: sum(each.get(kinds[one], 0) for one in one_set) for name, one_set in zip(names, sets, strict=True)
            }
            for key, each in amounts.items()
        },
        kinds=kinds,
        free=free,
        terminating=terminating,
        counted={
            name: np.logical_or.reduce([accepted[one] for one in one_set])[content]
            for name, one_set in zip(names, sets, strict=True)
        },
        gone=frozenset(gone | leaving),
        devices=devices,
    )


def _kinds_of(demand: PodDemand) -> dict[Kind, int]:
    """Return how many devices of each kind the pod needs for itself."""
    found: dict[Kind, int] = {}
    for claim in demand.claims:
        for request in claim.requests:
            if not request.admin:
                found[request.kind] = found.get(request.kind, 0) + request.count
    return found


def _planned(kind: Kind, devices: Devices) -> Flags:
    """Return the contents that the kind accepts. Raises `NotPlannedError` if they cannot be planned by numbers."""
    found, inventory = accepting(kind, devices.inventory), devices.inventory
    for place in np.flatnonzero(found).tolist():
        device = inventory.contents[place].device
        if not inventory.contents[place].plain:
            raise NotPlannedError(f"devices that share counters or capacity ({kind.label})")
        if device.binding_conditions:
            raise NotPlannedError(f"devices with binding conditions ({kind.label})")
    if found[inventory.content[inventory.node == NOWHERE]].any():
        raise NotPlannedError(f"devices that are not on one node ({kind.label})")
    return found


def _sets(accepted: Sequence[Flags]) -> list[tuple[int, ...]]:
    """Return the sets of kinds whose limits imply the limits of all sets, as positions of kinds.

    `accepted`: by kind, the contents that it accepts. A set needs no limit of its own if another kind accepts only
    contents that a kind of the set accepts (the larger set has the same limit), or if the kinds fall into two parts
    that no content connects (the limits of the parts imply the limit of the set).
    """
    places = range(len(accepted))
    found: list[tuple[int, ...]] = [(one,) for one in places if not accepted[one].any()]
    some = [one for one in places if accepted[one].any()]
    for size in range(1, len(some) + 1):
        for one_set in combinations(some, size):
            union = np.logical_or.reduce([accepted[one] for one in one_set])
            others = (one for one in some if one not in one_set)
            if not any((accepted[one] <= union).all() for one in others) and _connected(one_set, accepted):
                found.append(one_set)
    return found


def _connected(one_set: Sequence[int], accepted: Sequence[Flags]) -> bool:
    reached, rest = accepted[one_set[0]], list(one_set[1:])
    while near := [one for one in rest if (accepted[one] & reached).any()]:
        reached = np.logical_or.reduce([reached, *[accepted[one] for one in near]])
        rest = [one for one in rest if one not in near]
    return not rest


def _names(kinds: Sequence[Kind], sets: Sequence[Sequence[int]]) -> list[str]:
    """Return a name for each set of kinds, for messages. Two sets of equal labels are numbered."""
    found: list[str] = []
    for one_set in sets:
        name = f"devices of {' or '.join(dict.fromkeys(kinds[one].label for one in one_set))}"
        number = sum(each == name or each.startswith(f"{name} (") for each in found)
        found.append(f"{name} ({number + 1})" if number else name)
    return found


def _gone(snapshot: Snapshot, members: Sequence[Member], priority: int) -> tuple[set[str], set[str]]:
    """Return the pods whose devices count as free, by `namespace/name`: those that have gone, and those that terminate.

    Gone are pods that earlier plans evict, own members that can still be planned, and pods of lower priority for
    which devices are only held.
    """
    gone, leaving = set(snapshot.evicted_for), set[str]()
    gone |= {each.pod.key for each in members if each.pod.gated_by(GATE)}
    devices = snapshot.devices
    if devices is None or not devices.uses_of:
        return gone, leaving
    for state in snapshot.nodes:
        for tenant in state.departing:
            if tenant.terminating:
                leaving.add(tenant.pod.key)
    for state in snapshot.expecting:
        for tenant in state.tenants:
            if tenant.reserved and tenant.priority < priority:
                gone.add(tenant.pod.key)
    return gone, leaving


def _free(devices: Devices, gone: Collection[str], leaving: Collection[str]) -> tuple[Flags, Flags]:
    """Return which devices are free, and which of these a terminating pod still uses."""
    holders: IntColumn = devices.holders.copy()
    terminating = np.zeros(len(holders), dtype=np.bool_)
    places = {place for pod in (*gone, *leaving) for place in devices.uses_of.get(pod, ())}
    for place in places:
        use = devices.uses[place]
        if all(pod in gone or pod in leaving for pod in use.consumers):
            positions = list(use.positions)
            holders[positions] -= 1
            terminating[positions] |= any(pod in leaving for pod in use.consumers)
    free: Flags = holders == 0
    return free, free & terminating


def _by_node(chosen: Flags, snapshot: Snapshot) -> IntColumn:
    """Return the number of chosen devices on each node of the snapshot."""
    found = np.zeros(len(snapshot.nodes), dtype=np.int64)
    if snapshot.devices is None:
        return found
    inventory = snapshot.devices.inventory
    counts = np.bincount(inventory.node[chosen & (inventory.node != NOWHERE)], minlength=len(inventory.nodes))
    for name, count in zip(inventory.nodes, counts.tolist(), strict=True):
        place = snapshot.positions.get(name)
        if count and place is not None:
            found[place] = count
    return found
