"""The solver within this process, in place of `planning.solver_pool`: no child processes, no time limits."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

import msgspec

from planning import planner
from planning.competing import planned_together
from planning.solver_pool.node_layouts import Sender
from planning.solver_pool.tasks import JointTask, ManyTask, Task
from solver.deadline import NO_DEADLINE
from solver.explain.remedies import explained
from solver.multi_gang.joint import solve_all_placed, solve_joint
from solver.multi_gang.joint_problem import JointAnswer, ManyGangs
from solver.nodes import NodeTable
from solver.plan import Answer, NextDoor, NoPlan, Plan
from solver.problem import Limits, Problem
from solver.solve import decide

_ENDLESS = Limits(seconds=math.inf)
_MOST_ANSWERS = 50_000


class InlineSolver:
    """Solves in the calling thread, and remembers the answers: schedules meet the same small problems again and again.

    An answer depends on the problem alone: only `Limits.deterministic` ends a search.
    """

    def __init__(self) -> None:
        self._answers: dict[bytes, Answer | JointAnswer | None] = {}
        self.asked = self.solved = 0

    def solve(self, problem: Problem, limits: Limits) -> Answer:
        """The best plan, or why there is none."""
        limits = replace(limits, seconds=math.inf)
        key = msgspec.msgpack.encode(Task(problem, _ENDLESS), enc_hook=_plain)
        self.asked += 1
        if (found := self._answers.get(key)) is None:
            self.solved += 1
            answer = decide(problem, limits)
            found = answer if isinstance(answer, Plan) else explained(problem, answer, limits, NO_DEADLINE)
            self._keep(key, found)
        assert isinstance(found, Plan | NoPlan)
        return found

    def solve_joint(self, problem: Problem, limits: Limits) -> JointAnswer | None:
        """The joint plan of several gangs that compete."""
        limits = replace(limits, seconds=math.inf)
        return self._joint(JointTask(problem, _ENDLESS), lambda: solve_joint(problem, limits, NO_DEADLINE))

    def place_many(self, many: ManyGangs, limits: Limits) -> JointAnswer | None:
        """Plans for all members of all gangs, without evictions."""
        limits = replace(limits, seconds=math.inf)
        return self._joint(ManyTask(many, _ENDLESS), lambda: solve_all_placed(many, limits, NO_DEADLINE))

    def _joint(self, task: JointTask | ManyTask, solve: Callable[[], JointAnswer | None]) -> JointAnswer | None:
        key = msgspec.msgpack.encode(task, enc_hook=_plain)
        self.asked += 1
        if key not in self._answers:
            self.solved += 1
            self._keep(key, solve())
        found = self._answers[key]
        assert found is None or isinstance(found, JointAnswer)
        return found

    def next_door(self, problem: Problem, plan: Plan, limits: Limits) -> NextDoor | None:  # noqa: ARG002
        """Nothing: no decision depends on it."""
        return None

    def _keep(self, key: bytes, answer: Answer | JointAnswer | None) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer


def _plain(thing: object) -> object:
    if isinstance(thing, NodeTable):
        layout = thing.layout
        return layout.names, layout.paths, thing.free.tobytes(), thing.terminating.tobytes()
    return Sender().pack(thing)


SOLVER = InlineSolver()


@contextmanager
def solving_inline() -> Iterator[InlineSolver]:
    """Within it, plans of this process are made by `SOLVER`."""
    with ExitStack() as stack:
        for module in (planner, planned_together):
            stack.enter_context(patch.object(module, "shared_workers", lambda: SOLVER))
        yield SOLVER
