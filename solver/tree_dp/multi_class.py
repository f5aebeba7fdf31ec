"""Dynamic programming for gangs of several member classes: how many members of each class every domain can hold
together, and at what cost.

The goals from compactness (goal 3) to waste (goal 4) are sums over domains, and most constraints limit the counts in
one domain. So a dynamic programme up the tree computes the exact cost of the best plans inside a domain. It also
computes how many members of each class these plans have on each node (`solver.tree_dp.class_vectors`). CP-SAT then only
decides ranks and node names among these plans.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from solver.bounds.domain_cover import DomainCounts
from solver.bounds.member_classes import MemberClass, alike, sorted_kinds
from solver.capacity import Counts
from solver.instance import Instance
from solver.objective import Nodes, ordered
from solver.tree import Positions
from solver.tree_dp.class_vectors import Vector
from solver.tree_dp.min_plus import COST_BITS
from solver.tree_dp.multi_class_paths import BestPaths
from solver.tree_dp.multi_class_rules import MultiClassRules
from solver.tree_dp.multi_class_tables import NOTHING, Costs, TableEffort, Tables, TooMuchError
from solver.tree_dp.spread_groups import SpreadWay, ways_to_spread

_MIXTURES = 2_000
"""The most count vectors of a gang, such as (2, 0, 5) members of three classes. A gang with more count vectors is not
solved by these tables.
"""

_EFFORT = 2_000_000_000
"""The effort, in additions of costs, after which the dynamic programme gives up: about half a second."""
_STATES = 100_000
"""The most pairs of a domain and a count vector for which goals that do not fit into a cost are compared."""


@dataclass(frozen=True)
class Best:
    """The first goal values of the best plans that place all members inside a domain.

    `spread`: the values of goal 3, the number of domains used on each level (see `DomainCounts`). `preference_score`:
    the weight of the fulfilled node preferences. `terminating`: a lower bound of the used capacity that terminating
    pods hold. It is exact if the cost in the tables includes this capacity.
    """

    spread: DomainCounts
    preference_score: int
    terminating: int


@dataclass(frozen=True)
class Narrowed:
    """The nodes that the best plans inside a domain can use, and the goal values of these plans as far as counts decide
    them.

    `capacity`: shapes x nodes, the most members of each shape in such a plan. If several classes share a shape, it is
    the node's capacity for the shape, or 0 if the node gets none. Of nodes that differ in names only, only the first
    ones by name remain: as many as there are members. `reached`: goal values by name and part. `one`: one of these
    plans, the node of every member.
    """

    capacity: Counts
    reached: Mapping[tuple[str, str], int]
    one: Nodes


GoalPart = tuple[str, str]
"""The name of a goal and of its part, as a plan reports them, such as ("waste", "c/rack"). The part is "" if the goal
has one only.
"""
_PREFERENCES, _TERMINATING = ("preferences", ""), ("terminating", "")


@dataclass(frozen=True, slots=True)
class _Digit:
    """A part of a goal as a digit of a cost. A cost is one number in a mixed radix, so that comparing costs compares
    goals in order. `most`: the digit's largest value.
    """

    part: GoalPart
    most: int


@dataclass(frozen=True)
class _Waste:
    """The weights of all goals up to waste in the costs of the dynamic programme. They are in two groups, because not
    all goals may fit into one cost.

    `digits`: the goals that fit into one 59-bit cost, the most important first. `later_digits`: the less important
    goals, which form the later cost. `costs` and `later`: the weights of the two groups.
    """

    costs: Costs
    digits: Sequence[_Digit]
    later: Costs
    later_digits: Sequence[_Digit]


def mixtures_of(instance: Instance) -> "Mixtures | None":
    """Return the tables of an instance of which every member must be placed.

    None if counts cannot express all constraints of the gang, or if there are too many count vectors.
    """
    problem = instance.problem
    if instance.evicting or instance.pinned or not instance.pending:
        return None
    if problem.exclusions or problem.separations or problem.affinities:
        return None
    if any(pod_set.slices for pod_set in problem.sets) and not _whole_slices(instance):
        return None
    kinds = sorted_kinds(instance)
    if np.prod([len(kind.ranks) + 1 for kind in kinds], dtype=np.float64) > _MIXTURES:
        return None
    ways = ways_to_spread(instance, kinds)
    if ways is None:
        return None
    found = Mixtures(instance, kinds, ways)
    return found if found.counted else None


def _whole_slices(instance: Instance) -> bool:
    """Return whether slices only require that the number of a set's members in each domain is a multiple of the slice
    size.
    """
    sets = tuple(replace(pod_set, minimum=len(pod_set.members)) for pod_set in instance.problem.sets)
    return alike(replace(instance, problem=replace(instance.problem, sets=sets))) is not None


class Mixtures:
    """The best plans inside each domain of an instance for several member classes, computed on demand by dynamic
    programming.

    `kinds`: the member classes. `ways`: alternative limits, of which a plan must respect one so that it meets all
    topology spread constraints. `counted` False: the goals do not fit into a cost, so the tables cannot be used.
    Methods raise `TooMuchError` if the effort exceeds its limit.
    """

    def __init__(self, instance: Instance, kinds: tuple[MemberClass, ...], ways: Sequence[SpreadWay]) -> None:
        self.instance, self.kinds = instance, kinds
        self.full: Vector = tuple(len(kind.ranks) for kind in kinds)
        members = sum(self.full)
        self._filled = sorted({kind.pod_set for kind in kinds})
        self.rules = MultiClassRules(instance, kinds, self._filled)
        of_level = ("gang", "sets") if len(self._filled) > 1 else ("gang",)
        spread = [(f"compactness/{name}", part) for name in instance.problem.levels for part in of_level]
        digits = _in_order(
            {
                "compactness": [_Digit(part, members) for part in spread],
                "preferences": [_Digit(_PREFERENCES, int(np.array(self.full) @ self.rules.penalties.max(axis=1)))],
                "terminating": [_Digit(_TERMINATING, self.rules.most_terminating)],
            }
        )
        # If a cost has no space for a digit of goal `terminating`, `narrowed` compares that goal before waste.
        self._digits = digits if _fits(digits) else [digit for digit in digits if digit.part != _TERMINATING]
        self.counted = _fits(self._digits)
        self._spread = spread
        self._compact = self._costs(_weights(self._digits))
        self.effort = TableEffort(_EFFORT, instance.deadline)
        self._tables = [Tables(self.rules, way, self._compact, self.effort) for way in ways]

    @property
    def max_preference(self) -> int:
        """The weight of fulfilled node preferences if every member gets the node that it prefers most: an upper
        bound.
        """
        return self.rules.max_preference

    def best(self, level: int, domain: int) -> Best | None:
        """Return the values of goal 3 of the best plans with all members inside one domain; None if it cannot hold
        them.
        """
        cost, _ = _cheapest(self._tables, level, domain, self.full)
        if cost is None:
            return None
        reached = _values(cost, self._digits)
        spread = [reached[part] for part in self._spread]
        step = len(spread) // self.instance.tree.depth
        for wider in range(max(level, 0)):
            spread[wider * step : (wider + 1) * step] = [1, len(self._filled)][:step]
        return Best(tuple(spread), self.max_preference - reached[_PREFERENCES], reached.get(_TERMINATING, 0))

    def narrowed(self, level: int, domain: int) -> Narrowed:
        """Return the goal values of the best plans with all members inside a domain, and the nodes that these plans can
        use.

        Raises `ValueError` if the domain cannot hold all members.
        """
        cost, compact = _cheapest(self._tables, level, domain, self.full)
        if cost is None:
            raise ValueError("this domain cannot hold all members")
        waste = self._waste(level, _values(cost, self._digits))
        everything = len(self.kinds) == len(self._filled)
        tables = [Tables(self.rules, each.way, waste.costs, self.effort, waste.later, everything) for each in compact]
        wasted, tables = _cheapest(tables, level, domain, self.full)
        reached = {_TERMINATING: 0} | _values(wasted or 0, waste.digits)
        reached[_PREFERENCES] -= self.max_preference
        try:
            later, best = self._compared([BestPaths(each, _STATES) for each in tables], level, domain)
            reached |= _values(later, waste.later_digits)
        except TooMuchError:
            best = [BestPaths(each, None) for each in tables]
        counts = chain.from_iterable(each.nodes(level, domain, self.full) for each in best)
        return Narrowed(
            self._capacity(counts),
            reached,
            self._seated(best[0].one(level, domain, self.full)),
        )

    def _compared(self, paths: Sequence[BestPaths], level: int, domain: int) -> tuple[int, list[BestPaths]]:
        """Return two values: the least later cost of a plan in a domain, and the entries of `paths` that reach it.

        The later cost is the cost in the goals that do not fit into the tables' cost. `paths`: for each alternative
        that meets topology spread (`ways`), its best plans by the tables. Raises `TooMuchError`.
        """
        costs = [each.later(level, domain, self.full) for each in paths]
        return min(costs), [each for each, cost in zip(paths, costs, strict=True) if cost == min(costs)]

    def _capacity(self, counts: Iterable[tuple[int, Vector]]) -> Counts:
        """Return, shapes x nodes, the most members of each shape that any best plan has on a node. `counts`: pairs of a
        node and a count vector that a best plan has there.
        """
        capacity = np.zeros_like(self.instance.capacity)
        owners = Counter(kind.shape for kind in self.kinds)
        for node, numbers in counts:
            for kind, count in zip(self.kinds, numbers, strict=True):
                room = int(self.instance.capacity[kind.shape, node]) if count else 0
                most = count if owners[kind.shape] == 1 else room
                capacity[kind.shape, node] = max(capacity[kind.shape, node], most)
        used = np.flatnonzero(capacity.any(axis=0))
        if len(used) > sum(self.full):
            capacity[:, self._redundant_nodes(used)] = 0
        return capacity

    def _seated(self, counts: Mapping[int, Vector]) -> Nodes:
        """Return the node of every member, by set and rank. `counts`: by node, how many members of each class are
        there.
        """
        rows: list[list[int | None]] = [[None] * len(pod_set.members) for pod_set in self.instance.problem.sets]
        in_order = sorted(counts, key=self.instance.tree.order.__getitem__)
        for place, kind in enumerate(self.kinds):
            nodes = [node for node in in_order for _ in range(counts[node][place])]
            for rank, node in zip(kind.ranks, nodes, strict=True):
                rows[kind.pod_set][rank] = node
        return tuple(map(tuple, rows))

    def _redundant_nodes(self, nodes: Positions) -> Positions:
        """Return those of `nodes` that no best plan needs, because enough equal nodes come before them by name.

        Nodes are equal if they differ in names only. As many nodes as there are members are enough.
        """
        instance, every = self.instance, self.instance.problem.nodes
        columns: list[Sequence[int] | Positions] = [instance.potential, instance.tree.domains(instance.tree.depth - 2)]
        columns += [*every.free.T, *every.terminating.T, *instance.amounts.T, *instance.capacity, *self.rules.penalties]
        columns += [[rule.counts.get(name or "", -1) for name in rule.group] for rule in instance.spreads]
        columns_of = np.array(columns, dtype=np.int64)[:, nodes]
        order = np.lexsort((np.array(instance.name_rank, dtype=np.int64)[nodes], *columns_of))
        sorted_by, members = columns_of[:, order], sum(self.full)
        last: Positions = nodes[order[members:][(sorted_by[:, members:] == sorted_by[:, :-members]).all(axis=0)]]
        return last

    def _waste(self, level: int, reached: Mapping[GoalPart, int]) -> _Waste:
        """Return the weights of all goals up to waste in the costs of plans inside a domain of `level`.

        `reached`: values of goal parts that are known already. The digit of such a part is only as large as its value
        needs.
        """
        instance = self.instance
        inside = [(each, instance.problem.levels[each]) for each in range(level + 1, instance.tree.depth)]
        touched = {name: reached[f"compactness/{name}", "gang"] for _, name in inside}
        known = [_Digit(part, value) for part, value in reached.items()]
        more = _in_order(
            {
                "terminating": [] if _TERMINATING in reached else [_Digit(_TERMINATING, self.rules.most_terminating)],
                "waste/c": [
                    _Digit(("waste", f"c/{name}"), sum(sorted(instance.potentials[each + 1])[-touched[name] :]))
                    for each, name in inside
                ],
                "waste/d": [_Digit(("waste", f"d/{name}"), touched[name]) for _, name in inside],
            }
        )
        kept = len(more)
        while not _fits([*known, *more[:kept]]):
            kept -= 1
        digits, later = [*known, *more[:kept]], more[kept:]
        return _Waste(self._costs(_weights(digits)), digits, self._costs(_weights(later)) if later else NOTHING, later)

    def _costs(self, weights: Mapping[GoalPart, int]) -> Costs:
        """Return `weights`, the weight of each goal part, as `Costs`. Goal parts without an entry cost nothing."""
        levels = self.instance.problem.levels
        return Costs(
            tuple(weights.get((f"compactness/{name}", "gang"), 0) for name in levels),
            tuple(weights.get((f"compactness/{name}", "sets"), 0) for name in levels),
            weights.get(_PREFERENCES, 0),
            tuple(weights.get(("waste", f"c/{name}"), 0) for name in levels),
            tuple(weights.get(("waste", f"d/{name}"), 0) for name in levels),
            weights.get(_TERMINATING, 0) if self.rules.most_terminating else 0,
        )


def _cheapest(tables: Sequence[Tables], level: int, domain: int, counts: Vector) -> tuple[int | None, list[Tables]]:
    """Return the least cost of placing `counts` members inside a domain, over all of `tables` (one for each alternative
    that meets topology spread), and the tables that reach it.

    None and no tables if the members do not fit in the domain.
    """
    costs = [(cost, each) for each in tables if (cost := each.cost(level, domain, counts)) is not None]
    best = min((cost for cost, _ in costs), default=None)
    return best, [each for cost, each in costs if cost == best]


def _in_order(digits: Mapping[str, Sequence[_Digit]]) -> list[_Digit]:
    """Return the digits in the order of the goals. `digits`: by term of a goal, as named in
    `solver.objective.ordered`.
    """
    return [*chain(*ordered(digits))]


def _fits(digits: Sequence[_Digit]) -> bool:
    """Return whether one cost of `COST_BITS` bits holds all these digits."""
    return math.prod(digit.most + 1 for digit in digits) < 1 << COST_BITS


def _weights(digits: Sequence[_Digit]) -> dict[GoalPart, int]:
    """Return, by part of a goal, the weight of one unit of its digit in a mixed radix. `digits`: the most important
    first.
    """
    weights, weight = dict[GoalPart, int](), 1
    for digit in reversed(digits):
        weights[digit.part] = weight
        weight *= digit.most + 1
    return weights


def _values(number: int, digits: Sequence[_Digit]) -> dict[GoalPart, int]:
    """Return, by part of a goal, the values of the digits of which `number` consists. `digits`: the most important
    first.

    `_weights` returns the weight of each digit in such a number.
    """
    values = dict[GoalPart, int]()
    for digit in reversed(digits):
        number, values[digit.part] = divmod(number, digit.most + 1)
    return {digit.part: values[digit.part] for digit in digits}
