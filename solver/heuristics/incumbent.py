"""The best plan that is known so far, while a better one is sought: found quickly, verified, told at once."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.cp_sat.lexicographic import Found
from solver.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from solver.heuristics.greedy import plans_of
from solver.instance import Instance
from solver.objective import comparison_key
from solver.plan import Plan, Proof
from solver.problem import Problem
from solver.verify.rules import verify

Tell = Callable[[Plan], None]
"""Takes plans, each better than the one before."""

LARGE, LARGE_EVICTING = 1_000_000, 100_000
"""Members times nodes from which on a quick plan is sought before CP-SAT looks for one, without evictions and with."""
STARTING = 10_000
"""Members times nodes from which on CP-SAT sets out from a quick plan, if there is one at once, instead of looking for
a first one by itself.
"""
_AT_LENGTH = 0.3
"""The share of the time that is left in which quick plans are looked for at length."""
_PLANS = 3
"""So many quick plans are looked at before a better one is sought at length."""

Key = tuple[tuple[int, ...], ...]


def to_nobody(_plan: Plan) -> None:
    """For those who only want the answer."""


class Incumbent:
    """The best plan so far. `tell` is given every better one."""

    def __init__(self, problem: Problem, tell: Tell = to_nobody) -> None:
        self.problem, self._tell = problem, tell
        self.plan: Plan | None = None
        self._key: Key = ()
        self._end = self._soon = NO_DEADLINE
        self._quick: dict[bool, Iterator[Plan]] = {}

    def offer(self, plan: Plan) -> bool:
        """Take a plan, if it is one and better than what is known; tells whether it is one."""
        if verify(self.problem, plan):
            return False
        key = key_of(self.problem, plan)
        if self.plan is None or key < self._key:
            self.plan, self._key = plan, key
            self._tell(plan)
        return True

    def seek(self, instance: Instance, deadline: Deadline, most: int = _PLANS) -> None:
        """Look for quick plans of an instance, with evictions or without, until so many are found or the deadline
        comes.
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

    def or_better(self, answer: Plan | Found) -> Plan | Found:
        """The answer, or the best plan known where that is better."""
        if self.plan is None:
            return answer
        if isinstance(answer, Found):
            return self.plan
        proven = answer.proof is Proof.OPTIMAL
        return answer if proven or key_of(self.problem, answer) <= self._key else self.plan

    def _plans(self, instance: Instance) -> Iterator[Plan]:
        yield from plans_of(replace(instance, deadline=Deadline(self._left)), lambda: self._soon.over)

    def _left(self) -> float:
        return self._end.left()


def key_of(problem: Problem, plan: Plan) -> Key:
    """The goals of a plan in their order, each with its parts, smaller being better."""
    gone = sorted((int(problem.victims.priority[victim]) for victim in plan.victims), reverse=True)
    return (tuple(gone), *(comparison_key(goal) for goal in plan.goals if goal.name != "victims"))
