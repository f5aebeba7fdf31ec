"""How few domains can hold some members, and how many a domain can hold: by counting, which spares CP-SAT the proof.

Every bound relaxes the packing to one column at a time: one resource, or one shape, and in it no member has to be
whole (the continuous bound of bin packing; Martello and Toth, Knapsack Problems, 1990, chapter 8). The largest of the
columns' bounds is a bound, because a plan keeps to all of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts, deciding_level, pending
from solver.instance import Instance, Seat, instance_of
from solver.problem import Member, Problem

Spread = tuple[int, ...]
"""Level by level, the domains of the gang and, where there are several sets, summed over them."""

_PLENTY = 2
"""With so many times what is asked for, it is not looked at how it can be put together."""
_MIXTURES = 1000
"""Up to how many mixtures of members are tried on a node."""


class Covers:
    """Bounds for one instance. Members and nodes are counted per resource and per shape, each by itself."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        # offers: nodes x (resources + shapes).
        self._offers: Counts = np.concatenate([instance.usable_amounts, instance.capacity.T], axis=1)
        """Per node: what it has of each resource, then how many it can hold of each shape."""

    def needs(self, seats: Iterable[Seat]) -> Counts:
        """What these members ask for, in the columns of the nodes' offers."""
        return self.needs_of(Counter(self.instance.member(seat).shape for seat in seats))

    def needs_of(self, counts: Mapping[int, int]) -> Counts:
        """The same for so many members of each shape."""
        shapes = self.instance.problem.shapes
        needed = np.zeros(self._offers.shape[1], dtype=np.int64)
        resources = len(self.instance.problem.resources)
        for shape, count in counts.items():
            needed[:resources] += count * np.array(shapes[shape].requests, dtype=np.int64)
            needed[resources + shape] += count
        return needed

    def offers(self, level: int) -> Counts:
        """The offers of all domains of a level."""
        return self.instance.tree.summed(level, self._offers)

    def least(self, level: int, seats: list[Seat]) -> int:
        """At least so many domains of `level` hold these members; more than there are, where they cannot hold them."""
        held, offers, needed = self._missing(level, seats)
        # offers: domains x columns; needed: columns. Sorted by itself, column by column, row k - 1 of the running sum
        # is what the k domains with the most offer there: nobody else's k offer more. `fewest`: columns, the first such
        # k.
        most_first = -np.sort(-offers, axis=0)
        reached = np.cumsum(most_first, axis=0) >= needed
        fewest = np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, len(offers) + 1)
        return len(held) + int(np.where(needed > 0, fewest, 0).max(initial=0))

    def fewest(self, level: int, narrower: int, seats: Sequence[Seat]) -> Counts:
        """By domain of `level` (or ROOT): at least so many domains of a narrower level inside hold these members. They
        are none that are pinned.
        """
        tree, needed = self.instance.tree, self.needs(seats)
        offers, around = self.offers(narrower), tree.around(narrower, level)
        most = np.zeros(tree.count(level), dtype=np.int64)
        # As `least`, inside each domain of `level` at once: sorted by domain and then by offer, `before` is what the
        # larger ones in the same domain offer together (a running sum, less what it was where the domain begins). A
        # narrower domain counts as long as those before it are not enough.
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
        """By domain of `level`: whether it can be one of at most so many domains that hold these members."""
        held, offers, needed = self._missing(level, seats)
        # best: others x columns, the largest offers of each column. with_it: domains x columns, what a domain offers
        # with the best others beside it. Where it is among these itself, it would count twice: then the sum of the best
        # others + 1 is all there is, so the smaller of both holds.
        others = max(0, most - len(held) - 1)
        best = -np.sort(-offers, axis=0)[: others + 1]
        with_it = np.minimum(best.sum(axis=0), offers + best[:others].sum(axis=0))
        useful: NDArray[np.bool_] = (with_it >= needed).all(axis=1) & (most > len(held))
        useful[sorted(held)] = True
        return useful

    def _missing(self, level: int, seats: list[Seat]) -> tuple[set[int], Counts, Counts]:
        """The domains that pinned members are in, what the others offer, and what these have to hold."""
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
    """By domain of `level` (or ROOT): whether it certainly cannot hold the minimum of the gang, pinned members counted
    wherever they are.
    """
    problem = instance.problem
    short = _short(instance, problem, level)
    # Where a set needs no fewer members than the whole gang, what it needs has told more.
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
    """By domain: whether it cannot hold the minimums of all sets, each by itself or all resources together. `problem`:
    that of the instance, or a part of its sets.
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
    """Levels with the sets of which one domain must hold all members."""
    for position, pod_set in enumerate(problem.sets):
        if pod_set.required is not None:
            yield pod_set.required, (position,)
    for rule in problem.together:
        yield rule.level, rule.pod_sets


def _packable(instance: Instance) -> Counts:
    """Of every resource, at most so much of each node can members use, however they are put together there."""
    shapes = sorted({instance.member(seat).shape for seat in instance.pending})
    asked = np.array([instance.problem.shapes[shape].requests for shape in shapes], dtype=np.int64)
    room, most = np.maximum(instance.amounts, 0), instance.capacity[shapes].T
    usable = most.max(axis=1, initial=0) > 0
    bound: Counts = np.where(usable[:, None], np.minimum(room, most @ asked), 0)
    counts = most.max(axis=0, initial=0) + 1
    if len(shapes) == 1 or np.prod(counts, dtype=np.float64) > _MIXTURES:
        return bound
    # mixtures: mixtures x shapes, every combination of numbers up to what any node holds; used: mixtures x resources.
    # Of every node, the most of each resource over those that fit there: a knapsack by enumeration, for few shapes.
    mixtures = np.array(list(np.ndindex(*counts.tolist())), dtype=np.int64)
    used = mixtures @ asked
    for node in np.flatnonzero(usable).tolist():
        fitting = ((used <= room[node]) | (used == 0)).all(axis=1) & (mixtures <= most[node]).all(axis=1)
        bound[node] = used[fitting].max(axis=0)
    return bound


def _least_demand(problem: Problem) -> Counts:
    """Of every resource, what the minimum of the gang asks for at least: of each set as many as it needs, then as many
    of all as the gang does, those that ask the least first.
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
        # asked: members x resources, each column sorted by itself: its first k rows sum up to the least that any k
        # members ask of that resource.
        asked = np.sort(requests[np.array(waiting, dtype=np.int64)], axis=0)
        demand += asked[:missing].sum(axis=0)
        others.append(asked[missing:])
        needed -= held + missing
    extra: Counts = np.sort(np.vstack(others), axis=0)[: max(0, needed)].sum(axis=0)
    return demand + extra


def most_members(instance: Instance, members: Sequence[Member], level: int) -> Counts:
    """By domain of `level` (or ROOT), an upper bound on how many of these members it can hold: of each shape no more
    than its capacity, and of all no more than the least request leaves of any resource.
    """
    problem, tree = instance.problem, instance.tree
    counts = Counter([member.shape for member in members])
    # most: domains. Two bounds, of which the smaller holds: the sum over shapes of what capacity (shapes x nodes) has
    # for each of them alone, and per resource the sum over nodes of how often the least request is in the room.
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
    """Whether counting tells at once that there is no plan, whoever is evicted. False: there may be one, or amounts are
    too large to be counted.
    """
    try:
        return too_small(instance_of(problem, evicting=bool(problem.victims)))
    except OverflowError:
        return False


def too_small(instance: Instance) -> bool:
    """Whether by counting no domain of the required level can hold the minimum."""
    return bool(too_few(instance, deciding_level(instance.problem)).all())
