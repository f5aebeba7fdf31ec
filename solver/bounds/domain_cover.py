"""Bounds by counting: the fewest domains that can hold some members, and the most members that a domain can hold.

Every bound relaxes the packing to one column at a time: one resource, or one shape. Members may be split in it (the
continuous bound of bin packing; Martello and Toth, Knapsack Problems, 1990, chapter 8). The tightest of the columns'
bounds is a bound, because a plan respects all columns.
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
"""The values of goal 3 (compactness): for each level, widest first, the number of domains of the gang. If several sets
have members, the sum over the sets follows each number.
"""

_PLENTY = 2
"""If a domain has this many times the demand of each resource, `too_few` skips the slower check of how members pack on
nodes.
"""
_MIXTURES = 1000
"""The most combinations of members of different shapes that `_packable` enumerates. If there are more, it uses a weaker
bound.
"""


class Covers:
    """Lower bounds on the number of domains that hold given members of one instance.

    Offers and needs have one column for each resource (an amount) and one for each shape (a number of members).
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._offers: Counts = np.concatenate([instance.usable_amounts, instance.capacity.T], axis=1)
        """Nodes x (resources + shapes): free amounts of each resource, then how many members of each shape fit."""

    def needs(self, seats: Iterable[Seat]) -> Counts:
        """Return what these members need: by column, the requested amounts of each resource, then the number of members
        of each shape.
        """
        return self.needs_of(Counter(self.instance.member(seat).shape for seat in seats))

    def needs_of(self, counts: Mapping[int, int]) -> Counts:
        """Return what members need, by column of the offers. `counts`: how many members of each shape."""
        shapes = self.instance.problem.shapes
        needed = np.zeros(self._offers.shape[1], dtype=np.int64)
        resources = len(self.instance.problem.resources)
        for shape, count in counts.items():
            needed[:resources] += count * np.array(shapes[shape].requests, dtype=np.int64)
            needed[resources + shape] += count
        return needed

    def offers(self, level: int) -> Counts:
        """Return the offers of all domains of a level: domains x columns."""
        return self.instance.tree.summed(level, self._offers)

    def least(self, level: int, seats: list[Seat]) -> int:
        """Return a lower bound on the number of domains of `level` that together hold these members.

        If all domains together cannot hold the members, the result is larger than the number of domains.
        """
        held, offers, needed = self._missing(level, seats)
        # offers: domains x columns; needed: columns. Each column is sorted by itself. Row k - 1 of the running sum is
        # then the most that any k domains offer there. `fewest`: by column, the smallest k that reaches the need.
        most_first = -np.sort(-offers, axis=0)
        reached = np.cumsum(most_first, axis=0) >= needed
        fewest = np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, len(offers) + 1)
        return len(held) + int(np.where(needed > 0, fewest, 0).max(initial=0))

    def fewest(self, level: int, narrower: int, seats: Sequence[Seat]) -> Counts:
        """Return, by domain of `level` (or ROOT), a lower bound on the domains of `narrower` inside it that hold these
        members.

        None of the members may be pinned.
        """
        tree, needed = self.instance.tree, self.needs(seats)
        offers, around = self.offers(narrower), tree.around(narrower, level)
        most = np.zeros(tree.count(level), dtype=np.int64)
        # The bound of `least`, inside each domain of `level` at once. Narrower domains are sorted by domain and then by
        # offer. `before` is the sum of larger offers in the same domain: a running sum, minus its value where the
        # domain begins. A narrower domain counts as long as those before it are not enough.
        for column in np.flatnonzero(needed > 0).tolist():
            order = np.lexsort((-offers[:, column], around))
            room, there = offers[order, column], around[order]
            before = np.cumsum(room) - room
            before -= before[np.searchsorted(there, there)]
            counts = np.zeros_like(most)
            np.add.at(counts, there, (before < needed[column]) & (room > 0))
            most = np.maximum(most, counts)
        return most

    def useful(self, level: int, seats: list[Seat], most: int) -> NDArray[np.bool_]:
        """Return, by domain of `level`, whether it can be one of at most `most` domains that together hold these
        members.
        """
        held, offers, needed = self._missing(level, seats)
        # best: others x columns, the largest offers of each column. with_it: domains x columns, the offer of a domain
        # with the best others beside it. A domain that is among the best itself would count twice. Then the sum of the
        # best others + 1 is an upper bound, so the smaller of both holds.
        others = max(0, most - len(held) - 1)
        best = -np.sort(-offers, axis=0)[: others + 1]
        with_it = np.minimum(best.sum(axis=0), offers + best[:others].sum(axis=0))
        useful: NDArray[np.bool_] = (with_it >= needed).all(axis=1) & (most > len(held))
        useful[sorted(held)] = True
        return useful

    def _missing(self, level: int, seats: list[Seat]) -> tuple[set[int], Counts, Counts]:
        """Return three values: the domains with pinned members, the offers of all other domains, and what these must
        still provide.

        The offers are domains x columns, with 0 for the domains with pinned members.
        """
        held = {
            self.instance.tree.domain(level, self.instance.pinned_node(seat)) for seat in seats if self._pinned(seat)
        }
        needed = self.needs(seat for seat in seats if not self._pinned(seat))
        offers = self.offers(level)
        needed = needed - offers[sorted(held)].sum(axis=0)
        offers[sorted(held)] = 0
        return held, offers, needed

    def _pinned(self, seat: Seat) -> bool:
        return self.instance.member(seat).node is not None


def too_few(instance: Instance, level: int) -> NDArray[np.bool_]:
    """Return, by domain of `level` (or ROOT), whether counting proves that it cannot hold the gang's minimum.

    Pinned members count wherever they are. False: the domain may hold it.
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
    """Return, by domain of `level`, whether it lacks capacity for the minimums: of one set alone, or of all sets in one
    resource.

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
    """Yield, for each set or `Together` constraint, the level and the sets whose placed members must be in one domain
    of it.
    """
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None:
            yield pod_set.required, (position,)
    for rule in problem.together:
        yield rule.level, rule.pod_sets


def _packable(instance: Instance) -> Counts:
    """Return, nodes x resources, an upper bound on what pending members can use on a node in any combination."""
    shapes = sorted({instance.member(seat).shape for seat in instance.pending})
    asked = np.array([instance.problem.shapes[shape].requests for shape in shapes], dtype=np.int64)
    room, most = np.maximum(instance.amounts, 0), instance.capacity[shapes].T
    usable = most.max(axis=1, initial=0) > 0
    bound: Counts = np.where(usable[:, None], np.minimum(room, most @ asked), 0)
    counts = most.max(axis=0, initial=0) + 1
    if len(shapes) == 1 or np.prod(counts, dtype=np.float64) > _MIXTURES:
        return bound
    # mixtures: mixtures x shapes, every combination of numbers up to what any node holds; used: mixtures x resources.
    # The bound of a node is the maximum of each resource over the mixtures that fit there: a knapsack by enumeration,
    # for few shapes.
    mixtures = np.array(list(np.ndindex(*counts.tolist())), dtype=np.int64)
    used = mixtures @ asked
    for node in np.flatnonzero(usable).tolist():
        fitting = ((used <= room[node]) | (used == 0)).all(axis=1) & (mixtures <= most[node]).all(axis=1)
        bound[node] = used[fitting].max(axis=0)
    return bound


def _least_demand(problem: Problem) -> Counts:
    """Return, by resource, a lower bound on what the gang's minimum requests. Pinned members request nothing.

    Each set contributes its missing minimum, and the gang what it needs beyond. The smallest requests count first.
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
    """Return, by domain of `level` (or ROOT), an upper bound on how many of these members it can hold.

    The bound is the smaller of two: the sum of the capacities for each shape alone, and, for each resource, how often
    the smallest request fits.
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
    """Return whether counting proves that no domain of the gang's required level (or ROOT) can hold the minimum."""
    return bool(too_few(instance, deciding_level(instance.problem)).all())
