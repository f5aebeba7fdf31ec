"""The incumbent: the best verified plan so far. It is reported to the caller at once, while the search goes on."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.cp_sat.lexicographic import SolveStatus
from solver.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from solver.heuristics.greedy import plans_of
from solver.instance import Instance
from solver.objective import ComparisonKey, comparison_key
from solver.plan import Plan, Proof
from solver.problem import Problem
from solver.verify.rules import verify

PlanCallback = Callable[[Plan], None]
"""A function that receives each plan that a solve finds. Each plan is better than the one before."""

LARGE, LARGE_EVICTING = 1_000_000, 100_000
"""The size of a problem (members times nodes) from which on a greedy plan is sought before CP-SAT runs: `LARGE` without
evictions, `LARGE_EVICTING` with them.
"""
STARTING = 10_000
"""The size of a problem (members times nodes) from which on CP-SAT starts from a greedy plan, if one is found at once.
In smaller problems, CP-SAT finds its first plan quickly by itself.
"""
_AT_LENGTH = 0.3
"""The share of the remaining time in which the greedy search compares several domains for each block. After this time,
a block is placed in the first domain where it fits.
"""
_PLANS = 3
"""How many valid greedy plans are sought before the search for the best plan starts."""


def ignore_plan(_plan: Plan) -> None:
    """Do nothing: the `PlanCallback` of callers that need only the final result."""


class Incumbent:
    """The best plan so far (`plan`; None: none is known). `on_plan` is called with each plan that is better than the
    one before.
    """

    def __init__(self, problem: Problem, on_plan: PlanCallback = ignore_plan) -> None:
        self.problem, self._on_plan = problem, on_plan
        self.plan: Plan | None = None
        self._key: ComparisonKey = ()
        self._end = self._soon = NO_DEADLINE
        self._quick: dict[bool, Iterator[Plan]] = {}

    def offer(self, plan: Plan) -> bool:
        """Keep a plan if it passes the verifier and is better than the best known. Return whether it passes the
        verifier.
        """
        if verify(self.problem, plan):
            return False
        key = key_of(self.problem, plan)
        if self.plan is None or key < self._key:
            self.plan, self._key = plan, key
            self._on_plan(plan)
        return True

    def seek(self, instance: Instance, deadline: Deadline, most: int = _PLANS) -> None:
        """Look for greedy plans of an instance, until `most` valid plans are found or the deadline comes. Better plans
        become the incumbent.

        Plans have evictions only if the instance allows them. There is one search with evictions and one without. A
        later call continues the same search where the call before has stopped.
        """
        if deadline.over:
            return
        self._end, self._soon = deadline, deadline.share(_AT_LENGTH)
        plans = self._quick.setdefault(instance.evicting, self._plans(instance))
        try:
            for plan in plans:
                most -= self.offer(plan)
                if most <= 0 or self._soon.over:
                    return
        except OutOfTimeError:
            return

    def or_better(self, answer: Plan | SolveStatus) -> Plan | SolveStatus:
        """Return the better one of `answer`, the result of a search, and the incumbent. A result without a plan is
        returned only if there is no incumbent.
        """
        if self.plan is None:
            return answer
        if isinstance(answer, SolveStatus):
            return self.plan
        proven = answer.proof is Proof.OPTIMAL
        return answer if proven or key_of(self.problem, answer) <= self._key else self.plan

    def _plans(self, instance: Instance) -> Iterator[Plan]:
        yield from plans_of(replace(instance, deadline=Deadline(self._left)), lambda: self._soon.over)

    def _left(self) -> float:
        return self._end.left()


def key_of(problem: Problem, plan: Plan) -> ComparisonKey:
    """Return a plan's comparison key: the goal values in their order, each with its parts. Smaller is better.

    The value of goal `victims` is the list of the victims' priorities, the highest first.
    """
    gone = sorted((int(problem.victims.priority[victim]) for victim in plan.victims), reverse=True)
    return tuple(tuple(gone) if goal.name == "victims" else comparison_key(goal) for goal in plan.goals)
