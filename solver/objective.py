"""The objective: the goals of decision 2 in their order. Smaller is better unless a goal says otherwise.

Only this module knows the order of the goals. Models, comparisons of plans, reports and explanations derive it from
`CRITERIA`. A new goal touches five files. This file gets a row, and a function that counts the goal in a plan.
solver/cp_sat/goal_terms.py gets its terms. solver/verify/goals.py and tests/solver/brute_force.py each get a count that
is written independently, so that it finds faults in the others. docs/decisions/0002 defines the goal.
tests/cli/test_solve_command.py checks the order that is promised to users, name by name.

Solution methods that count members instead of stating a model (dynamic programming, branch and bound) know today's
goals only. If a row is not `by_counting`, only CP-SAT runs.
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
"""The node of each member: `nodes[s][m]` is that of member m of set s; None: the member is not placed."""
ComparisonKey = tuple[tuple[object, ...], ...]
"""The goals of a plan in their order, each with its parts. Smaller is better."""
Value = TypeVar("Value")
WASTE = ("a", "b", "c", "d")
"""The parts of goal 4 (waste) in their order. Each part but (d) is free capacity that remains after placement.

(a) is the remaining capacity of the narrowest domain that holds the gang. (b) is the remaining capacity of the domains
around this domain, and (c) of the touched domains inside it. (d) is the number of touched domains inside it that have
capacity left.
"""


class SolvePhase(IntEnum):
    """The phases of a solve, in order. A term of a goal belongs to the first phase in which all values that the term
    depends on are known.

    PRICE: goal 1, victims. SIZE: goal 2, the number of placed members. WHO: goal 2, ranks of the placed members.
    SPREAD: goal 3, compactness and preferences. START: goal 3, terminating capacity. ROOM: goal 4, waste. ORDER: goal
    5, ranks. NAMES: goal 6, ties.
    """

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
    """One sum that is minimised for a goal. `name`: the term's name, which is also the name of the function in
    `cp_sat.goal_terms` that states the term as stages.

    `counted`: the term depends only on how many members of each set and shape are on each node, and not on which
    members they are.
    """

    name: str
    phase: SolvePhase
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Criterion:
    """A row of the table of goals: one goal, or one goal for each level (`by_level`, named `<name>/<level>`).

    `terms`: the sums that are minimised for the goal. `count`: a function that returns the goal's parts in their order
    for a plan; its second argument is the level if `by_level`. `most`: only set if more is better; a function that
    returns an upper bound of the value for any plan of the problem. `summed`: the value is the sum of the parts;
    otherwise it is the first part. `amount`: value and parts are amounts of the scarcest resource, except parts whose
    names begin with the text `counting`, which count domains. `loss`: words for a plan that is worse in this goal.
    `counting_loss`: words for a plan that is worse in a part that counts domains. `by_counting`: the solution methods
    other than CP-SAT know this goal. `divided`: the first letters of the parts in order, such as a to d for
    waste; `ordered` then accepts the value of each part. Empty: it accepts only the value of the goal.
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
        """Return a bound of the goal's value that holds for every plan of the problem: an upper bound if more is
        better, else the lower bound 0.
        """
        return 0 if self.most is None else self.most(problem)

    def named(self, level: str) -> str:
        """Return the name of the goal in a plan: `<name>/<level>` if the goal is counted level by level, else the plain
        name.
        """
        return f"{self.name}/{level}" if self.by_level else self.name


def _members_beyond_minimum(problem: Problem) -> int:
    return sum(len(pod_set.members) for pod_set in problem.sets) - needed_members(problem)


def _preferred_weight(problem: Problem) -> int:
    """Return the sum of node preference weights if every pending member gets the node that it prefers most: an upper
    bound of goal `preferences`.
    """
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
    """Return the row of a goal, given its name in a plan: `<goal>` or `<goal>/<level>`."""
    name = goal.partition("/")[0]
    return next(each for each in CRITERIA if each.name == name)


def is_of_level(goal: str) -> bool:
    """Return whether the goal is counted level by level, so that its name in a plan is `<goal>/<level>`."""
    return criterion(goal).by_level


def until(phase: SolvePhase) -> tuple[str, ...]:
    """Return the names of the goals that have a term in a phase before `phase`."""
    return tuple(each.name for each in CRITERIA if each.name not in since(phase))


def since(phase: SolvePhase) -> tuple[str, ...]:
    """Return the names of the goals whose terms all belong to `phase` or a later phase."""
    return tuple(each.name for each in CRITERIA if min(term.phase for term in each.terms) >= phase)


def terms(phase: SolvePhase | None = None, *, counted: bool = False) -> frozenset[str]:
    """Return the names of the terms of one phase; None: of all phases. `counted`: only terms that depend on counts of
    members alone.
    """
    found = (term for each in CRITERIA for term in each.terms if phase in (None, term.phase))
    return frozenset(term.name for term in found if term.counted or not counted)


def in_order(*phases: SolvePhase) -> tuple[tuple[str, ...], ...]:
    """Return the names of the terms of these phases: one tuple for each phase, in the order of the goals."""
    found = sorted((term for each in CRITERIA for term in each.terms), key=lambda term: term.phase)
    by_phase = {phase: tuple(term.name for term in group) for phase, group in groupby(found, lambda term: term.phase)}
    return tuple(by_phase.get(phase, ()) for phase in phases)


def ordered(values: Mapping[str, Value]) -> tuple[Value, ...]:
    """Return `values` in the order of the goals. Keys of `values`: the name of a goal's term, or `<goal>/<part>` with a
    part in `Criterion.divided`.

    For example, {"waste/a": 3, "compactness": 1} gives (1, 3). Values of the first goals alone, such as a lower bound,
    can be compared with the first entries of a whole plan's values. Raises `ValueError` for any other key.
    """
    keys = [key for row in CRITERIA for key in _keys_of(row) if key in values]
    if len(keys) != len(values):
        raise ValueError(f"no goal has these terms or parts: {sorted(values.keys() - set(keys))}")
    return tuple(values[key] for key in keys)


def precedes(one: str, other: str) -> bool:
    """Return whether the term or part `one` is compared before `other`. Both are keys that `ordered` accepts."""
    return ordered({one: one, other: other})[0] == one


def _keys_of(row: Criterion) -> Iterable[str]:
    """Return the keys that `ordered` accepts for one goal: the names of its terms, then `<goal>/<part>` by part."""
    return chain((term.name for term in row.terms), (f"{row.name}/{part}" for part in row.divided))


def is_countable() -> bool:
    """Return whether the solution methods other than CP-SAT (dynamic programming, branch and bound) know all goals. If
    they do not, only CP-SAT runs.
    """
    return all(each.by_counting for each in CRITERIA)


def comparison_key(goal: Goal) -> tuple[int, ...]:
    """Return the numbers by which two plans are compared in this goal, the most important number first. Smaller is
    better for every goal.
    """
    return tuple(-digit for digit in goal.digits) if criterion(goal.name).more_is_better else goal.digits


@dataclass(frozen=True, slots=True)
class Reached:
    """How far CP-SAT got with one stage: `value` in the plan found, and `bound`, the best value that no proof rules
    out.
    """

    goal: str
    part: str
    value: int
    bound: int


def goals_of(
    instance: Instance, nodes: Nodes, victims: Sequence[int], reached: Iterable[Reached] = ()
) -> tuple[Goal, ...]:
    """Return the goals of a plan in their order. `reached`: the stages that a search solved, with value and bound. A
    goal without a stage in `reached` counts as proven.
    """
    gaps = {(each.goal, each.part): each.value - each.bound for each in reached}
    score, levels = Score(instance, nodes, victims), instance.problem.levels
    rows = ((each, level) for each in CRITERIA for level in (range(len(levels)) if each.by_level else (0,)))
    return tuple(_goal(each, each.named(levels[level]), each.count(score, level), gaps) for each, level in rows)


Gaps = Mapping[tuple[str, str], int]
"""By goal and part, the value that the search reached minus its bound; 0 means proven.

Values and bounds of a stage leave out constants that are equal in every plan. The difference does not depend on them.
"""


def _goal(of: Criterion, name: str, parts: GoalParts, gaps: Gaps) -> Goal:
    """Return the goal `name`, counted as the row `of` says. Its value is the first part, or the sum of the parts if the
    row is `summed`. `gaps`: by goal and part, value minus bound.
    """
    first, value = next(iter(parts.items()), ("", 0))
    gap = gaps.get((name, first), 0)
    if of.summed:
        value, gap = sum(parts.values()), sum(each for (goal, _), each in gaps.items() if goal == name)
    bound = value + gap if of.more_is_better else max(0, value - gap)
    return Goal(name, value, bound, parts if len(parts) > 1 else {})


class Score:
    """Counts the parts of every goal for one plan.

    `seats`: pairs of a placed member and its node. `fresh`: such pairs of newly placed members only. `used`: by node,
    the amount of the scarcest resource that newly placed members use.
    """

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
        """Goal 1, `victims`: the number of victims by priority, the highest priority first."""
        counts = Counter(victim.priority for victim in self.gone)
        return {f"priority {priority}": counts[priority] for priority in sorted(counts, reverse=True)}

    def gangs_broken(self) -> GoalParts:
        """Goal 1, `gangsBroken`: the number of running gangs that the evictions bring below a minimum."""
        return {"": len(gangs_broken(self.instance.problem, self.evictions))}

    def evicted(self) -> GoalParts:
        """Goal 1, `evicted`: the amount of the scarcest resource that the victims hold."""
        return {"": sum(victim.requests[self.instance.scarce] for victim in self.gone)}

    def extras(self) -> GoalParts:
        """Goal 2, `extras`: the number of placed members beyond the minimum. The part is named "missing", because
        CP-SAT minimises the number of members that are not placed.
        """
        return {"missing": len(self.seats) - needed_members(self.instance.problem)}

    def compactness(self, level: int) -> GoalParts:
        """Goal 3, `compactness/<level>`: the number of domains of `level` that the gang uses. If several sets have
        placed members, a second part is the number for each set, summed over the sets.
        """
        parts = {"gang": len(self._domains(level))}
        filled = sorted({seat.pod_set for seat in self.seats})
        if len(filled) > 1:
            parts["sets"] = sum(len(self._domains(level, pod_set)) for pod_set in filled)
        return parts

    def preferences(self) -> GoalParts:
        """Goal 3, `preferences`: the weight of the node preferences that the new members' nodes fulfil."""
        shapes = self.instance.problem.shapes
        had = (shapes[self.instance.member(seat).shape].preferences.get(node, 0) for seat, node in self.fresh.items())
        return {"": sum(had)}

    def waste(self) -> GoalParts:
        """Goal 4, `waste`: the free capacity that remains, in the parts (a) to (d) of decision 2.

        (a) counts the narrowest domain that holds the gang, (b) the domains around it outward, (c) the touched domains
        inside it level by level. (d) is the number of touched domains inside it that have capacity left.
        """
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
        """Goal 5, `ranks`: by level, how many pairs of placed members with consecutive ranks lie in different
        domains.
        """
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
        """Goal 3, `terminating`: the capacity of the scarcest resource that the gang uses and terminating pods still
        hold.
        """
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
        """Return the domains of a level with placed members of the gang, or of one set."""
        if (level, pod_set) not in self._touched:
            of_node = self.instance.tree.domains(level)
            nodes = [node for seat, node in self.seats.items() if pod_set in (None, seat.pod_set)]
            self._touched[level, pod_set] = np.unique(of_node[nodes]).tolist()
        return self._touched[level, pod_set]

    def _left(self, level: int) -> int:
        """Return the free capacity that remains in all touched domains of a level."""
        return sum(self._rooms(level))

    def _rooms(self, level: int) -> list[int]:
        """Return, for each touched domain of a level, the free capacity that remains in it."""
        left = {domain: self.instance.domain_potential(level, domain) for domain in self._domains(level)}
        for node, amount in self.used.items():
            left[self.instance.tree.domain(level, node)] -= amount
        return [*left.values()]
