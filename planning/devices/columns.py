"""Devices as resources of the solver's problem: whole numbers by node, which members ask for and evictions free.

If only numbers of devices matter, the amounts are counts (`planning.devices.by_number`). Otherwise a search finds, for
each distinct set of devices of a node, which members the node can serve (`planning.devices.by_search`). Either form is
exact: a node has devices for some members if and only if it has enough of each resource.
"""

import weakref
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from cluster.devices.capacity import Amounts
from cluster.devices.claims import Devices
from cluster.devices.extended_resources import provided_by_classes
from cluster.devices.inventory import NOWHERE, Flags, IntColumn, Inventory
from cluster.evictable_pods import EvictablePods
from cluster.room_columns import RoomColumn
from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey, Member
from kube.compute_domains import is_channel
from kube.keys import GATE
from kube.topology import Topology
from planning.devices.by_number import limiting_sets, numbers_of
from planning.devices.by_search import Profile, Profiles
from planning.devices.demands import (
    MOST_USERS,
    ClaimDemand,
    ClaimOfTooManyPodsError,
    DemandTable,
    NotPlannedError,
    PodDemand,
    claims_asked,
    requests_of,
)
from planning.devices.domains import DomainLevel, with_levels
from planning.devices.kinds import accepted, check_planned, shareable, shares_counters, shares_devices
from planning.devices.node_search import (
    NOT_SELECTED,
    NodeDevices,
    alike_contents,
    concerned_contents,
    node_devices,
)

_MOST_VICTIMS = 6
"""The most pods of one node whose evictions are tried in all combinations (64), if more than numbers matter."""

_CHANNELS = "contents of channels of ComputeDomains"
"""The key of these flags in `Inventory.flags`."""


class OneNode(NamedTuple):
    """Pod sets of one gang whose members all use one ResourceClaim, so all these members must run on one node."""

    gang: GangKey
    pod_sets: frozenset[str]


class Freed(NamedTuple):
    """The amounts of device resources that evictions of pods free. `amounts`: from `DeviceColumns.freed_by`, for each
    resource the amount that each pod frees; from `DeviceColumns._freed_on`, for each pod the amount of each resource.

    `exact`: whether the eviction of several pods frees exactly the sum of their amounts. If False, it may free more.
    """

    amounts: Mapping[str, list[int]]
    exact: bool


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """The devices of one problem as resources of the solver: for each resource, an amount on each node and an amount
    for each member with claims.

    `names`: the names of the resources. `demands`: what each member with claims needs, by its pod's `namespace/name`.
    `users`: by pod, the other pods that use a claim of this pod, too. `asked`: the amounts that a pod requests, by pod
    and resource. `room`: by resource, the free amount and the amount of terminating pods on each node of the snapshot.
    `largest`: by resource, the largest amount of a node whose devices are all free.

    `free`: which devices of the inventory no claim has for itself; devices that only terminating pods use are included.
    `used`: by position of a shared device in the inventory, the amounts that claims consume, without the claims of
    terminating pods. `matching`: by resource, which devices count in it. `gone`: the pods whose devices count as free,
    such as victims of earlier plans. `notes`: for messages, what planning does not consider.
    """

    names: tuple[str, ...] = ()
    demands: Mapping[str, PodDemand] = field(default_factory=dict)
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    one_node: tuple[OneNode, ...] = ()
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    room: Mapping[str, RoomColumn] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    free: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    used: Mapping[int, Amounts] = field(default_factory=dict)
    matching: Mapping[str, Flags] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    devices: Devices = field(default_factory=Devices)
    notes: tuple[str, ...] = ()
    profiles: Profiles | None = None
    """For claims in which more than numbers matter; None if only numbers do."""
    alike: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """For each content of the inventory, the first content that the claims treat in the same way (`alike_contents`)."""
    below: tuple[DomainLevel, ...] = ()
    """The levels below the node that the selected devices publish."""
    gang_of: Mapping[str, GangKey] = field(default_factory=dict)
    """The gang of each member, by the pod's `namespace/name`; empty if there are no levels below the node."""
    followed: frozenset[str] = frozenset()
    """The pods (`namespace/name`) that bring a further pod to their node: the daemon of their ComputeDomain."""

    @property
    def shares_devices(self) -> bool:
        """Whether some request of the members selects a device that several claims can share."""
        return bool(((self.alike != NOT_SELECTED) & shareable(self.devices.inventory)).any())

    def freed_by(self, pods: EvictablePods, nodes: Sequence[str]) -> Freed:
        """Return the amounts of each resource that the evictions of these pods free. `nodes`: the names of the
        snapshot's nodes.
        """
        amounts = {name: [0] * len(pods.keys) for name in self.names}
        users = {key: place for place, key in enumerate(pods.keys) if key in self.devices.uses_of}
        exact = not any(self._shared(key, users) for key in users)
        if self.profiles is None:
            for key, place in users.items():
                positions = list(freed((key,), self.devices, self.gone))
                for name in self.names:
                    amounts[name][place] = int(self.matching[name][positions].sum())
            return Freed(amounts, exact)
        by_node: dict[str, list[str]] = {}
        for key, place in users.items():
            by_node.setdefault(nodes[int(pods.node[place])], []).append(key)
        for node, there in by_node.items():
            there.sort(key=lambda key: int(pods.priority[users[key]]))
            try:
                found = self._freed_on(node, there, self.profiles)
            except NotPlannedError:  # the search takes too long
                found = None
            if found is None:
                exact = False
                continue
            exact &= found.exact
            for key, each in found.amounts.items():
                for name, amount in zip(self.names, each, strict=True):
                    amounts[name][users[key]] = amount
        return Freed(amounts, exact)

    def _shared(self, key: str, evictable: Collection[str]) -> bool:
        """Return whether some devices of the pod become free only if other pods are evicted, too.

        `key`: the pod. `evictable`: the pods that may be evicted. All as `namespace/name`.
        """
        devices, alone = self.devices, set(freed((key,), self.devices, self.gone))
        for place in devices.uses_of[key]:
            others = set(devices.uses[place].consumers) - self.gone - {key}
            if others and others <= set(evictable):
                return True
            if not others and not alone.issuperset(devices.uses[place].positions):
                return True
        return False

    def _freed_on(self, node: str, pods: Sequence[str], profiles: Profiles) -> Freed | None:
        """Return, by pod, the amount of each resource that the pod's eviction frees on its node. None if the resources
        do not describe the node exactly after some evictions.

        Two evictions together may free more or less than the sum of each alone. Then the first pods get the largest
        amounts with which no set of pods frees too much. Only the first `_MOST_VICTIMS` pods free anything.
        """
        every = [pod for pod in pods if any(map(self._matters, self._given_back(pod)))]
        concerned = every[:_MOST_VICTIMS]
        found: dict[tuple[str, ...], IntColumn] = {}
        for size in range(len(concerned) + 1):
            for some in combinations(concerned, size):
                after = self.after(node, some)
                if not profiles.is_exact(after):
                    return None
                found[some] = np.array(profiles.amounts(after), dtype=np.int64)
        single = {pod: found[pod,] - found[()] for pod in concerned}
        exact = all((each == found[()] + sum(single[pod] for pod in some)).all() for some, each in found.items())
        freeing = single if exact else at_least(concerned, found)
        return Freed({pod: each.tolist() for pod, each in freeing.items()}, exact and concerned == every)

    def after(self, node: str, evicted: Collection[str]) -> NodeDevices:
        """Return the devices of a node as they are after the evictions of these pods (`namespace/name`)."""
        inventory, free = self.devices.inventory, self.free.copy()
        free[list(freed(evicted, self.devices, self.gone))] = True
        used = self.devices.shares(self.gone.union(evicted), inventory.on(node))
        return node_devices(node, inventory, free, used, self.alike)

    def matters(self, pod: str) -> bool:
        """Return whether the pod's devices, or claims of which it is one user, matter to the gangs of the problem."""
        return any(map(self._matters, self._used_by(pod)))

    def _used_by(self, pod: str) -> Iterator[int]:
        """Yield the devices of the pod's claims, as positions in the inventory."""
        for place in self.devices.uses_of[pod]:
            use = self.devices.uses[place]
            yield from use.positions
            yield from (position for position, _ in use.shares)

    def _given_back(self, pod: str) -> Iterator[int]:
        """Yield the devices that the pod's eviction frees, in whole or in part, as positions in the inventory."""
        yield from freed((pod,), self.devices, self.gone)
        for place in self.devices.uses_of[pod]:
            use = self.devices.uses[place]
            if use.shares and all(user == pod or user in self.gone for user in use.consumers):
                yield from (position for position, _ in use.shares)

    def _matters(self, position: int) -> bool:
        """Return whether a device matters to the gangs of the problem: a request selects it, or it consumes counters,
        which other devices of its pool may need.
        """
        content = self.devices.inventory.content[position]
        return bool(
            self.alike[content] != NOT_SELECTED or self.devices.inventory.contents[content].device.consumes_counters
        )

    def on(self, nodes: Collection[str]) -> Flags:
        """Return which devices of the inventory are on one of these nodes."""
        inventory = self.devices.inventory
        inside = np.array([*(name in nodes for name in inventory.nodes), False], dtype=np.bool_)
        found: Flags = inside[inventory.node]  # `NOWHERE` is the last entry
        return found


_Evicted = TypeVar("_Evicted", bound=Hashable)
"""A pod, or a group of pods that are evicted together."""


def at_least(pods: Sequence[_Evicted], found: Mapping[tuple[_Evicted, ...], IntColumn]) -> dict[_Evicted, IntColumn]:
    """Return an amount of each resource for each pod or group of pods. The evictions of any set of them free at least
    the sum of their amounts. The first ones get the largest possible amounts.

    `found`: by set of evicted pods or groups, the amounts on the node after their evictions.
    """
    freed: dict[_Evicted, IntColumn] = {}
    for pod in pods:
        beside = (some for some in found if pod in some and all(one == pod or one in freed for one in some))
        left = [found[some] - found[()] - sum(freed[one] for one in some if one != pod) for some in beside]
        freed[pod] = np.maximum(np.minimum.reduce(left), 0)
    return freed


NO_DEVICES = DeviceColumns()
NOTHING_FREED = Freed({}, exact=True)


def freed(pods: Collection[str], devices: Devices, gone: Collection[str]) -> Iterator[int]:
    """Yield the devices, as positions in the inventory, that become free when all these pods (`namespace/name`) are
    gone, because no other pod has a claim on them.

    `gone`: the pods that count as gone already.
    """
    places = dict.fromkeys(place for pod in pods for place in devices.uses_of.get(pod, ()))
    ended = [devices.uses[one] for one in places if all(p in pods or p in gone for p in devices.uses[one].consumers)]
    counts = Counter(position for use in ended for position in use.positions)
    yield from (position for position, count in counts.items() if devices.holders[position] == count)


class _Known(NamedTuple):
    """The cached last result of `device_columns`, with the arguments of that call."""

    gangs: tuple[Gang, ...]
    snapshot: weakref.ref[Snapshot]
    priority: int
    topology: Topology | None
    columns: DeviceColumns


_last: list[_Known] = []


def device_columns(
    gangs: Sequence[Gang], snapshot: Snapshot, topology: Topology | None, *, priority: int
) -> DeviceColumns:
    """Return the devices as resources of the problem in which the members of these gangs are placed.

    `topology`: the topology of the gangs; only its levels below the node are read. `priority`: the gangs' priority.
    Devices that Phalanx has allocated to gated pods of lower priority count as free. If a gang's annotation says that
    its claims are ignored, they are not planned. Raises `NotPlannedError`.

    The last result is cached, because the caller first checks whether a gang can be planned and then states the
    problem.
    """
    every = tuple(gangs)
    topology = topology if topology is not None and topology.below else None
    for known in _last[:1]:
        same = known.snapshot() is snapshot and (known.priority, known.topology) == (priority, topology)
        same = same and len(known.gangs) == len(every)
        if same and all(one is other for one, other in zip(known.gangs, every, strict=True)):
            return known.columns
    columns = _columns(every, snapshot, topology, priority)
    if columns is not NO_DEVICES:
        _last[:] = [_Known(every, weakref.ref(snapshot), priority, topology, columns)]
    return columns


def _columns(gangs: Sequence[Gang], snapshot: Snapshot, topology: Topology | None, priority: int) -> DeviceColumns:
    devices = snapshot.devices
    planned = [gang for gang in gangs if not gang.ignores_claims]
    members = [member for gang in planned for member in gang.members]
    asking = [each.pod for each in members if each.pod.spec.resource_claims and not each.pod.bound]
    if devices is None or not asking:
        return NO_DEVICES
    if not snapshot.version:
        _check_running(snapshot, devices)
    table = DemandTable(devices, frozenset(pod.key for pod in asking if pod.gated_by(GATE)))
    demands = {pod.key: table.of(pod) for pod in asking}
    users, one_node = _sharing(planned, demands)
    demands, below = with_levels(planned, demands, topology, devices.inventory)
    if one_node:
        demands = _carried(demands, users)
    distinct = tuple({id(each): each for each in demands.values()}.values())
    requests = requests_of(distinct)
    for request in requests:
        check_planned(request, devices.inventory)
    gone, leaving = _gone(snapshot, members, priority)
    free, terminating = _free(devices, gone, leaving)
    start = DeviceColumns(
        demands=demands,
        users=users,
        one_node=one_node,
        free=free,
        used=devices.shares(gone | leaving),
        gone=frozenset(gone | leaving),
        devices=devices,
        alike=alike_contents(
            [claim.asked for each in distinct for claim in each.claims],
            devices.inventory,
            [each.attribute for each in below],
        ),
        below=below,
        gang_of={member.pod.key: gang.key for gang in planned for member in gang.members} if below else {},
        followed=_followed(demands, devices.inventory),
    )
    simple = all(claim.asked.by_number for demand in distinct for claim in demand.claims)
    shared = any(
        shares_counters(each, devices.inventory) or shares_devices(each, devices.inventory) for each in requests
    )
    if simple and not shared:
        return _by_number(start, snapshot, terminating)
    return _by_search(start, snapshot, terminating, devices.shares(gone))


def _followed(demands: Mapping[str, PodDemand], inventory: Inventory) -> frozenset[str]:
    """Return the pods whose claims select a channel of a ComputeDomain. A daemon pod of the ComputeDomain will run on
    the node of each such pod.

    If several pods share such a claim, only the first of them is returned.
    """
    if _CHANNELS not in inventory.flags:
        every = [is_channel(each.driver, each.device) for each in inventory.contents]
        inventory.flags[_CHANNELS] = np.array(every, dtype=np.bool_)
    channels = inventory.flags[_CHANNELS]
    if not channels.any():
        return frozenset()
    claiming = {id(each): bool((channels & _selected([each], inventory)).any()) for each in demands.values()}
    return frozenset(pod for pod, demand in demands.items() if claiming[id(demand)])


def _selected(demands: Iterable[PodDemand], inventory: Inventory) -> Flags:
    return concerned_contents([each for each in requests_of(demands) if not each.admin], inventory)


def _check_running(snapshot: Snapshot, devices: Devices) -> None:
    """Raise `NotPlannedError` if the claims of a running pod are missing, so that its devices are not known. This
    happens if planning reads a cluster from files that lack the claims.

    A pod that requests an extended resource of a DeviceClass has a claim, too: the scheduler has created it.
    """
    classes, allocatable = snapshot.device_classes, snapshot.allocatable_resources
    for state in snapshot.nodes:
        for pod in (tenant.pod for tenant in state.tenants if tenant.pod.bound):
            claims = [each.claim for each in devices.claims_of(pod)] if pod.spec.resource_claims else []
            lacks = any(claim is None or claim.status.allocation is None for claim in claims)
            if not lacks and provided_by_classes(pod.spec, classes, allocatable):
                named = {claim.key for claim in claims if claim is not None}
                lacks = all(devices.uses[place].claim in named for place in devices.uses_of.get(pod.key, ()))
            if lacks:
                what = "devices beside those of running pods whose ResourceClaims are not given"
                raise NotPlannedError(f"{what} (pod {pod.key})")


def _by_number(start: DeviceColumns, snapshot: Snapshot, terminating: Flags) -> DeviceColumns:
    inventory = start.devices.inventory
    by_identity = {id(demand): demand for demand in start.demands.values()}
    distinct = {one: numbers_of(demand) for one, demand in by_identity.items()}
    kinds = tuple(dict.fromkeys(kind for each in distinct.values() for kind in each))
    flags = [accepted(kind, inventory) for kind in kinds]
    sets = limiting_sets(flags)
    names = _names([[kinds[one].label for one in one_set] for one_set in sets])
    matching = {
        name: np.logical_or.reduce([flags[one] for one in one_set])[inventory.content]
        for name, one_set in zip(names, sets, strict=True)
    }
    asked = {
        one: {
            name: sum(each.get(kinds[kind], 0) for kind in one_set) for name, one_set in zip(names, sets, strict=True)
        }
        for one, each in distinct.items()
    }
    at = _positions(inventory, snapshot)
    room = {
        name: RoomColumn(
            _counted(each & start.free, inventory, at, snapshot).tolist(),
            _counted(each & start.free & terminating, inventory, at, snapshot).tolist(),
        )
        for name, each in matching.items()
    }
    return replace(
        start,
        names=tuple(names),
        asked={key: asked[id(demand)] for key, demand in start.demands.items()},
        room=room,
        largest={
            name: max(_counted(each, inventory, at, snapshot).tolist(), default=0) for name, each in matching.items()
        },
        matching=matching,
    )


def _by_search(
    start: DeviceColumns, snapshot: Snapshot, terminating: Flags, used_by_staying: Mapping[int, Amounts]
) -> DeviceColumns:
    inventory = start.devices.inventory
    of_pod = {key: claims_asked(demand.claims) for key, demand in start.demands.items() if demand.claims}
    counts = Counter(of_pod.values())
    every = np.ones(len(inventory.ids), dtype=np.bool_)
    contents = _Contents(inventory, start.alike)
    at = _positions(inventory, snapshot).tolist()
    places = {name: place for name, place in zip(inventory.nodes, at, strict=True) if place >= 0}
    now_at = contents.of(start.free, start.used)
    staying_at = contents.of(start.free & ~terminating, used_by_staying)
    profiles = Profiles.of(counts, inventory, contents.distinct)
    most_at = contents.of(every, {})
    amounts = [profiles.amounts(each) for each in contents.distinct]
    order = {profile: place for place, profile in enumerate(profiles.every)}
    names = _names([[_label(profiles.every[one]) for one in one_set] for one_set in profiles.sets])
    room = {name: RoomColumn([0] * len(snapshot.nodes), [0] * len(snapshot.nodes)) for name in names}
    largest = dict.fromkeys(names, 0)
    for node, place in places.items():
        now, staying, most = (amounts[each[node]] for each in (now_at, staying_at, most_at))
        for position, name in enumerate(names):
            room[name].free[place] = now[position]
            room[name].terminating[place] = now[position] - staying[position]
            largest[name] = max(largest[name], most[position])
    notes = list[str]()
    if any(len(each) > 1 for profile in counts for asked in profile for each in asked.requests):
        notes.append("the order of alternatives (firstAvailable) in the choice of nodes")
    if profiles.bounded and len(places) > 1:
        notes.append("how many devices are left on a node that has devices for all members")
    return replace(
        start,
        names=tuple(names),
        asked={key: dict(zip(names, profiles.asked(order[profile]), strict=True)) for key, profile in of_pod.items()},
        room=room,
        largest=largest,
        matching={
            name: concerned_contents(
                [
                    request
                    for one in one_set
                    for asked in profiles.every[one]
                    for alternatives in asked.requests
                    for request in alternatives
                ],
                inventory,
            )[inventory.content]
            for name, one_set in zip(names, profiles.sets, strict=True)
        },
        notes=tuple(notes),
        profiles=profiles,
    )


class _Contents:
    """Groups nodes by the devices that they have. Nodes with equal devices are searched once, whatever the devices'
    names are.

    `distinct`: one node of each group. `alike`: for each content of the inventory, the first content that the gangs'
    claims treat in the same way (`alike_contents`).
    """

    def __init__(self, inventory: Inventory, alike: IntColumn) -> None:
        self._inventory, self._alike = inventory, alike
        self._contents = alike[inventory.content]
        self._ends = np.searchsorted(inventory.node, np.arange(len(inventory.nodes) + 1)).tolist()
        self._known: dict[object, int] = {}
        self.distinct: list[NodeDevices] = []

    def of(self, free: Flags, used: Mapping[int, Amounts]) -> dict[str, int]:
        """Return, by name of a node, the position in `distinct` of a node with equal devices.

        `free`: for each device of the inventory, whether no claim has it for itself. `used`: by shared device, the
        amounts that claims consume.
        """
        inventory, found = self._inventory, dict[str, int]()
        used_on: dict[int, list[tuple[int, tuple[tuple[str, Decimal], ...]]]] = {}
        for position in sorted(used):
            place = int(inventory.node[position])
            amounts = tuple(sorted(used[position].items()))
            used_on.setdefault(place, []).append((position - self._ends[place], amounts))
        for place, name in enumerate(inventory.nodes):
            here = slice(self._ends[place], self._ends[place + 1])
            # With counters, the pools of the devices matter, too.
            own = name if inventory.counters else (name in inventory.incomplete)
            contents = self._contents[here]
            matter = free[here] & (contents != NOT_SELECTED)
            key = contents.tobytes(), matter.tobytes(), own, tuple(used_on.get(place, ()))
            if key not in self._known:
                self._known[key] = len(self.distinct)
                self.distinct.append(node_devices(name, inventory, free, used, self._alike))
            found[name] = self._known[key]
        return found


def _label(profile: Profile) -> str:
    """Return the device kinds that the claims of a profile ask for, as text for messages."""
    every = (request for asked in profile for alternatives in asked.requests for request in alternatives)
    return " and ".join(dict.fromkeys(each.kind.label for each in every))


def _names(labels: Iterable[Sequence[str]]) -> list[str]:
    """Return one name for each resource, from the labels of the kinds or profiles that it counts.

    If several names are equal, they are numbered.
    """
    found: list[str] = []
    counts: Counter[str] = Counter()
    for each in labels:
        name = f"devices of {' or '.join(dict.fromkeys(each))}"
        counts[name] += 1
        found.append(f"{name} ({counts[name]})" if counts[name] > 1 else name)
    return found


def _sharing(
    gangs: Sequence[Gang], demands: Mapping[str, PodDemand]
) -> tuple[dict[str, tuple[str, ...]], tuple[OneNode, ...]]:
    """Return two results. The first: by claim that members name (`namespace/name`), the members that use it
    (`namespace/name`). The second: the pod sets that must run on one node, because all their members use one claim.

    Raises `NotPlannedError` if several members name a claim, unless the claim's users are whole pod sets of one gang,
    all of whose members must start together.
    """
    users: dict[str, list[tuple[Gang, Member]]] = {}
    for gang in gangs:
        for member in gang.members:
            for claim in demands[member.pod.key].claims if member.pod.key in demands else ():
                if claim.shared_as:
                    users.setdefault(claim.shared_as, []).append((gang, member))
    tied: list[OneNode] = []
    for name, each in users.items():
        if len(each) == 1:
            continue
        if len(each) > MOST_USERS:
            raise ClaimOfTooManyPodsError(f"ResourceClaim {name.partition('/')[2]}")
        gang = each[0][0]
        keys, sets = {member.pod.key for _, member in each}, frozenset(member.pod_set for _, member in each)
        whole = {member.pod.key for member in gang.members if member.pod_set in sets}
        together = all(one.min_count >= one.count for one in gang.pod_sets if one.name in sets)
        if any(other.key != gang.key for other, _ in each) or keys != whole or not together:
            what = "a claim that only some of the pods share, or that pods share which need not start together"
            raise NotPlannedError(f"{what} (ResourceClaim {name.partition('/')[2]})")
        tied.append(OneNode(gang.key, sets))
    return {name: tuple(member.pod.key for _, member in each) for name, each in users.items()}, tuple(tied)


def _carried(demands: Mapping[str, PodDemand], users: Mapping[str, Sequence[str]]) -> dict[str, PodDemand]:
    """Return the demands of all members, in which each claim that several pods share is left only at the first of its
    users. The other users run on the same node.
    """

    def stays(pod: str, claim: ClaimDemand) -> bool:
        return not claim.shared_as or users[claim.shared_as][0] == pod

    return {
        pod: replace(demand, claims=tuple(each for each in demand.claims if stays(pod, each)))
        for pod, demand in demands.items()
    }


def _gone(snapshot: Snapshot, members: Sequence[Member], priority: int) -> tuple[set[str], set[str]]:
    """Return two sets of pods (`namespace/name`) whose devices count as free: the pods that count as gone, and the pods
    that terminate.

    Pods that earlier plans evict count as gone, and so do gated members of the planned gangs. Gated pods of lower
    priority count as gone, too, because Phalanx has allocated their devices in advance.
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
    """Return two flags for each device of the inventory: whether the device is free, and whether it is free but still
    used by a terminating pod.

    `gone` and `leaving`: the pods that count as gone, and the terminating pods (`namespace/name`). The devices of both
    count as free.
    """
    holders: IntColumn = devices.holders.copy()
    for position in devices.shares(()):  # If the slice forbids shares now, the device is free when the shares are gone.
        if not devices.inventory.content_at(position).device.allow_multiple_allocations:
            holders[position] += 1
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


def _positions(inventory: Inventory, snapshot: Snapshot) -> IntColumn:
    """Return for each node of the inventory its position in the snapshot; -1 if the snapshot lacks it."""
    return np.array([snapshot.positions.get(name, -1) for name in inventory.nodes], dtype=np.int64)


def _counted(chosen: Flags, inventory: Inventory, at: IntColumn, snapshot: Snapshot) -> IntColumn:
    """Return, for each node of the snapshot, how many of the `chosen` devices it has.

    `at`: for each node of the inventory, its position in the snapshot; -1 if the snapshot lacks it (`_positions`).
    """
    found = np.zeros(len(snapshot.nodes), dtype=np.int64)
    counts = np.bincount(inventory.node[chosen & (inventory.node != NOWHERE)], minlength=len(inventory.nodes))
    there = at >= 0
    found[at[there]] = counts[there]
    return found
