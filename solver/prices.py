"""What a member's room costs at least in evictions, node by node: bounds by counting for goal 1.

The parts of the goal (victims by priority, gangs broken, what is evicted of the scarcest resource) are digits of one
number, its price. A gang that goes as a whole is paid for by the members of it that stand where the asking gang may
come: each pays its share, so that no plan costs less than the prices of the victims on the nodes that it uses.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.bounds import Counts
from solver.case import Case

NEVER = 1 << 62
"""The price of what cannot be had."""
_BITS = 59
_SHARE_BITS = 8
"""A price is told in 256ths: shares of a gang are rounded down."""
_SUBSETS = 8
"""Up to how many victims of one node are tried in all combinations."""
_BATCH = 512
"""Nodes at a time."""
MANY = 32
"""Members on one node beyond which prices are not worked out."""


@dataclass(frozen=True)
class Prices:
    """Prices for one level, of which one domain is to hold the gang.

    `slots[node, k]`: at least so much more does member k + 1 cost on a node. `needed`: new members of the minimum.
    `worth[victim]`: the victim's own digits; `broken`: the digit of a gang that goes whole. `shares[victim]`: what it
    costs at least on a node where the gang may come; victims that can never go are missing. `whole`: there was room
    for all digits.
    """

    case: Case
    level: int
    needed: int
    slots: Counts
    worth: dict[int, int]
    broken: int
    shares: dict[int, int]
    whole: bool

    def of(self, victims: Iterable[int]) -> int:
        """The price of a plan that evicts these."""
        problem, gone = self.case.problem, tuple(victims)
        cut = Counter(gang for victim in gone if (gang := problem.victims[victim].gang) is not None)
        broken = sum(
            problem.victim_gangs[gang].running - count < problem.victim_gangs[gang].minimum
            for gang, count in cut.items()
        )
        return sum(self.worth[victim] for victim in gone) + broken * self.broken

    def least(self, domain: int) -> tuple[int, int]:
        """The least that a plan in a domain costs, and the price of its dearest member; `NEVER`: there is no plan."""
        slots = self.slots[list(self.case.tree.nodes(self.level, domain))].ravel()
        slots = slots[slots < NEVER]
        if len(slots) < self.needed:
            return NEVER, NEVER
        if self.needed <= 0:
            return 0, 0
        cheapest = np.partition(slots, self.needed - 1)[: self.needed]
        return int(cheapest.sum()), int(cheapest.max())

    def cheap_nodes(self, domain: int, plenty: int, at_least: int = 0) -> tuple[int, ...]:
        """The cheapest nodes of a domain, as many as have `plenty` times the room that is needed."""
        nodes = np.array(self.case.tree.nodes(self.level, domain), dtype=np.int64)
        nodes = nodes[np.argsort(self.slots[nodes, 0], kind="stable")]
        nodes = nodes[self.slots[nodes, 0] < NEVER]
        rooms = np.cumsum((self.slots[nodes] < NEVER).sum(axis=1))
        enough = int(np.searchsorted(rooms, plenty * self.needed)) + 1
        return tuple(nodes[: max(enough, at_least)].tolist())

    def nodes_within(self, domain: int, most: int) -> list[int]:
        """The nodes of a domain that a plan of a price of `most` can use."""
        least, dearest = self.least(domain)
        nodes = self.case.tree.nodes(self.level, domain)
        first = self.slots[list(nodes), 0].tolist()
        within = min(most, NEVER - 1) - least + dearest
        return [node for node, price in zip(nodes, first, strict=True) if price <= max(within, 0) and price < NEVER]


def prices_of(case: Case, level: int) -> Prices | None:
    """The prices of a case with evictions; None where too many members go on one node. `level`: one domain of it (or of
    ROOT) must hold the gang.
    """
    problem = case.problem
    most = _most_on_a_node(case)
    if most > MANY:
        return None
    needed = max(problem.minimum, sum(pod_set.minimum for pod_set in problem.sets)) - len(case.pinned)
    worth, broken, whole = _worth(case)
    usable = case.capacity.max(axis=0, initial=0) > 0
    shares = _shares(case, level, worth, broken, set(np.flatnonzero(usable).tolist()))
    slots = _marginal(_totals(case, usable, shares, most))
    return Prices(case, level, needed, slots, worth, broken, shares, whole)


def _worth(case: Case) -> tuple[dict[int, int], int, bool]:
    """The digits of every useful victim, and that of a broken gang. Digits for which there is no room are left out,
    the least important first; whether all have room.
    """
    victims = {position: case.problem.victims[position] for position in case.useful}
    parts: list[dict[int, int]] = [
        {position: 1 for position, victim in victims.items() if victim.priority == priority}
        for priority in sorted({victim.priority for victim in victims.values()}, reverse=True)
    ]
    evicted = {position: victim.requests[case.scarce] for position, victim in victims.items()}
    gangs = len({victim.gang for victim in victims.values()} - {None})
    worth, broken, bits = dict.fromkeys(victims, 0), 0, _BITS - _SHARE_BITS
    sizes = [*((each, _largest(case, each)) for each in parts), (None, gangs), (evicted, _largest(case, evicted))]
    for part, most in sizes:
        bits -= most.bit_length()
        if bits < 0:
            return worth, broken, False
        if part is None:
            broken = 1 << bits + _SHARE_BITS
        for position, amount in (part or {}).items():
            worth[position] += amount << bits + _SHARE_BITS
    return worth, broken, True


def _largest(case: Case, amounts: dict[int, int]) -> int:
    """At most so much goes in a best plan: what is on as many nodes as there are members, with the gangs there."""
    victims = case.problem.victims
    gangs, on, visited = Counter[int](), Counter[int](), set[tuple[int, int]]()
    for position, amount in amounts.items():
        gang = victims[position].gang
        if gang is not None:
            gangs[gang] += amount
    for position, amount in amounts.items():
        victim = victims[position]
        if victim.gang is None:
            on[victim.node] += amount
        elif (victim.node, victim.gang) not in visited:
            visited.add((victim.node, victim.gang))
            on[victim.node] += gangs[victim.gang]
    return min(sum(amounts.values()), sum(amount for _, amount in on.most_common(len(case.pending))))


def _shares(case: Case, level: int, worth: dict[int, int], broken: int, usable: set[int]) -> dict[int, int]:
    """What a victim on a usable node costs at least; victims that can never go are missing."""
    problem, tree = case.problem, case.tree
    members: dict[int, list[int]] = {}
    for position in case.useful:
        gang = problem.victims[position].gang
        if gang is not None:
            members.setdefault(gang, []).append(position)
    shares = {position: worth[position] for position in case.useful if problem.victims[position].node in usable}
    for gang, kin in members.items():
        running = problem.victim_gangs[gang]
        if running.running - running.minimum > 0:
            continue
        near = [position for position in kin if position in shares]
        inside = Counter(tree.domain(level, problem.victims[position].node) for position in near)
        whole = sum(worth[position] for position in kin) + broken
        for position in near:
            if len(kin) < running.running:
                del shares[position]
            else:
                shares[position] = whole // inside[tree.domain(level, problem.victims[position].node)]
    return shares


def _totals(case: Case, usable: NDArray[np.bool_], shares: dict[int, int], most: int) -> Counts:
    """By node and number of members, from 0 on, the least that they cost together. `most`: as many on one node."""
    problem = case.problem
    least = _least_requests(case)
    free = problem.nodes.free
    on: dict[int, list[int]] = {}
    for victim in shares:
        on.setdefault(problem.victims[victim].node, []).append(victim)
    totals = np.full((len(problem.nodes), most + 1), NEVER, dtype=np.int64)
    totals[:, 0] = 0
    asked = np.arange(1, most + 1, dtype=np.int64)[:, None] * least
    for nodes in _batches(usable, on):
        victims = [[problem.victims[victim].requests for victim in on.get(node, [])] for node in nodes]
        held = np.array(victims, dtype=np.int64).reshape(len(nodes), -1, len(least))
        paid = np.array([[shares[victim] for victim in on.get(node, [])] for node in nodes], dtype=np.int64)
        missing = np.where(least > 0, asked - free[nodes][:, None], 0)
        exact = held.shape[1] <= _SUBSETS
        totals[nodes, 1:] = (_cheapest if exact else _cheapest_at_least)(held, paid.reshape(len(nodes), -1), missing)
    return totals


def _most_on_a_node(case: Case) -> int:
    least = _least_requests(case)
    asked = np.flatnonzero(least > 0)
    fitting = (np.maximum(case.amounts[:, asked], 0) // least[asked]).min(axis=1, initial=len(case.pending))
    usable = case.capacity.max(axis=0, initial=0) > 0
    return int(np.where(usable, fitting, 0).max(initial=0))


def _least_requests(case: Case) -> Counts:
    """Of every resource, what the least demanding member asks."""
    shapes = {case.member(seat).shape for seat in case.pending}
    requests = np.array([case.problem.shapes[shape].requests for shape in sorted(shapes)], dtype=np.int64)
    least: Counts = requests.min(axis=0)
    return least


def _batches(usable: NDArray[np.bool_], on: dict[int, list[int]]) -> Iterator[list[int]]:
    """Usable nodes with equally many victims, not too many at a time."""
    by_count: dict[int, list[int]] = {}
    for node in np.flatnonzero(usable).tolist():
        by_count.setdefault(len(on.get(node, [])), []).append(node)
    for _, nodes in sorted(by_count.items()):
        for first in range(0, len(nodes), _BATCH):
            yield nodes[first : first + _BATCH]


def _cheapest(held: Counts, paid: Counts, missing: Counts) -> Counts:
    """By node and number of members, the cheapest victims that leave enough. `held[node, victim, resource]`,
    `paid[node, victim]`, `missing[node, members, resource]`.
    """
    count = held.shape[1]
    chosen = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    freed = chosen @ held
    price = paid @ chosen.T
    found = np.full(missing.shape[:2], NEVER, dtype=np.int64)
    for members in range(missing.shape[1]):
        enough = (freed >= missing[:, None, members]).all(axis=2)
        found[:, members] = np.where(enough, price, NEVER).min(axis=1)
    return found


def _cheapest_at_least(held: Counts, paid: Counts, missing: Counts) -> Counts:
    """As `_cheapest`, a bound: as many victims as the largest of each resource would do, each of them the cheapest."""
    freed = np.cumsum(-np.sort(-held, axis=1), axis=1)
    price = np.concatenate([np.zeros((len(paid), 1), dtype=np.int64), np.cumsum(np.sort(paid, axis=1), axis=1)], axis=1)
    found = np.full(missing.shape[:2], NEVER, dtype=np.int64)
    for members in range(missing.shape[1]):
        short = freed < missing[:, None, members]
        victims = np.where(missing[:, members] > 0, short.sum(axis=1) + 1, 0).max(axis=1)
        possible = victims <= held.shape[1]
        found[possible, members] = price[np.flatnonzero(possible), victims[possible]]
    return found


def _marginal(totals: Counts) -> Counts:
    """What each member costs beyond those before it, along the lower convex hull of the totals, rounded down."""
    nodes, most = totals.shape[0], totals.shape[1] - 1
    slots = np.full((nodes, most), NEVER, dtype=np.int64)
    counts = np.arange(most + 1)
    at, rows = np.zeros(nodes, dtype=np.int64), np.arange(nodes)
    while True:
        steps = counts - at[:, None]
        gain = totals - totals[rows, at][:, None]
        slope = np.where((steps > 0) & (totals < NEVER), gain // np.maximum(steps, 1), NEVER)
        best = slope.min(axis=1)
        to = most - slope[:, ::-1].argmin(axis=1)
        moved = best < NEVER
        if not moved.any():
            return slots
        inside = (counts[1:] > at[:, None]) & (counts[1:] <= to[:, None]) & moved[:, None]
        slots = np.where(inside, best[:, None], slots)
        at = np.where(moved, to, at)
