"""The objective: the goals of contract section 4 in their order, smaller being better unless said otherwise.

This is the one place that knows the order. Models are stated, plans compared, reported and explained by it. To add a
goal: a row here, its terms in `cp_sat.objectives`, its count in `scoring`; and, written apart from these so that they
can find fault with them, its count in `verify.goals` and in the tests' brute force. Ways that prove plans by counting
are made for the goals there are: with a row that is not `by_counting` only CP-SAT is asked.

What the goals mean: docs/decisions/0002.
"""

from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby


class SolvePhase(IntEnum):
    """When a term can be stated: once it is known what the phases before it came to."""

    PRICE = 0
    SIZE = 1
    WHO = 2
    SPREAD = 3
    ROOM = 4
    ORDER = 5
    NAMES = 6


@dataclass(frozen=True, slots=True)
class GoalTerm:
    """What is minimised for a goal, by the name of the function that states it (`cp_sat.objectives`).

    `counted`: it is enough to know how many members of one set and shape are where.
    """

    name: str
    phase: SolvePhase
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Criterion:
    """One goal, or one for each level (`by_level`: `name/<level>`).

    `more_is_better`: its value is what is had. `summed`: its value is the sum of its parts, else the first of them.
    `amount`: its value and parts are amounts of the scarcest resource, but for parts whose names begin with `counting`:
    these count domains. `loss`: what a plan does that is worse in it, or in a part that counts (`counting_loss`).
    """

    name: str
    terms: tuple[GoalTerm, ...]
    loss: str
    more_is_better: bool = False
    summed: bool = False
    by_level: bool = False
    amount: bool = False
    counting: str | None = None
    counting_loss: str = ""
    by_counting: bool = True

    def named(self, level: str) -> str:
        """The name of the goal, on that level where it has one."""
        return f"{self.name}/{level}" if self.by_level else self.name


CRITERIA: tuple[Criterion, ...] = (
    Criterion(
        "victims", (GoalTerm("victims", SolvePhase.PRICE, counted=True),), "would cost {both} victims", summed=True
    ),
    Criterion(
        "gangsBroken",
        (GoalTerm("gangs_broken", SolvePhase.PRICE, counted=True),),
        "would break {both} gangs",
    ),
    Criterion(
        "evicted",
        (GoalTerm("evicted", SolvePhase.PRICE, counted=True),),
        "would evict pods that hold more",
        amount=True,
    ),
    Criterion(
        "extras",
        (GoalTerm("extras", SolvePhase.SIZE, counted=True), GoalTerm("lowest_ranks", SolvePhase.WHO)),
        "would place {both} members beyond the minimum",
        more_is_better=True,
    ),
    Criterion(
        "compactness",
        (GoalTerm("compactness", SolvePhase.SPREAD, counted=True),),
        "would take {both} domains of level {level}",
        by_level=True,
    ),
    Criterion(
        "preferences",
        (GoalTerm("preferences", SolvePhase.SPREAD),),
        "would fulfil less of the node preferences",
        more_is_better=True,
    ),
    Criterion(
        "waste",
        (GoalTerm("waste", SolvePhase.ROOM),),
        "would leave more room behind",
        amount=True,
        counting="d/",
        counting_loss="would leave room in {both} domains of level {level}",
    ),
    Criterion("ranks", (GoalTerm("ranks", SolvePhase.ORDER),), "would part {both} neighbours by rank"),
    Criterion(
        "ties",
        (
            GoalTerm("terminating", SolvePhase.ORDER),
            GoalTerm("started", SolvePhase.NAMES),
            GoalTerm("names", SolvePhase.NAMES),
            GoalTerm("keys", SolvePhase.NAMES),
        ),
        "would wait for more pods that are still ending",
    ),
)


def criterion(goal: str) -> Criterion:
    """The row of a goal of a plan, whose name may end with a level."""
    name = goal.partition("/")[0]
    return next(each for each in CRITERIA if each.name == name)


def is_of_level(goal: str) -> bool:
    """Whether the goal counts something on one level: its name is `<goal>/<level>`."""
    return criterion(goal).by_level


def until(phase: SolvePhase) -> tuple[str, ...]:
    """The goals of which something is stated before this phase."""
    return tuple(each.name for each in CRITERIA if each.name not in since(phase))


def since(phase: SolvePhase) -> tuple[str, ...]:
    """The goals of which nothing is stated before this phase."""
    return tuple(each.name for each in CRITERIA if min(term.phase for term in each.terms) >= phase)


def terms(phase: SolvePhase | None = None, *, counted: bool = False) -> frozenset[str]:
    """The names of terms: of one phase or of all; `counted`: those for which counting is enough."""
    found = (term for each in CRITERIA for term in each.terms if phase in (None, term.phase))
    return frozenset(term.name for term in found if term.counted or not counted)


def in_order(*phases: SolvePhase) -> tuple[tuple[str, ...], ...]:
    """The names of the terms of some phases, phase by phase, in the order of the goals."""
    found = sorted((term for each in CRITERIA for term in each.terms), key=lambda term: term.phase)
    by_phase = {phase: tuple(term.name for term in group) for phase, group in groupby(found, lambda term: term.phase)}
    return tuple(by_phase.get(phase, ()) for phase in phases)


def is_countable() -> bool:
    """Whether the ways that prove by counting know all goals."""
    return all(each.by_counting for each in CRITERIA)
