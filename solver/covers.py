"""How few domains can hold some members: bounds by counting, which spare CP-SAT the proof."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from solver.bounds import Counts, room
from solver.case import Case, Seat


class Covers:
    """Bounds for one case. Members and nodes are counted per resource and per shape, each by itself."""

    def __init__(self, case: Case) -> None:
        self.case = case
        useful = case.capacity.max(axis=0, initial=0) > 0
        amounts = np.where(useful[:, None], np.maximum(room(case.problem, case.useful), 0), 0)
        self._offers: Counts = np.concatenate([amounts, case.capacity.T], axis=1)
        """Per node: what it has of each resource, then how many it can hold of each shape."""
        self._domain_of = [np.array(domains, dtype=np.int64) for domains in case.tree.domain_of]

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
        summed = np.zeros((self.case.tree.count(level), self._offers.shape[1]), dtype=np.int64)
        np.add.at(summed, self._domain_of[level], self._offers)
        return summed

    def least(self, level: int, seats: list[Seat]) -> int:
        """At least so many domains of `level` hold these members; more than there are, where they cannot hold them."""
        held = {self.case.tree.domain(level, self.case.pinned_node(seat)) for seat in seats if self._pinned(seat)}
        needed = self.needs(seat for seat in seats if not self._pinned(seat))
        offers = self.offers(level)
        needed = needed - offers[sorted(held)].sum(axis=0)
        offers[sorted(held)] = 0
        most_first = -np.sort(-offers, axis=0)
        reached = np.cumsum(most_first, axis=0) >= needed
        fewest = np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, len(offers) + 1)
        return len(held) + int(np.where(needed > 0, fewest, 0).max(initial=0))

    def _pinned(self, seat: Seat) -> bool:
        return self.case.member(seat).node is not None
