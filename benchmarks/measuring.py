"""Measures the time of one instance: from the problem to the verified plan, through a worker process of the solver, as
the controller plans.
"""

import gc
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from benchmarks import step_times
from benchmarks.filling import Cluster
from benchmarks.network import TOPOLOGY
from benchmarks.step_times import Clock
from gangs.model import Gang
from planning import planner
from planning.competing import planned_together
from planning.decision import Decision, Outcome
from planning.framing.gang_problem import frame
from planning.planning_options import PlanningOptions
from planning.solver_pool.pool import Workers
from solver.bounds.domain_cover import certainly_none
from solver.objective import SolvePhase, is_of_level, since
from solver.plan import Answer, Goal, NoPlan, Plan, Proof
from solver.problem import Limits, Problem

LIMITS = Limits()
"""The default limits of a solve. Results that take longer than `WITHIN` count as not proven."""
WITHIN = 1.0
"""The time in seconds within which a result must be proven."""
CHANGED_ONE_IN = 100
"""The changes between two snapshots: one node in so many has changed since the previous snapshot."""
_LATER = since(SolvePhase.ROOM)
"""The goals after the first three: victims, extras, compactness."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The first goal of a plan that is not proven: its value, and the best value that no proof rules out (its bound).
    If there is no plan at all, `goal` is "plan".
    """

    goal: str
    value: int
    bound: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurement of one instance. `seconds`: from the snapshot to the verified plan. `phases`: by phase of
    planning, its seconds.

    `proven_first`, `proven_all`: whether the first three goals, or all goals, are proven, regardless of the time.
    `gangs`: the number of gangs. `plan`: the plan of a single gang. `peak`: the most memory of a worker so far, in
    bytes. `explaining`: the seconds after a rejection was known, which are part of `seconds`.
    """

    seconds: float
    phases: dict[str, float]
    placed: bool
    proven_first: bool
    proven_all: bool
    gap: Gap | None
    gangs: int
    plan: Plan | None
    peak: int
    explaining: float


class Bench:
    """A worker process of the solver with clocks around its steps. `bench` creates it."""

    def __init__(self, workers: Workers, clock: Clock, folder: Path) -> None:
        self._workers, self._clock, self._folder = workers, clock, folder

    def one(self, problem: Problem, framing_seconds: float) -> Sample:
        """Measure the solve of one gang, whose problem is built already. Building it took `framing_seconds`."""
        self._clock.take()
        step_times.spent(self._folder)
        began = time.perf_counter()
        answer = self._workers.solve(problem, LIMITS)
        seconds = time.perf_counter() - began
        counted_none = isinstance(answer, NoPlan) and certainly_none(problem)
        return self._sample(seconds + framing_seconds, framing_seconds, [_measured(answer)], counted_none=counted_none)

    def several(self, gangs: Sequence[Gang], cluster: Cluster) -> Sample:
        """Measure gangs that wait at the same time, planned together as the controller plans them."""
        self._clock.take()
        step_times.spent(self._folder)
        with (
            patch.object(planner, "shared_workers", lambda: self._workers),
            patch.object(planned_together, "shared_workers", lambda: self._workers),
        ):
            options = PlanningOptions(running_gangs=cluster.running)
            began = time.perf_counter()
            decisions = planner.plan_all(gangs, cluster.snapshot, [TOPOLOGY], options)
            seconds = time.perf_counter() - began
        framing = self._clock.seconds.get("snapshot", 0.0)
        return self._sample(seconds, framing, [_of_decision(each) for each in decisions])

    def _sample(
        self, seconds: float, framing: float, verdicts: list["_Measured"], *, counted_none: bool = False
    ) -> Sample:
        spent = step_times.spent(self._folder)
        counted = self._clock.take()
        checked = sum(each.verify for each in spent) + counted.seconds.get("verify", 0.0)
        stated = sum(each.model for each in spent)
        searched = sum(each.total - each.model - each.verify for each in spent)
        handed_over = max(0.0, seconds - framing - stated - searched - checked)
        if counted.steps.get("ask", 0) > sum(each.last for each in spent):
            # a worker was stopped during its search, so the remaining time belongs to the search
            searched, handed_over = searched + handed_over, 0.0
        explaining = sum(later.total for no, later in pairwise(spent) if not no.last)
        if counted_none:
            explaining = seconds - framing - counted.seconds["count"]
        return Sample(
            seconds=seconds,
            phases={
                "snapshot": framing,
                "model": stated + handed_over,
                "solve": searched,
                "verify": checked,
            },
            placed=all(each.placed for each in verdicts),
            proven_first=all(each.first for each in verdicts),
            proven_all=all(each.all for each in verdicts),
            gap=next((each.gap for each in verdicts if each.gap), None),
            gangs=len(verdicts),
            plan=next((each.plan for each in verdicts), None),
            peak=step_times.peak(self._folder),
            explaining=explaining,
        )


@contextmanager
def bench() -> Iterator[Bench]:
    """Yield a new worker with clocks, ready to solve.

    Unlike the controller, the process of the benchmark holds several clusters. Their many objects would slow down each
    run of the garbage collector, so the collector ignores them until the `with` block ends.
    """
    with ExitStack() as stack:
        gc.collect()
        gc.freeze()
        stack.callback(gc.unfreeze)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(patch.dict(os.environ, {step_times.FOLDER: folder}))
        workers = Workers(1, step_times.COMMAND)
        stack.callback(workers.close)
        workers.start()
        workers.await_started()
        yield Bench(workers, stack.enter_context(step_times.in_parent()), Path(folder))


def stated(gang: Gang, cluster: Cluster) -> tuple[Problem, float]:
    """Return the problem of one gang on a new snapshot, and the seconds that it took to build the problem.

    Before that, the problem is built once on the present snapshot, and some nodes are replaced by equal copies. So the
    caches of the snapshot are as full as in a reconcile.
    """
    frame(gang, cluster.snapshot, TOPOLOGY, running=cluster.running)
    picture = cluster.snapshot.with_states([replace(state) for state in cluster.snapshot.nodes[::CHANGED_ONE_IN]])
    began = time.perf_counter()
    problem = frame(gang, picture, TOPOLOGY, running=cluster.running).problem
    return problem, time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class _Measured:
    placed: bool
    first: bool
    all: bool
    gap: Gap | None
    plan: Plan | None = None


def _measured(answer: Answer) -> _Measured:
    if isinstance(answer, NoPlan):
        sure = answer.proof is Proof.INFEASIBLE
        return _Measured(placed=False, first=sure, all=sure, gap=None if sure else Gap("plan", 0, 1))
    return replace(_planned(answer.goals, optimal=answer.proof is Proof.OPTIMAL), plan=answer)


def _of_decision(decision: Decision) -> _Measured:
    if decision.outcome is Outcome.PLACED:
        return _planned(decision.goals, optimal=decision.proof == Proof.OPTIMAL.value)
    sure = decision.proof == Proof.INFEASIBLE.value
    return _Measured(placed=False, first=sure, all=sure, gap=None if sure else Gap("plan", 0, 1))


def _planned(goals: tuple[Goal, ...], *, optimal: bool) -> _Measured:
    """Return which goals of a plan are proven, and the first goal that is not (the open goal).

    A plan that is not optimal has the bound of a goal's first part only. So a goal with more parts is treated as not
    proven.
    """
    open_goals = [] if optimal else [goal for goal in goals if goal.value != goal.bound or _hides(goal)]
    first = optimal or not any(goal.name not in _LATER for goal in open_goals)
    gap = Gap(open_goals[0].name, open_goals[0].value, open_goals[0].bound) if open_goals else None
    return _Measured(placed=True, first=first, all=optimal, gap=gap)


def _hides(goal: Goal) -> bool:
    return is_of_level(goal.name) and len(goal.parts) > 1
