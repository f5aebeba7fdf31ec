"""The objective: the goals of decision 2 in their order. Smaller is better unless a goal says otherwise.

This is the one place that knows the order. Models are stated, plans compared, reported and explained by it. A new goal
touches five files. This file gets a row and how the goal is counted. solver/cp_sat/goal_terms.py gets its terms.
solver/verify/goals.py and tests/solver/brute_force.py each get a count that is written independently, so that it finds
faults in the others. docs/decisions/0002 says what the goal means. tests/cli/test_solve_command.py checks the order
that is promised to users, name by name.

Solution methods that prove plans by counting know today's goals only. If a row is not `by_counting`, only CP-SAT runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, groupby
from typing import TypeVar

import numpy as np

from solver.bounds.eviction_closure import gangs_broken
from solver.capacity import needed_members, pending
from solver.instance import Instance, Seat
from solver.plan import Goal, GoalParts
from solver.problem import Problem
from solver.tree import ROOT

Nodes = tuple[tuple[int | None, ...], ...]
ComparisonKey = tuple[tuple[object, ...], ...]
"""The goals of a plan in their order, each with its parts. Smaller is better."""
Value = TypeVar("Value")
WASTE = ("a", "b", "c", "d")
"""The parts of the goal `waste` in their order.

(a) is the free capacity that remains in the narrowest domain that holds the gang. (b) is the same in its parents, and
(c) in the touched domains inside it. (d) counts the touched domains inside it that have free capacity left.
"""


class SolvePhase(IntEnum):
    """When a term can be stated: once the results of all earlier phases are known."""

    PRICE = 0
    SIZE = 1
    WHO = 2
    SPREAD = 3
    START = 4
    ROOM = 5
    ORDER = 6
    NAMES = 7


@dataclass(frozen=True, slots=True)
class GoalTerm:
    """One term to minimise for a goal, with the name of the function that states it (`cp_sat.goal_terms`).

    `counted`: the term depends only on how many members of each set and shape are in each place.
    """

    name: str
    phase: SolvePhase
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Criterion:
    """One goal, or one goal for each level (`by_level`: `name/<level>`).

    `count`: returns its parts in their order for a plan; it gets the level of a goal by level. `most`: set if more is
    better; then the value is a gain, and no plan for the problem has more than this. `summed`: the value is the sum of
    the parts; else it is the first part. `amount`: value and parts are amounts of the scarcest resource. Parts whose
    names begin with `counting` are an exception: they count domains. `loss`: words for a plan that is worse in this
    goal. `counting_loss`: words for a plan that is worse in a part that counts. `divided`: the first letters of the
    parts in their order, if `ordered` accepts values of single parts.
    """

    name: str
    terms: tuple[GoalTerm, ...]
    count: Callable[["Score", int], GoalParts]
    loss: str
    most: Callable[[Problem], int] | None = None
    summed: bool = False
    by_level: bool = False
    amount: bool = False
    counting: str | None = None
    counting_loss: str = ""
    by_counting: bool = True
    divided: tuple[str, ...] = ()

    @property
    def more_is_better(self) -> bool:
        """Whether the value is a gain, so that a larger value is better."""
        return self.most is not None

    def any_bound(self, problem: Problem) -> int:
        """A bound of the value that holds for every plan of the problem."""
        return 0 if self.most is None else self.most(problem)

    def named(self, level: str) -> str:
        """The name of the goal in a plan: with the level if the goal has one."""
        return f"{self.name}/{level}" if self.by_level else self.name


def _members_beyond_minimum(problem: Problem) -> int:
    return sum(len(pod_set.members) for pod_set in problem.sets) - needed_members(problem)


def _preferred_weight(problem: Problem) -> int:
    """The summed preference weight if every pending member gets the node that it prefers most."""
    counts = Counter(member.shape for member in pending(problem))
    return sum(count * max((0, *problem.shapes[shape].preferences.values())) for shape, count in counts.items())


CRITERIA: tuple[Criterion, ...] = (
    Criterion(
        "victims",
        (GoalTerm("victims", SolvePhase.PRICE, counted=True),),
        lambda score, _: score.victims(),
        "would cost {both} victims",
        summed=True,
    ),
    Criterion(
        "gangsBroken",
        (GoalTerm("gangs_broken", SolvePhase.PRICE, counted=True),),
        lambda score, _: score.gangs_broken(),
        "would break {both} gangs",
    ),
    Criterion(
        "evicted",
        (GoalTerm("evicted", SolvePhase.PRICE, counted=True),),
        lambda score, _: score.evicted(),
        "would evict pods that hold more",
        amount=True,
    ),
    Criterion(
        "extras",
        (GoalTerm("extras", SolvePhase.SIZE, counted=True), GoalTerm("lowest_ranks", SolvePhase.WHO)),
        lambda score, _: score.extras(),
        "would place {both} members beyond the minimum",
        most=_members_beyond_minimum,
    ),
    Criterion(
        "compactness",
        (GoalTerm("compactness", SolvePhase.SPREAD, counted=True),),
        lambda score, level: score.compactness(level),
        "would take {both} domains of level {level}",
        by_level=True,
    ),
    Criterion(
        "preferences",
        (GoalTerm("preferences", SolvePhase.SPREAD),),
        lambda score, _: score.preferences(),
        "would fulfil less of the node preferences",
        most=_preferred_weight,
    ),
    Criterion(
        "terminating",
        (GoalTerm("terminating", SolvePhase.START),),
        lambda score, _: score.terminating(),
        "would use more capacity that terminating pods still hold",
        amount=True,
    ),
    Criterion(
        "waste",
        (GoalTerm("waste", SolvePhase.ROOM),),
        lambda score, _: score.waste(),
        "would leave more room behind",
        amount=True,
        counting="d/",
        counting_loss="would leave room in {both} domains of level {level}",
        divided=WASTE,
    ),
    Criterion(
        "ranks",
        (GoalTerm("ranks", SolvePhase.ORDER),),
        lambda score, _: score.ranks(),
        "would part {both} neighbours by rank",
    ),
    Criterion(
        "ties",
        (
            GoalTerm("started", SolvePhase.NAMES),
            GoalTerm("names", SolvePhase.NAMES),
            GoalTerm("keys", SolvePhase.NAMES),
        ),
        lambda _score, _: {},
        "would evict pods that started earlier, or use nodes whose names come later",
    ),
)


def criterion(goal: str) -> Criterion:
    """Return the row of a goal by its name in a plan, which may end with a level."""
    name = goal.partition("/")[0]
    return next(each for each in CRITERIA if each.name == name)


def is_of_level(goal: str) -> bool:
    """Return whether the goal is counted by level: its name is `<goal>/<level>`."""
    return criterion(goal).by_level


def until(phase: SolvePhase) -> tuple[str, ...]:
    """The goals that have a term in a phase before this one."""
    return tuple(each.name for each in CRITERIA if each.name not in since(phase))


def since(phase: SolvePhase) -> tuple[str, ...]:
    """The goals that have no term in a phase before this one."""
    return tuple(each.name for each in CRITERIA if min(term.phase for term in each.terms) >= phase)


def terms(phase: SolvePhase | None = None, *, counted: bool = False) -> frozenset[str]:
    """The names of terms of one phase, or of all phases (None). `counted`: only terms that depend on counts alone."""
    found = (term for each in CRITERIA for term in each.terms if phase in (None, term.phase))
    return frozenset(term.name for term in found if term.counted or not counted)


def in_order(*phases: SolvePhase) -> tuple[tuple[str, ...], ...]:
    """The names of the terms of some phases, phase by phase, in the order of the goals."""
    found = sorted((term for each in CRITERIA for term in each.terms), key=lambda term: term.phase)
    by_phase = {phase: tuple(term.name for term in group) for phase, group in groupby(found, lambda term: term.phase)}
    return tuple(by_phase.get(phase, ()) for phase in phases)


def ordered(values: Mapping[str, Value]) -> tuple[Value, ...]:
    """Return values in the order of the goals.

    A key is the name of a term of a goal, or `<goal>/<part>` with a part that the goal's row lists in `divided`.
    Values of the first terms alone, from a lower bound, compare with a prefix of the values of a plan. Raises
    `ValueError` for any other key.
    """
    keys = [key for row in CRITERIA for key in _keys_of(row) if key in values]
    if len(keys) != len(values):
        raise ValueError(f"no goal has these terms or parts: {sorted(values.keys() - set(keys))}")
    return tuple(values[key] for key in keys)


def precedes(one: str, other: str) -> bool:
    """Return whether one term or part, named as in `ordered`, is compared before another one."""
    return ordered({one: one, other: other})[0] == one


def _keys_of(row: Criterion) -> Iterable[str]:
    """Return the keys that `ordered` accepts for one goal: the names of its terms, then `<goal>/<part>` by part."""
    return chain((term.name for term in row.terms), (f"{row.name}/{part}" for part in row.divided))


def is_countable() -> bool:
    """Whether the solution methods that prove by counting know all goals."""
    return all(each.by_counting for each in CRITERIA)


def comparison_key(goal: Goal) -> tuple[int, ...]:
    """The numbers by which plans are compared in this goal, in order. Smaller is better for every goal."""
    return tuple(-digit for digit in goal.digits) if criterion(goal.name).more_is_better else goal.digits


@dataclass(frozen=True, slots=True)
class Reached:
    """The value that a stage reached in the plan, and the best value that is not ruled out by proof."""

    goal: str
    part: str
    value: int
    bound: int


def goals_of(
    instance: Instance, nodes: Nodes, victims: Sequence[int], reached: Iterable[Reached] = ()
) -> tuple[Goal, ...]:
    """The goals of a plan in their order. A goal that is not among `reached` counts as proven."""
    gaps = {(each.goal, each.part): each.value - each.bound for each in reached}
    score, levels = Score(instance, nodes, victims), instance.problem.levels
    rows = ((each, level) for each in CRITERIA for level in (range(len(levels)) if each.by_level else (0,)))
    return tuple(_goal(each, each.named(levels[level]), each.count(score, level), gaps) for each, level in rows)


Gaps = Mapping[tuple[str, str], int]
"""By goal and part, the value that the search reached minus its bound.

Values and bounds of a stage leave out constants that are equal in every plan. The difference does not depend on them.
"""


def _goal(of: Criterion, name: str, parts: GoalParts, gaps: Gaps) -> Goal:
    """Return a goal whose value is the sum of its parts, or the first of them."""
    first, value = next(iter(parts.items()), ("", 0))
    gap = gaps.get((name, first), 0)
    if of.summed:
        value, gap = sum(parts.values()), sum(each for (goal, _), each in gaps.items() if goal == name)
    bound = value + gap if of.more_is_better else max(0, value - gap)
    return Goal(name, value, bound, parts if len(parts) > 1 else {})


class Score:
    """Counts the parts of every goal for one plan."""

    def __init__(self, instance: Instance, nodes: Nodes, victims: Sequence[int]) -> None:
        self.instance, self.evictions = instance, tuple(victims)
        self.gone = instance.problem.victims.at(self.evictions)
        self.seats = {
            Seat(pod_set, rank): node
            for pod_set, row in enumerate(nodes)
            for rank, node in enumerate(row)
            if node is not None
        }
        self.fresh = {seat: node for seat, node in self.seats.items() if instance.member(seat).node is None}
        self.used: Counter[int] = Counter()
        self._touched: dict[tuple[int, int | None], list[int]] = {}
        for seat, node in self.fresh.items():
            self.used[node] += instance.request(seat)

    def victims(self) -> GoalParts:
        """Victims by priority, the highest first."""
        counts = Counter(victim.priority for victim in self.gone)
        return {f"priority {priority}": counts[priority] for priority in sorted(counts, reverse=True)}

    def gangs_broken(self) -> GoalParts:
        """The number of gangs that the evictions bring below a minimum."""
        return {"": len(gangs_broken(self.instance.problem, self.evictions))}

    def evicted(self) -> GoalParts:
        """The amount of the scarcest resource that the victims held."""
        return {"": sum(victim.requests[self.instance.scarce] for victim in self.gone)}

    def extras(self) -> GoalParts:
        """Members beyond the minimum. The search counts the missing ones instead, hence the part's name."""
        return {"missing": len(self.seats) - needed_members(self.instance.problem)}

    def compactness(self, level: int) -> GoalParts:
        """The number of domains of the gang. If several sets have placed members, also the sum over these sets."""
        parts = {"gang": len(self._domains(level))}
        filled = sorted({seat.pod_set for seat in self.seats})
        if len(filled) > 1:
            parts["sets"] = sum(len(self._domains(level, pod_set)) for pod_set in filled)
        return parts

    def preferences(self) -> GoalParts:
        """The weight of the preferences that the new members' nodes fulfil."""
        shapes = self.instance.problem.shapes
        had = (shapes[self.instance.member(seat).shape].preferences.get(node, 0) for seat, node in self.fresh.items())
        return {"": sum(had)}

    def waste(self) -> GoalParts:
        """Free capacity that remains, in the parts of decision 2: (a), (b) outward, (c) downward, (d) downward."""
        names = self.instance.problem.levels
        narrowest = max((level for level in range(ROOT, len(names)) if len(self._domains(level)) <= 1), default=ROOT)
        around, inside = range(narrowest - 1, ROOT - 1, -1), range(narrowest + 1, len(names))
        groups = {
            "waste/a": {"a": self._left(narrowest)},
            "waste/b": {f"b/{names[level] if level > ROOT else 'cluster'}": self._left(level) for level in around},
            "waste/c": {f"c/{names[level]}": self._left(level) for level in inside},
            "waste/d": {f"d/{names[level]}": sum(room > 0 for room in self._rooms(level)) for level in inside},
        }
        return {part: value for group in ordered(groups) for part, value in group.items()}

    def ranks(self) -> GoalParts:
        """By level, how many pairs of placed members with consecutive ranks lie in different domains."""
        placed = sorted(self.seats)
        nodes = np.array([self.seats[seat] for seat in placed], dtype=np.int64)
        pod_sets = np.array([seat.pod_set for seat in placed], dtype=np.int64)
        same_set, names = pod_sets[1:] == pod_sets[:-1], self.instance.problem.levels
        of_level = (self.instance.tree.domains(level)[nodes] for level in range(len(names)))
        return {
            name: int(np.count_nonzero(same_set & (domains[1:] != domains[:-1])))
            for name, domains in zip(names, of_level, strict=True)
        }

    def terminating(self) -> GoalParts:
        """The used capacity of the scarcest resource that terminating pods still hold."""
        instance, scarce = self.instance, self.instance.scarce
        freed: Counter[int] = Counter()
        for victim in self.gone:
            freed[victim.node] += victim.requests[scarce]
        waits = 0
        for node, used in self.used.items():
            each = instance.problem.nodes[node]
            now = each.free[scarce] - each.terminating[scarce] + freed[node]
            waits += max(0, used - max(0, now))
        return {"": waits}

    def _domains(self, level: int, pod_set: int | None = None) -> list[int]:
        """The domains of a level that the gang, or one of its sets, is in."""
        if (level, pod_set) not in self._touched:
            of_node = self.instance.tree.domains(level)
            nodes = [node for seat, node in self.seats.items() if pod_set in (None, seat.pod_set)]
            self._touched[level, pod_set] = np.unique(of_node[nodes]).tolist()
        return self._touched[level, pod_set]

    def _left(self, level: int) -> int:
        return sum(self._rooms(level))

    def _rooms(self, level: int) -> list[int]:
        """By touched domain, the free capacity that remains there."""
        left = {domain: self.instance.domain_potential(level, domain) for domain in self._domains(level)}
        for node, amount in self.used.items():
            left[self.instance.tree.domain(level, node)] -= amount
        return [*left.values()]
