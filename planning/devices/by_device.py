"""Claims of one device each, on nodes with devices that several claims share: how many members a node can serve.

A search over all devices of a node would try every distribution of the members. But if each member needs one device,
the devices are independent. So the numbers of members that a node can serve are the sums of the numbers that its
devices can serve.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product

from cluster.devices.capacity import consumed
from cluster.devices.inventory import Inventory
from planning.devices.demands import Asked, Kind, NotPlannedError
from planning.devices.kinds import accepted
from planning.devices.node_search import NodeDevices, Shared

MOST_PREFIXES = 2_000
"""The most combinations of numbers of all profiles but one that are kept for a node."""

Numbers = tuple[int, ...]
_Most = dict[Numbers, int]
"""By the numbers of members of all profiles but the last: the most members of the last profile beside them."""


def kind_of(profile: Sequence[Asked]) -> Kind | None:
    """Return the device kind of the one device that a member with these claims needs; None if it needs anything
    else.
    """
    if len(profile) != 1 or profile[0].constraints or len(profile[0].requests) != 1:
        return None
    (alternatives,) = profile[0].requests
    request = alternatives[0]
    return request.kind if len(alternatives) == 1 and request.count == 1 and not request.admin else None


def served(
    kinds: Sequence[Kind], limits: Sequence[int], node: NodeDevices, inventory: Inventory
) -> frozenset[Numbers] | None:
    """Return all vectors (how many members of each profile) that the node can serve at once.

    None if the node's devices depend on each other by counters. `kinds`: by profile, the device kind of which a member
    needs one device. `limits`: by profile, the largest number of members to try. Raises `NotPlannedError` if there are
    too many combinations.
    """
    if any(inventory.contents[each].device.consumes_counters for each in node.contents):
        return None
    last = max(range(len(kinds)), key=lambda place: limits[place])
    order = [*(place for place in range(len(kinds)) if place != last), last]
    ordered, most = [kinds[place] for place in order], [limits[place] for place in order]
    found: _Most = {(0,) * (len(kinds) - 1): 0}
    for place in range(len(node.positions)):
        found = _sum(found, _on_device(ordered, most, place, node, inventory), most)
        if len(found) > MOST_PREFIXES:
            raise NotPlannedError("too many different claims for the same devices")
    back = [order.index(place) for place in range(len(kinds))]
    every = ((*prefix, number) for prefix, top in found.items() for number in range(top + 1))
    return frozenset(tuple(numbers[place] for place in back) for numbers in every)


def _sum(one: _Most, other: _Most, limits: Sequence[int]) -> _Most:
    """Return the numbers of members that two disjoint sets of devices serve together, at most `limits`.

    Keys: how many members of each profile but the last. Values: the largest number of members of the last profile
    beside them.
    """
    found: _Most = {}
    for (before, some), (after, more) in product(one.items(), other.items()):
        prefix = tuple(map(sum, zip(before, after, strict=True)))
        if all(number <= limit for number, limit in zip(prefix, limits[:-1], strict=True)):
            found[prefix] = max(found.get(prefix, 0), min(some + more, limits[-1]))
    return found


def _on_device(
    kinds: Sequence[Kind], limits: Sequence[int], place: int, node: NodeDevices, inventory: Inventory
) -> _Most:
    """Return the numbers of members that one device serves. `place`: the position of the device in `node`.

    Keys: how many members of each profile but the last. Values: the largest number of members of the last profile
    beside them.
    """
    content, share = node.contents[place], node.shares[place]
    fits = [bool(node.free[place] and accepted(kind, inventory)[content]) for kind in kinds]
    nothing = (0,) * (len(kinds) - 1)
    if share is None:
        ones = [place for place, fitting in enumerate(fits[:-1]) if fitting]
        return {nothing: int(fits[-1])} | {tuple(int(at == one) for at in range(len(nothing))): 0 for one in ones}
    amounts = [
        _amounts(kind, content, inventory) if fitting else None for kind, fitting in zip(kinds, fits, strict=True)
    ]
    return dict(_shares(amounts, limits, share))


def _amounts(kind: Kind, content: int, inventory: Inventory) -> tuple[Decimal, ...]:
    found = consumed(inventory.contents[content].device, dict(kind.capacity)) or {}
    return tuple(found[name] for name in sorted(found))


def _shares(
    amounts: Sequence[tuple[Decimal, ...] | None], limits: Sequence[int], share: Shared
) -> Iterator[tuple[Numbers, int]]:
    """Yield the numbers of members that can share one device. An entry is the number of members of each profile but the
    last, and the largest number of members of the last profile beside them.

    `amounts`: by profile, what a member consumes of each capacity of the device; None if the member cannot get the
    device.
    """
    tops = [_most(share.left, each, limit) for each, limit in zip(amounts, limits, strict=True)]
    for prefix in product(*(range(top + 1) for top in tops[:-1])):
        left = list(share.left)
        for number, each in zip(prefix, amounts[:-1], strict=True):
            for at, amount in enumerate(each or ()):
                left[at] -= number * amount
        if not any(prefix) or min(left, default=Decimal(0)) >= 0:
            yield prefix, _most(left, amounts[-1], limits[-1])


def _most(left: Sequence[Decimal], amounts: tuple[Decimal, ...] | None, limit: int) -> int:
    """Return how many members that consume these amounts can still share a device, `limit` at most.

    `left`: the remaining amounts of the device. `amounts`: None if the members cannot get the device.
    """
    if amounts is None or any(each < 0 for each in left):
        return 0
    return min([limit, *(int(each // amount) for each, amount in zip(left, amounts, strict=True) if amount > 0)])
