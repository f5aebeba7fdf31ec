"""How few domains can hold some members, and how many a domain can hold: by counting, which spares CP-SAT the proof."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from solver.bounds import Counts, pending
from solver.case import Case, Seat
from solver.problem import Member


class Covers:
    """Bounds for one case. Members and nodes are counted per resource and per shape, each by itself."""

    def __init__(self, case: Case) -> None:
        self.case = case
        useful = case.capacity.max(axis=0, initial=0) > 0
        amounts = np.where(useful[:, None], np.maximum(case.amounts, 0), 0)
        self._offers: Counts = np.concatenate([amounts, case.capacity.T], axis=1)
        """Per node: what it has of each resource, then how many it can hold of each shape."""

    def needs(self, seats: Iterable[Seat]) -> Counts:
        """What these members ask for, in the columns of the nodes' offers."""
        shapes = self.case.problem.shapes
        counts = Counter(self.case.member(seat).shape for seat in seats)
        needed = np.zeros(self._offers.shape[1], dtype=np.int64)
        resources = len(self.case.problem.resources)
        for shape, count in counts.items():
            needed[:resources] += count * np.array(shapes[shape].requests, dtype=np.int64)
            needed[resources + shape] += count
        return needed

    def offers(self, level: int) -> Counts:
        """The offers of all domains of a level."""
        return self.case.tree.summed(level, self._offers)

    def least(self, level: int, seats: list[Seat]) -> int:
        """At least so many domains of `level` hold these members; more than there are, where they cannot hold them."""
        held, offers, needed = self._missing(level, seats)
        most_first = -np.sort(-offers, axis=0)
        reached = np.cumsum(most_first, axis=0) >= needed
        fewest = np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, len(offers) + 1)
        return len(held) + int(np.where(needed > 0, fewest, 0).max(initial=0))

    def useful(self, level: int, seats: list[Seat], most: int) -> NDArray[np.bool_]:
        """By domain of `level`: whether it can be one of at most so many domains that hold these members."""
        held, offers, needed = self._missing(level, seats)
        others = max(0, most - len(held) - 1)
        best = -np.sort(-offers, axis=0)[: others + 1]
        with_it = np.minimum(best.sum(axis=0), offers + best[:others].sum(axis=0))
        useful: NDArray[np.bool_] = (with_it >= needed).all(axis=1) & (most > len(held))
        useful[sorted(held)] = True
        return useful

    def _missing(self, level: int, seats: list[Seat]) -> tuple[set[int], Counts, Counts]:
        """The domains that pinned members are in, what the others offer, and what these have to hold."""
        held = {self.case.tree.domain(level, self.case.pinned_node(seat)) for seat in seats if self._pinned(seat)}
        needed = self.needs(seat for seat in seats if not self._pinned(seat))
        offers = self.offers(level)
        needed = needed - offers[sorted(held)].sum(axis=0)
        offers[sorted(held)] = 0
        return held, offers, needed

    def _pinned(self, seat: Seat) -> bool:
        return self.case.member(seat).node is not None


def too_few(case: Case, level: int) -> NDArray[np.bool_]:
    """By domain of `level` (or ROOT): whether it certainly cannot hold the minimum of the gang, pinned members counted
    wherever they are.
    """
    problem = case.problem
    waiting = pending(problem)
    held = sum(len(pod_set.members) for pod_set in problem.sets) - len(waiting)
    short: NDArray[np.bool_] = held + most_members(case, waiting, level) < problem.minimum
    for pod_set in problem.sets:
        open_members = tuple(member for member in pod_set.members if member.node is None)
        missing = pod_set.minimum - (len(pod_set.members) - len(open_members))
        if missing > 0:
            short |= most_members(case, open_members, level) < missing
    return short


def most_members(case: Case, members: Sequence[Member], level: int) -> Counts:
    """By domain of `level` (or ROOT), an upper bound on how many of these members it can hold: of each shape no more
    than its capacity, and of all no more than the least request leaves of any resource.
    """
    problem, tree = case.problem, case.tree
    counts = Counter(member.shape for member in members)
    most = np.zeros(tree.count(level), dtype=np.int64)
    for shape, count in counts.items():
        most += np.minimum(tree.summed(level, case.capacity[shape]), count)
    usable = case.capacity[sorted(counts)].any(axis=0)
    for resource in range(len(problem.resources)):
        least = min((problem.shapes[shape].requests[resource] for shape in counts), default=0)
        if least > 0:
            fitting = np.where(usable, np.maximum(case.amounts[:, resource], 0) // least, 0)
            most = np.minimum(most, tree.summed(level, fitting))
    return most
