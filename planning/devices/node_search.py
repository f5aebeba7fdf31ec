"""Searches the devices that the claims of several pods get on one node. The search is exact.

It is depth-first over claims, requests and devices, as in the stock scheduler, but for all pods of a node together.
Devices with one content in one pool are interchangeable, so the search tries only the first free device of them.
Devices that several claims share are interchangeable as long as equal amounts of their capacities are left.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np

from cluster.devices.capacity import Amounts, consumed
from cluster.devices.inventory import Flags, IntColumn, Inventory
from kube.devices import Device, DeviceAttribute
from kube.quantities import exact
from planning.devices.demands import MOST_IN_CLAIM, Asked, Constraint, Kind, NotPlannedError, Request
from planning.devices.kinds import accepted, selected

MOST_STEPS = 100_000
"""Devices that one search may try. Typical nodes need some dozens; a search of this length takes a second."""
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_OTHER_FRAMES = 1000
"""The frames of the interpreter's stack that are left for the search's callers: Python's default limit."""

Counters = Mapping[tuple[int, str, str], Decimal]
"""The remaining amount of each counter, by the pool's position on the node, the counter set and the counter."""
NOT_SELECTED = -1
"""In the result of `alike_contents`: the value for a content that no request selects."""
Choice = list[tuple[Request, int]]
"""The devices of one claim: for each its request, and its position in the inventory."""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node, as parallel tuples with one entry for each device.

    `positions`: the position of the device in the inventory. `contents`: the device's content, or a content that the
    claims treat in the same way (`alike_contents`). `pools`: the position of the device's pool on the node. `free`:
    whether the device is free. `shares`: the state of a device that several claims can share; None for other devices.
    `counters`: what is left of the counters of each pool. `complete`: whether all slices of the node's pools are known.
    """

    positions: tuple[int, ...]
    contents: tuple[int, ...]
    pools: tuple[int, ...]
    free: tuple[bool, ...]
    shares: "tuple[Shared | None, ...]"
    counters: Counters
    complete: bool

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for nodes on which a search finds devices for the same claims."""
        counters = tuple(sorted(self.counters.items()))
        return self.contents, self.pools, self.free, self.shares, counters, self.complete


class Shared(NamedTuple):
    """The use of a device that several claims can share.

    `left`: the remaining amounts of its capacities, in the order of their names. `claims`: how many claims of the
    search use the device. If claims outside the search use it, they count as one more.
    """

    left: tuple[Decimal, ...]
    claims: int


def _shared(device: Device, used: Amounts | None) -> Shared | None:
    """Return the use of a device that several claims can share; None for any other device.

    `used`: the amounts of the device's capacities that claims consume; None if no claim uses it.
    """
    if not device.allow_multiple_allocations:
        return None
    taken = used or {}
    left = tuple(exact(device.capacity[name].value) - taken.get(name, 0) for name in sorted(device.capacity))
    return Shared(left, int(used is not None))


def node_devices(
    node: str, inventory: Inventory, free: Flags, used: Mapping[int, Amounts], alike: IntColumn
) -> NodeDevices:
    """Return the devices of a node.

    `free`: for each device of the inventory, whether no claim has it for itself. `used`: the amounts that claims
    consume of devices that they share, by position in the inventory. `alike`: for each content of the inventory, the
    first content that the claims treat in the same way (`alike_contents`).
    """
    positions = list(inventory.on(node))
    ids = [inventory.ids[each] for each in positions]
    pools = {pool: place for place, pool in enumerate(dict.fromkeys((each.driver, each.pool) for each in ids))}
    left = {
        (place, one_set, counter): amount
        for pool, place in pools.items()
        for one_set, counters in inventory.counters.get(pool, {}).items()
        for counter, amount in counters.items()
    }
    of_pool = [pools[each.driver, each.pool] for each in ids]
    contents = inventory.content[positions].tolist()
    if left:
        for position, content, pool in zip(positions, contents, of_pool, strict=True):
            if not free[position] or position in used:
                _consume(left, pool, inventory.contents[content].device, 1)
    same = alike[contents].tolist()
    kept = [place for place, content in enumerate(same) if content != NOT_SELECTED]
    return NodeDevices(
        tuple([positions[each] for each in kept]),
        tuple([same[each] for each in kept]),
        tuple([of_pool[each] for each in kept]),
        tuple([bool(free[positions[each]]) for each in kept]),
        tuple([_shared(inventory.contents[contents[each]].device, used.get(positions[each])) for each in kept]),
        left,
        node not in inventory.incomplete,
    )


def _consume(left: dict[tuple[int, str, str], Decimal], pool: int, device: Device, sign: int) -> None:
    for each in device.consumes_counters:
        for name, counter in each.counters.items():
            key = pool, each.counter_set, name
            left[key] = left.get(key, Decimal(0)) - sign * exact(counter.value)


@dataclass(slots=True)
class _Slot:
    """One device that a claim still needs. `request`: the request of the claim for this device. `only`: the device, if
    the request is for all devices of the node; else None.
    """

    request: Request
    only: int | None = None


@dataclass(slots=True)
class NodeSearch:
    """Searches devices on one node for given claims, all at once."""

    inventory: Inventory
    node: NodeDevices
    _classes: list[list[int]] = field(default_factory=list)
    """The positions of the devices in `node`, grouped by content, pool and whether they are free.

    A device that several claims can share is a group by itself.
    """
    _used: list[int] = field(default_factory=list)
    """For each group of free devices, how many of its first devices the search has taken."""
    _left: dict[tuple[int, str, str], Decimal] = field(default_factory=dict)
    _shares: dict[int, Shared] = field(default_factory=dict)
    """The use of each device that several claims can share, by its position in `node`."""
    _consumed: dict[tuple[Kind, int], tuple[Decimal, ...]] = field(default_factory=dict)
    _needed: list[tuple[tuple[Kind, int, int], ...]] = field(default_factory=list)
    """The result of `_needed`, if devices can be shared; else empty."""
    _failed: set[tuple[object, ...]] = field(default_factory=set)
    _steps: int = 0

    def __post_init__(self) -> None:
        groups: dict[tuple[int, int, bool, int], list[int]] = {}
        node = self.node
        for place, key in enumerate(zip(node.contents, node.pools, node.free, strict=True)):
            groups.setdefault((*key, -1 if node.shares[place] is None else place), []).append(place)
        self._classes = list(groups.values())

    def choose(self, claims: Sequence[Asked]) -> list[Choice] | None:
        """Return the devices of each claim; None if the node's devices do not suffice for all of them.

        The first claims get the preferred alternatives and the first devices. Raises `NotPlannedError` if the search
        takes too long.
        """
        self._used = [0] * len(self._classes)
        self._left = dict(self.node.counters)
        self._shares = {place: each for place, each in enumerate(self.node.shares) if each is not None}
        # Each claim adds two frames to the recursion, and each of its devices one. They are on Python's stack, not C's.
        most = len(self.node.positions)
        slots = (max(one.count or most for one in alternatives) for each in claims for alternatives in each.requests)
        deep = _OTHER_FRAMES + 2 * len(claims) + sum(slots)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), deep))
        self._needed = _needed(claims) if self._shares else []
        self._failed, self._steps = set(), 0
        found: list[Choice] = []
        return found if self._claims(claims, found) else None

    def _claims(self, claims: Sequence[Asked], found: list[Choice]) -> bool:
        if len(found) == len(claims):
            return True
        state = len(found), tuple(self._used), self._use_of_shared()
        if state in self._failed or (self._needed and not self._may_suffice(self._needed[len(found)])):
            return False
        asked = claims[len(found)]
        for alternatives in product(*asked.requests):
            self._step()  # even if no alternative has a device: 32 requests may have 8 alternatives each
            slots = self._slots(alternatives)
            if slots is not None and self._slot(asked, slots, [], claims, found):
                return True
        self._failed.add(state)
        return False

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise NotPlannedError("claims for whose devices the search on one node takes too long")

    def _may_suffice(self, needed: Iterable[tuple[Kind, int, int]]) -> bool:
        """Return whether enough devices are left for each device kind, if no other kind needed devices. If False, the
        remaining claims cannot all get devices.

        Without this check, the search would try every distribution of members that share devices.
        """
        for kind, requests, devices in needed:
            flags, left = accepted(kind, self.inventory), 0
            for group, places in enumerate(self._classes):
                head = places[0]
                if self.node.free[head] and flags[self.node.contents[head]]:
                    shared = head in self._shares
                    left += self._times(kind, head, requests) if shared else len(places) - self._used[group]
            if left < devices:
                return False
        return True

    def _times(self, kind: Kind, place: int, most: int) -> int:
        """Return how many more requests for a device kind can get a share of the device at `place`; at most `most`."""
        left = self._shares[place].left
        if any(each < 0 for each in left):
            return 0
        every = zip(left, self._consumes(kind, place), strict=True)
        return min([most, *(int(each // amount) for each, amount in every if amount > 0)])

    def _slots(self, requests: Iterable[Request]) -> list[_Slot] | None:
        """Return one slot for each device that the requests need. None if a request is for all devices of the node and
        the node cannot serve it.
        """
        slots: list[_Slot] = []
        for request in requests:
            if not request.every:
                slots += [_Slot(request) for _ in range(request.count)]
                continue
            matching = selected(request.kind, self.inventory)
            every = [place for place, content in enumerate(self.node.contents) if matching[content]]
            if not self.node.complete or not every:
                return None
            slots += [_Slot(request, place) for place in every]
        return slots if len(slots) <= MOST_IN_CLAIM else None

    def _slot(
        self, asked: Asked, slots: Sequence[_Slot], chosen: Choice, claims: Sequence[Asked], found: list[Choice]
    ) -> bool:
        """Choose a device for the next slot of a claim, then for all further slots and claims. Return whether all of
        them got devices.
        """
        if len(chosen) == len(slots):
            found.append(chosen)
            if self._claims(claims, found):
                return True
            found.pop()
            return False
        slot = slots[len(chosen)]
        mine = {position for _, position in chosen}
        for group, place in self._candidates(slot, slots[len(chosen) - 1] if chosen else None, chosen):
            self._step()
            position = self.node.positions[place]
            taken = position in mine and place not in self._shares
            if taken or not self._fits(asked.constraints, slot.request, position, chosen):
                continue
            if not slot.request.admin and not self._take(slot.request.kind, group, place):
                continue
            if self._slot(asked, slots, [*chosen, (slot.request, position)], claims, found):
                return True
            if not slot.request.admin:
                self._give_back(slot.request.kind, group, place)
        return False

    def _candidates(self, slot: _Slot, before: _Slot | None, chosen: Choice) -> Iterator[tuple[int, int]]:
        """Yield the devices for a slot (a device that a claim still needs), each by its group of equal devices and its
        position. Of equal free devices only the first is yielded.

        The slots of one request are interchangeable, so their devices are chosen in the order of groups.
        """
        flags = accepted(slot.request.kind, self.inventory)
        again = before is not None and before.request is slot.request and slot.only is None
        first = self._group_of(chosen[-1][1]) if again else 0
        tried = set[tuple[object, ...]]()
        for group, places in enumerate(self._classes):
            node, head = self.node, places[0]
            if not flags[node.contents[head]]:
                continue
            if slot.only is None and head in self._shares:
                # A request gets each device at most once. Later requests can get the device again.
                alike = self._alike(head)
                if node.free[head] and (group > first or not again) and alike not in tried:
                    tried.add(alike)
                    yield group, head
                continue
            if slot.only is not None:
                if slot.only in places and (slot.request.admin or node.free[head]):
                    yield group, slot.only
            elif slot.request.admin:
                # A copy: deeper steps of the search change the order within the group.
                yield from ((group, each) for each in tuple(places))
            elif node.free[head] and group >= first and self._used[group] < len(places):
                yield group, places[self._used[group]]

    def _group_of(self, position: int) -> int:
        place = self.node.positions.index(position)
        return next(group for group, places in enumerate(self._classes) if place in places)

    def _fits(self, constraints: Iterable[Constraint], request: Request, position: int, chosen: Choice) -> bool:
        """Whether the device meets the claim's constraints beside the devices chosen so far."""
        for each in constraints:
            if not each.concerns(request):
                continue
            value = self._value(position, each.attribute)
            if value is None:
                return False
            others = [self._value(other, each.attribute) for one, other in chosen if each.concerns(one)]
            if (value in others) if each.distinct else any(other != value for other in others):
                return False
        return True

    def _value(self, position: int, attribute: str) -> DeviceAttribute | None:
        content = self.inventory.content_at(position)
        return value_of(content.device, content.driver, attribute)

    def _use_of_shared(self) -> tuple[object, ...]:
        """Return the use of the shared devices, as a key that does not depend on the order of alike devices."""
        return tuple(sorted(map(self._alike, self._shares)))

    def _alike(self, place: int) -> tuple[int, int, tuple[Decimal, ...], bool]:
        """Return a key that is equal for shared devices which can serve the same requests."""
        left, claims = self._shares[place]
        return self.node.contents[place], self.node.pools[place], left, claims > 0

    def _consumes(self, kind: Kind, place: int) -> tuple[Decimal, ...]:
        """Return the amounts that a request consumes of the device's capacities, in the order of names."""
        key = kind, self.node.contents[place]
        if key not in self._consumed:
            amounts = consumed(self.inventory.contents[key[1]].device, dict(kind.capacity)) or {}
            self._consumed[key] = tuple(amounts[name] for name in sorted(amounts))
        return self._consumed[key]

    def _share(self, kind: Kind, place: int) -> bool:
        """Take a share of a device if its capacities and its pool's counters suffice. Return whether they suffice."""
        before = self._shares[place]
        left = tuple(one - other for one, other in zip(before.left, self._consumes(kind, place), strict=True))
        if any(each < 0 for each in left):
            return False
        # The first claim consumes the counters of the device. A device whose pool is overdrawn gets no further claim.
        if not self._count(place) if not before.claims else not self._within_counters(place):
            return False
        self._shares[place] = Shared(left, before.claims + 1)
        return True

    def _take(self, kind: Kind, group: int, place: int) -> bool:
        """Take a free device, or a share of a device, for a request. Return whether the device could be taken."""
        if place in self._shares:
            return self._share(kind, place)
        places = self._classes[group]
        if place in places[: self._used[group]]:
            return False
        if not self._count(place):
            return False
        used = self._used[group]
        at = places.index(place)
        places[used], places[at] = places[at], places[used]  # the taken devices are the first of their group
        self._used[group] += 1
        return True

    def _count(self, place: int, sign: int = 1) -> bool:
        """Consume the counters of a device (`sign` 1), or return them to its pool (`sign` -1). Return whether the
        counters suffice.
        """
        device = self.inventory.contents[self.node.contents[place]].device
        if device.consumes_counters:
            _consume(self._left, self.node.pools[place], device, sign)
            if sign > 0 and not self._enough(self.node.pools[place]):
                _consume(self._left, self.node.pools[place], device, -1)
                return False
        return True

    def _within_counters(self, place: int) -> bool:
        """Whether no counter that the device consumes is overdrawn. Expects that the device's amounts have been
        consumed already.
        """
        device = self.inventory.contents[self.node.contents[place]].device
        return not device.consumes_counters or self._enough(self.node.pools[place])

    def _enough(self, pool: int) -> bool:
        """Whether no counter of the pool is overdrawn, no matter which device consumes it."""
        return all(amount >= 0 for (of_pool, _, _), amount in self._left.items() if of_pool == pool)

    def _give_back(self, kind: Kind, group: int, place: int) -> None:
        if place not in self._shares:
            self._used[group] -= 1
            self._count(place, -1)
            return
        now = self._shares[place]
        left = tuple(one + other for one, other in zip(now.left, self._consumes(kind, place), strict=True))
        self._shares[place] = Shared(left, now.claims - 1)
        if now.claims == 1:
            self._count(place, -1)


def _needed(claims: Sequence[Asked]) -> list[tuple[tuple[Kind, int, int], ...]]:
    """Return, for each position in `claims`, what the claims from this position on certainly need. An entry is a device
    kind, the number of requests for this kind, and the number of their devices.

    Requests with alternatives, for all devices, or for administration are left out.
    """
    found: list[tuple[tuple[Kind, int, int], ...]] = [()]
    total: dict[Kind, tuple[int, int]] = {}
    for asked in reversed(claims):
        for alternatives in asked.requests:
            request = alternatives[0]
            if len(alternatives) == 1 and not request.every and not request.admin:
                requests, devices = total.get(request.kind, (0, 0))
                total[request.kind] = requests + 1, devices + request.count
        found.append(tuple((kind, *numbers) for kind, numbers in total.items()))
    return found[::-1]


def value_of(device: Device, driver: str, attribute: str) -> DeviceAttribute | None:
    """Return the device's value of an attribute; None if the device lacks it. `attribute`: a name with its domain.

    If a device publishes an attribute without a domain, the attribute belongs to the domain of the driver.
    """
    found = device.attributes.get(attribute)
    domain, _, name = attribute.rpartition("/")
    return found if found is not None or domain != driver else device.attributes.get(name)


def concerned_contents(requests: Iterable[Request], inventory: Inventory) -> Flags:
    """Return, for each content of the inventory, whether any of these requests selects it."""
    every = [selected(each.kind, inventory) for each in requests]
    found: Flags = np.logical_or.reduce(every) if every else np.zeros(len(inventory.contents), dtype=np.bool_)
    return found


def alike_contents(asked: Iterable[Asked], inventory: Inventory, attributes: Iterable[str] = ()) -> IntColumn:
    """Return, for each content of the inventory, the first content that these claims treat in the same way;
    `NOT_SELECTED` for a content that no request selects. The result is cached, so it must not be changed.

    Drivers publish attributes that differ for each device, such as a UUID. If no selector or constraint reads such an
    attribute, contents that differ only in it are alike, so nodes that differ only in it are searched once.
    `attributes`: further attributes by which contents are distinguished.
    """
    every = list(asked)
    kinds = list(dict.fromkeys(one.kind for each in every for alternatives in each.requests for one in alternatives))
    read = sorted({constraint.attribute for each in every for constraint in each.constraints}.union(attributes))
    key = tuple(kinds), tuple(read)
    if key not in inventory.alike:
        flags = [flags for kind in kinds for flags in (selected(kind, inventory), accepted(kind, inventory))]
        rows = np.array(flags, dtype=np.bool_).reshape(len(flags), len(inventory.contents)).T
        first: dict[object, int] = {}
        found = np.full(len(inventory.contents), NOT_SELECTED, dtype=np.int64)
        for place in np.flatnonzero(rows.any(axis=1)).tolist():
            content = inventory.contents[place]
            device, values = content.device, [value_of(content.device, content.driver, each) for each in read]
            shares = None if content.plain else _encode((device.consumes_counters, device.capacity))
            seen = rows[place].tobytes(), _encode(values), device.allow_multiple_allocations, shares
            found[place] = first.setdefault(seen, place)
        inventory.alike[key] = found
    return inventory.alike[key]
