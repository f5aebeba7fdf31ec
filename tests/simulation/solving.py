"""The solver within this process, in place of `planning.solver_pool`: no child processes, no time limits."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

import msgspec

from planning import planner
from planning.competing import planned_together
from planning.messages import never_fits
from planning.solver_pool.node_layouts import Sender
from planning.solver_pool.tasks import JointTask, ManyTask, Task
from solver.deadline import NO_DEADLINE
from solver.explain.largest_domain import too_small_for
from solver.explain.remedies import explained
from solver.multi_gang.joint import solve_all_placed, solve_joint
from solver.multi_gang.joint_problem import JointAnswer, ManyGangs
from solver.nodes import NodeTable
from solver.plan import Answer, NearDomain, NextDoor, NoPlan, Plan
from solver.problem import Limits, Member, Problem
from solver.solve import decide

_ENDLESS = Limits(seconds=math.inf)
_MOST_ANSWERS = 50_000


class InlineSolver:
    """Solves in the calling thread, and remembers the answers: schedules meet the same small problems again and again.

    An answer depends on the problem alone: only `Limits.deterministic` ends a search. No answer names a member, so the
    names of members are no part of the problem here (`planning.solver_pool.known_answers`).
    """

    def __init__(self) -> None:
        self._too_small: dict[bytes, NearDomain | None] = {}
        self._answers: dict[bytes, Answer | JointAnswer | None] = {}
        self.asked = self.solved = 0

    def solve(self, problem: Problem, limits: Limits) -> Answer:
        """The best plan, or why there is none."""
        limits = replace(limits, seconds=math.inf)
        key = _key(problem)
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

    def too_small_for(self, problem: Problem) -> NearDomain | None:
        """Return what `solver.explain.largest_domain.too_small_for` returns, from memory if it was asked before."""
        key = _key(problem)
        if key not in self._too_small:
            if len(self._too_small) >= _MOST_ANSWERS:
                self._too_small.clear()
            self._too_small[key] = too_small_for(problem)
        return self._too_small[key]

    def _keep(self, key: bytes, answer: Answer | JointAnswer | None) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer


def _key(problem: Problem) -> bytes:
    """Return the problem as bytes, without the names of the members that it places."""
    sets = tuple(
        replace(each, members=tuple(Member("", member.shape, member.node) for member in each.members))
        for each in problem.sets
    )
    return msgspec.msgpack.encode(Task(replace(problem, sets=sets), _ENDLESS), enc_hook=_plain)


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
        stack.enter_context(patch.object(never_fits, "too_small_for", SOLVER.too_small_for))
        yield SOLVER
