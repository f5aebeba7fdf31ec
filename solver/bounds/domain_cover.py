"""Bounds by counting: the fewest domains that can hold some members, and the most members that a domain can hold.

Every bound looks at one resource alone, or at the members of one shape alone, and allows that a member is split between
domains (the continuous bound of bin packing; Martello and Toth, Knapsack Problems, 1990, chapter 8). A plan respects
all resources and all shapes, so the tightest of these bounds holds for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts, deciding_level, pending
from solver.instance import Instance, Seat, instance_of
from solver.problem import Member, Problem

DomainCounts = tuple[int, ...]
"""The values of goal 3 (compactness): for each level, widest first, the number of domains of the gang.

If several sets have members, each level has a second number: the domains of each set, summed over the sets. For
example, (1, 2, 3, 4) means one rack and three nodes for a gang of two sets. Both sets use the rack, and each of them
uses two nodes.
"""

_PLENTY = 2
"""`too_few` skips the slower check of how members pack on nodes in domains with plenty of capacity. A domain has plenty
if it has this many times what the gang's minimum requests, of each resource.
"""
_MIXTURES = 1000
"""The most combinations of members of different shapes that `_packable` enumerates for one node. If there are more
combinations, a weaker bound is used.
"""


class Covers:
    """Lower bounds on the number of domains that hold given members of one instance.

    Capacities and needs are arrays with one column for each resource (an amount), followed by one for each shape (a
    number of members).
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._capacities: Counts = np.concatenate([instance.usable_amounts, instance.capacity.T], axis=1)
        """Nodes x (resources + shapes): free amounts of each resource, then how many members of each shape fit."""

    def needs(self, seats: Iterable[Seat]) -> Counts:
        """Return the needs of these members: their requests summed by resource, followed by the number of members of
        each shape.
        """
        return self.needs_of(Counter(self.instance.member(seat).shape for seat in seats))

    def needs_of(self, counts: Mapping[int, int]) -> Counts:
        """Return the needs of members: their requests summed by resource, followed by the number of members of each
        shape. `counts`: by shape, how many members.
        """
        shapes = self.instance.problem.shapes
        needed = np.zeros(self._capacities.shape[1], dtype=np.int64)
        resources = len(self.instance.problem.resources)
        for shape, count in counts.items():
            needed[:resources] += count * np.array(shapes[shape].requests, dtype=np.int64)
            needed[resources + shape] += count
        return needed

    def capacities(self, level: int) -> Counts:
        """Return the capacity of each domain of `level`, as an array domains x (resources + shapes).

        The first columns are the free amounts of each resource. The other columns are the numbers of members of each
        shape that fit.
        """
        return self.instance.tree.summed(level, self._capacities)

    def least(self, level: int, seats: list[Seat]) -> int:
        """Return a lower bound on the number of domains of `level` that together hold these members.

        If all domains together cannot hold the members, the result is larger than the number of domains.
        """
        held, capacities, needed = self._missing(level, seats)
        # capacities: domains x columns; needed: columns. Each column is sorted by itself. Then row k - 1 of the running
        # sum is the most that any k domains hold of that column. `fewest`: by column, the smallest k that reaches the
        # need.
        most_first = -np.sort(-capacities, axis=0)
        reached = np.cumsum(most_first, axis=0) >= needed
        fewest = np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, len(capacities) + 1)
        return len(held) + int(np.where(needed > 0, fewest, 0).max(initial=0))

    def fewest(self, level: int, narrower: int, seats: Sequence[Seat]) -> Counts:
        """Return, by domain of `level` (or ROOT, the whole cluster), a lower bound on how many domains of the level
        `narrower` inside it together hold these members.

        No member in `seats` may be pinned.
        """
        tree, needed = self.instance.tree, self.needs(seats)
        capacities, around = self.capacities(narrower), tree.around(narrower, level)
        most = np.zeros(tree.count(level), dtype=np.int64)
        # The bound of `least`, inside each domain of `level` at once. Narrower domains are sorted by the domain around
        # them and then by capacity. `before` is the sum of larger capacities in the same domain: a running sum, minus
        # its value where the domain begins. A narrower domain counts if all larger ones together are not enough.
        for column in np.flatnonzero(needed > 0).tolist():
            order = np.lexsort((-capacities[:, column], around))
            room, there = capacities[order, column], around[order]
            before = np.cumsum(room) - room
            before -= before[np.searchsorted(there, there)]
            counts = np.zeros_like(most)
            np.add.at(counts, there, (before < needed[column]) & (room > 0))
            most = np.maximum(most, counts)
        return most

    def useful(self, level: int, seats: list[Seat], most: int) -> NDArray[np.bool_]:
        """Return, by domain of `level`, whether a plan that uses at most `most` domains of the level can use this
        domain.

        A domain is not useful if it holds too few of the members `seats` even together with the `most` - 1 domains that
        have the most capacity.
        """
        held, capacities, needed = self._missing(level, seats)
        # best: (others + 1) x columns, the largest capacities of each column. with_it: domains x columns, the capacity
        # of a domain and of the best `others` domains together. A domain that is among the best itself would count
        # twice, but the sum of the best `others` + 1 domains is an upper bound, too. So the smaller of both holds.
        others = max(0, most - len(held) - 1)
        best = -np.sort(-capacities, axis=0)[: others + 1]
        with_it = np.minimum(best.sum(axis=0), capacities + best[:others].sum(axis=0))
        useful: NDArray[np.bool_] = (with_it >= needed).all(axis=1) & (most > len(held))
        useful[sorted(held)] = True
        return useful

    def _missing(self, level: int, seats: list[Seat]) -> tuple[set[int], Counts, Counts]:
        """Return three values: the domains of `level` with pinned members among `seats`, the capacities of the other
        domains, and the needs that these other domains must cover.

        The capacities are an array domains x columns. The rows of domains with pinned members are 0.
        """
        held = {
            self.instance.tree.domain(level, self.instance.pinned_node(seat)) for seat in seats if self._pinned(seat)
        }
        needed = self.needs(seat for seat in seats if not self._pinned(seat))
        capacities = self.capacities(level)
        needed = needed - capacities[sorted(held)].sum(axis=0)
        capacities[sorted(held)] = 0
        return held, capacities, needed

    def _pinned(self, seat: Seat) -> bool:
        return self.instance.member(seat).node is not None


def too_few(instance: Instance, level: int) -> NDArray[np.bool_]:
    """Return, by domain of `level` (or ROOT, the whole cluster), whether counting proves that it cannot hold the gang's
    minimum. False: the domain may hold it.

    Pinned members count as placed, in whichever domain they are.
    """
    problem = instance.problem
    short = _short(instance, problem, level)
    # If one set needs as many members as the whole gang, the check of that set is at least as strict.
    if problem.minimum > max((pod_set.minimum for pod_set in problem.sets), default=0):
        waiting = pending(problem)
        held = sum(len(pod_set.members) for pod_set in problem.sets) - len(waiting)
        short |= held + most_members(instance, waiting, level) < problem.minimum
    if short.all():
        return short
    for narrower, pod_sets in _in_one_domain(problem):
        if narrower > level and not short.all():
            chosen = replace(problem, sets=tuple(problem.sets[each] for each in pod_sets), minimum=0)
            able = ~_short(instance, chosen, narrower)
            inside = np.zeros(len(short), dtype=np.bool_)
            np.logical_or.at(inside, instance.tree.around(narrower, level), able)
            short |= ~inside
    demand = _least_demand(problem)
    offered = instance.tree.summed(level, instance.usable_amounts)
    if (short | (offered < _PLENTY * demand).any(axis=1)).all() and not short.all():
        short |= (instance.tree.summed(level, _packable(instance)) < demand).any(axis=1)
    return short


def _short(instance: Instance, problem: Problem, level: int) -> NDArray[np.bool_]:
    """Return, by domain of `level`, whether the domain lacks capacity for the minimum of some set, or lacks a resource
    for the gang's minimum.

    `problem`: the problem of the instance, or the problem with some of its sets only.
    """
    offered = instance.tree.summed(level, instance.usable_amounts)
    short: NDArray[np.bool_] = np.any(offered < _least_demand(problem), axis=1)
    for pod_set in problem.sets:
        open_members = [member for member in pod_set.members if member.node is None]
        missing = pod_set.minimum - (len(pod_set.members) - len(open_members))
        if missing > 0:
            short |= most_members(instance, open_members, level) < missing
    return short


def _in_one_domain(problem: Problem) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield pairs of a level and sets (positions): one domain of the level must hold all placed members of the sets.
    Each pair comes from a set's required level or a `Together` constraint.
    """
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None:
            yield pod_set.required, (position,)
    for rule in problem.together:
        yield rule.level, rule.pod_sets


def _packable(instance: Instance) -> Counts:
    """Return, nodes x resources, an upper bound on the amount of each resource that pending members can use on a node,
    whatever combination of members is there.
    """
    shapes = sorted({instance.member(seat).shape for seat in instance.pending})
    asked = np.array([instance.problem.shapes[shape].requests for shape in shapes], dtype=np.int64)
    room, most = np.maximum(instance.amounts, 0), instance.capacity[shapes].T
    usable = most.max(axis=1, initial=0) > 0
    bound: Counts = np.where(usable[:, None], np.minimum(room, most @ asked), 0)
    counts = most.max(axis=0, initial=0) + 1
    if len(shapes) == 1 or np.prod(counts, dtype=np.float64) > _MIXTURES:
        return bound
    # mixtures: mixtures x shapes. A mixture is a number of members of each shape, each number up to the most that any
    # node holds. used: mixtures x resources. The bound of a node is the maximum of each resource over the mixtures that
    # fit on the node: a knapsack by enumeration, for few shapes.
    mixtures = np.array(list(np.ndindex(*counts.tolist())), dtype=np.int64)
    used = mixtures @ asked
    for node in np.flatnonzero(usable).tolist():
        fitting = ((used <= room[node]) | (used == 0)).all(axis=1) & (mixtures <= most[node]).all(axis=1)
        bound[node] = used[fitting].max(axis=0)
    return bound


def _least_demand(problem: Problem) -> Counts:
    """Return, by resource, a lower bound on what the members that are needed for the gang's minimum request.

    Pinned members request nothing. First, each set needs as many further members as it lacks to its own minimum. Then
    the gang may need more members to reach its minimum. The members with the smallest requests are counted.
    """
    requests = np.array([shape.requests for shape in problem.shapes], dtype=np.int64)
    requests = requests.reshape(len(problem.shapes), len(problem.resources))
    needed = problem.minimum
    demand = np.zeros(len(problem.resources), dtype=np.int64)
    others = [requests[:0]]
    for pod_set in problem.sets:
        waiting = [member.shape for member in pod_set.members if member.node is None]
        held = len(pod_set.members) - len(waiting)
        missing = max(0, pod_set.minimum - held)
        # asked: members x resources, each column sorted by itself. The sum of its first k rows is the least that any k
        # members request of that resource.
        asked = np.sort(requests[np.array(waiting, dtype=np.int64)], axis=0)
        demand += asked[:missing].sum(axis=0)
        others.append(asked[missing:])
        needed -= held + missing
    extra: Counts = np.sort(np.vstack(others), axis=0)[: max(0, needed)].sum(axis=0)
    return demand + extra


def most_members(instance: Instance, members: Sequence[Member], level: int) -> Counts:
    """Return, by domain of `level` (or ROOT, the whole cluster), an upper bound on how many of the members `members`
    the domain can hold.

    The bound is the smaller of two numbers. The first is summed over the shapes: the members of the shape that fit if
    no other member is in the domain. The second is computed for each resource, and the least is taken: how often the
    smallest request of the resource fits on the domain's nodes.
    """
    problem, tree = instance.problem, instance.tree
    counts = Counter([member.shape for member in members])
    # most: domains. The smaller of two bounds: the sum over shapes of the capacity (shapes x nodes) for each shape
    # alone, and, per resource, the sum over nodes of how often the smallest request fits.
    most = np.zeros(tree.count(level), dtype=np.int64)
    for shape, count in counts.items():
        most += np.minimum(tree.summed(level, instance.capacity[shape]), count)
    usable = instance.capacity[sorted(counts)].any(axis=0)
    for resource in range(len(problem.resources)):
        least = min((problem.shapes[shape].requests[resource] for shape in counts), default=0)
        if least > 0:
            fitting = np.where(usable, np.maximum(instance.amounts[:, resource], 0) // least, 0)
            most = np.minimum(most, tree.summed(level, fitting))
    return most


def certainly_none(problem: Problem) -> bool:
    """Return whether counting alone proves that there is no plan, even if all victims could be evicted.

    False: a plan may exist, or the amounts are too large to be counted.
    """
    try:
        return too_small(instance_of(problem, evicting=bool(problem.victims)))
    except OverflowError:
        return False


def too_small(instance: Instance) -> bool:
    """Return whether counting proves that no domain of the gang's required level (or ROOT, the whole cluster) can hold
    the minimum.
    """
    return bool(too_few(instance, deciding_level(instance.problem)).all())
