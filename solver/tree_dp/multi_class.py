"""Gangs of several kinds by counting: what each domain can hold of every kind together, and at what cost.

The goals from compactness to waste are sums over domains, and most rules bind the numbers in one domain, so a dynamic
programme up the tree knows exactly how good a plan inside a domain can be, and which nodes have which numbers in the
best ones (`solver.tree_dp.class_vectors`). CP-SAT is left with those: who among them comes first by rank and name.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.bounds.domain_cover import Spread
from solver.bounds.member_classes import MemberClass, alike, sorted_kinds
from solver.capacity import Counts
from solver.instance import Instance
from solver.tree import Positions
from solver.tree_dp.class_vectors import BITS, Vector
from solver.tree_dp.multi_class_rules import MultiClassRules
from solver.tree_dp.multi_class_tables import Costs, TableEffort, Tables

_MIXTURES = 2_000
"""Up to how many different numbers of members of every kind it is counted."""

_EFFORT = 2_000_000_000
"""Additions of costs (about half a second) after which counting is given up."""


@dataclass(frozen=True)
class Best:
    """What the best plans for everybody inside a domain come to: domains used, and the weight of node preferences."""

    spread: Spread
    preference_score: int


def mixtures_of(instance: Instance) -> "Mixtures | None":
    """The tables of an instance, of which everybody has to be placed. None where counting does not tell the whole
    truth, or where there would be too much to count.
    """
    problem = instance.problem
    if instance.evicting or instance.pinned or not instance.pending:
        return None
    if instance.spreads or problem.exclusions or problem.separations or problem.affinities:
        return None
    if any(pod_set.slices for pod_set in problem.sets) and not _whole_slices(instance):
        return None
    kinds = sorted_kinds(instance)
    if np.prod([len(kind.ranks) + 1 for kind in kinds], dtype=np.float64) > _MIXTURES:
        return None
    found = Mixtures(instance, kinds)
    return found if found.counted else None


def _whole_slices(instance: Instance) -> bool:
    """Whether slices only say that numbers in domains are multiples of their sizes."""
    sets = tuple(replace(pod_set, minimum=len(pod_set.members)) for pod_set in instance.problem.sets)
    return alike(replace(instance, problem=replace(instance.problem, sets=sets))) is not None


class Mixtures:
    """All that counting tells about the domains of an instance, worked out when asked for. Raises `TooMuchError`."""

    def __init__(self, instance: Instance, kinds: tuple[MemberClass, ...]) -> None:
        self.instance, self.kinds = instance, kinds
        self.full: Vector = tuple(len(kind.ranks) for kind in kinds)
        depth, members = instance.tree.depth, sum(self.full)
        self._filled = sorted({kind.pod_set for kind in kinds})
        several = len(self._filled) > 1
        self.rules = MultiClassRules(instance, kinds, self._filled)
        most = [members] * (2 * depth if several else depth)
        most.append(int(np.array(self.full) @ self.rules.penalties.max(axis=1)))
        self._radices = [each + 1 for each in most]
        weights = _weights(self._radices)
        self.counted = weights[0] * self._radices[0] < 1 << BITS
        step = 2 if several else 1
        levels = weights[:-1]
        sets = tuple(levels[1::2]) if several else (0,) * depth
        self._compact = Costs(tuple(levels[::step]), sets, weights[-1], (0,) * depth, (0,) * depth)
        self.effort = TableEffort(_EFFORT, instance.deadline)
        self._tables = Tables(self.rules, self._compact, self.effort)

    @property
    def max_preference(self) -> int:
        """No plan has more weight of node preferences."""
        return self.rules.max_preference

    def best(self, level: int, domain: int) -> Best | None:
        """The best inside one domain; None where it cannot hold everybody."""
        cost = self._tables.cost(level, domain, self.full)
        if cost is None:
            return None
        *spread, disliked = _digits(cost, self._radices)
        step = len(spread) // self.instance.tree.depth
        for wider in range(max(level, 0)):
            spread[wider * step : (wider + 1) * step] = [1, len(self._filled)][:step]
        return Best(tuple(spread), self.max_preference - disliked)

    def narrowed(self, level: int, domain: int) -> Counts:
        """How many members of each shape the nodes have at most in the best plans inside a domain that can hold
        everybody, as far as goals go that do not tell members apart: shapes x nodes. Where several kinds share a shape,
        what the nodes can hold of it, if they have any. Of nodes that only names tell apart, as many as there are
        members: the first.
        """
        instance = self.instance
        cost = self._tables.cost(level, domain, self.full)
        if cost is None:
            raise ValueError("this domain cannot hold everybody")
        tables = Tables(self.rules, self._waste(level, _digits(cost, self._radices)), self.effort)
        capacity = np.zeros_like(instance.capacity)
        owners = Counter(kind.shape for kind in self.kinds)
        for node, counts in tables.in_best(level, domain, self.full):
            for kind, count in zip(self.kinds, counts, strict=True):
                most = count if owners[kind.shape] == 1 else int(instance.capacity[kind.shape, node]) if count else 0
                capacity[kind.shape, node] = max(capacity[kind.shape, node], most)
        used = np.flatnonzero(capacity.any(axis=0))
        if len(used) > sum(self.full):
            capacity[:, self._of_no_use(used)] = 0
        return capacity

    def _of_no_use(self, nodes: Positions) -> Positions:
        """Those of some nodes before which by name come as many as there are members that only names tell apart."""
        instance, every = self.instance, self.instance.problem.nodes
        columns: list[Sequence[int] | Positions] = [instance.potential, instance.tree.domains(instance.tree.depth - 2)]
        columns += [*every.free.T, *every.terminating.T, *instance.amounts.T, *instance.capacity, *self.rules.penalties]
        columns_of = np.array(columns, dtype=np.int64)[:, nodes]
        order = np.lexsort((np.array(instance.name_rank, dtype=np.int64)[nodes], *columns_of))
        sorted_by, members = columns_of[:, order], sum(self.full)
        last: Positions = nodes[order[members:][(sorted_by[:, members:] == sorted_by[:, :-members]).all(axis=0)]]
        return last

    def _waste(self, level: int, reached: list[int]) -> Costs:
        """All goals up to the room left inside a domain, and what waits for room if ranks say nothing before that; as
        many of them as a cost has place for. A goal that is known needs no more place than what it comes to.
        """
        instance, depth = self.instance, self.instance.tree.depth
        step = (len(reached) - 1) // depth
        inside = range(level + 1, depth)
        touched = {each: reached[each * step] for each in inside}
        most = [sum(sorted(instance.potentials[each + 1])[-touched[each] :]) for each in inside]
        most += [touched[each] for each in inside]
        if len(self.kinds) == len(self._filled):
            most.append(int(self.rules.used.max()))
        radices = [*(each + 1 for each in reached), *(each + 1 for each in most)]
        while _weights(radices)[0] * radices[0] >= 1 << BITS:
            radices.pop()
        weights = _weights(radices)
        known, others = weights[: len(reached)], [*weights[len(reached) :], *[0] * len(most)]
        room, left = [0] * depth, [0] * depth
        for place, each in enumerate(inside):
            room[each], left[each] = others[place], others[len(inside) + place]
        sets = known[1:-1:2] if step > 1 else [0] * depth
        waits = others[2 * len(inside)] if len(self.kinds) == len(self._filled) else 0
        return Costs(tuple(known[:-1:step]), tuple(sets), known[-1], tuple(room), tuple(left), waits)


def _weights(radices: list[int]) -> list[int]:
    """What one of each digit is worth, the most important digit first."""
    weights = [1]
    for radix in reversed(radices[1:]):
        weights.append(weights[-1] * radix)
    return weights[::-1]


def _digits(number: int, radices: list[int]) -> list[int]:
    """The digits of a number, the most important first."""
    found = []
    for radix in reversed(radices):
        number, digit = divmod(number, radix)
        found.append(digit)
    return found[::-1]
