"""The best plan so far, while a better one is sought. It is found quickly, verified, and reported at once."""

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
"""Takes plans, each better than the one before."""

LARGE, LARGE_EVICTING = 1_000_000, 100_000
"""Members times nodes from which on a quick plan is sought before CP-SAT runs. The first value holds without evictions,
the second with them.
"""
STARTING = 10_000
"""Members times nodes from which on CP-SAT starts from a quick plan, if one is found at once. Below, CP-SAT seeks its
first plan by itself.
"""
_AT_LENGTH = 0.3
"""The share of the remaining time for a thorough search of quick plans. After it, the first plan that is found is
taken.
"""
_PLANS = 3
"""How many valid quick plans are offered before the search for a better one starts."""


def ignore_plan(_plan: Plan) -> None:
    """Ignore the plan: for callers that need the final result only."""


class Incumbent:
    """The best plan so far. `tell` is called with every better one."""

    def __init__(self, problem: Problem, tell: PlanCallback = ignore_plan) -> None:
        self.problem, self._tell = problem, tell
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
            self._tell(plan)
        return True

    def seek(self, instance: Instance, deadline: Deadline, most: int = _PLANS) -> None:
        """Seek quick plans of an instance, until `most` valid ones are found or the deadline comes.

        The instance says whether evictions are allowed.
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
        """Return the better of the answer and the best plan known."""
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
    """Return the goals of a plan in their order, each with its parts. Smaller is better."""
    gone = sorted((int(problem.victims.priority[victim]) for victim in plan.victims), reverse=True)
    return tuple(tuple(gone) if goal.name == "victims" else comparison_key(goal) for goal in plan.goals)
