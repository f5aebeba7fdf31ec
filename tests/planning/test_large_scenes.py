"""Clusters of thousands of nodes: every problem gets a verified plan or a proven infeasible result.

`make test` checks the answer. `make bench-solver` checks on an idle machine that an answer comes within the caller's
limit (marker `timed`).
"""

import gc
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from planning.solver_pool.pool import SOLVER_SHARE, WORKER_SHARE, Workers
from planning.solver_pool.worker import EXPLAINING
from solver.deadline import Deadline
from solver.explain.remedies import explained
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.solve import decide
from solver.verify.rules import verify

sys.path.insert(0, str(Path(__file__).parents[1] / "solver"))
from large_scenes import HARD, SCENES, Scene, problem_of

pytestmark = pytest.mark.thorough

LATE = 1.1
"""The share of the time limit within which a worker's answer must arrive."""
TRIES = 10
"""The number of attempts: other load may leave the processor's caches cold, but hardly in every attempt."""
PATIENCE = (2.0, 20.0)
"""Limits to try in turn, in multiples of the scene's own. A machine under load needs several times the processor time
of an idle one. A longer limit costs more, because the solver uses its rest to improve the plan.
"""
USUAL = {"budgets that forbid nearly all", "extras", "slices in slices", "spread", "too many mixed"}
"""The scenes of `make test`. The others are marked `long`."""
ALL = [pytest.param(each, id=each.name, marks=() if each.name in USUAL else pytest.mark.long) for each in SCENES]


@pytest.fixture(autouse=True)
def _collected_between_answers() -> Iterator[None]:
    """Collect garbage between answers only, as a worker does: one collection takes a tenth of a second here."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("scene", ALL)
def test_every_problem_gets_a_plan_or_a_proven_no(scene: Scene) -> None:
    problem = problem_of(scene)
    for patience in PATIENCE:
        answer, _ = answered(problem, patience * scene.seconds)
        if answer.proof is not Proof.UNPROVEN:
            break
    assert isinstance(answer, Plan) == scene.possible, answer
    assert answer.proof is not Proof.UNPROVEN
    assert answer.proof is Proof.INFEASIBLE or (isinstance(answer, Plan) and verify(problem, answer) == ())


@pytest.mark.timed
@pytest.mark.parametrize("scene", [*SCENES, *HARD], ids=lambda scene: scene.name)
def test_a_second_is_kept(scene: Scene) -> None:
    """In this process's own time. A hard scene need not be solved in it."""
    problem = problem_of(scene)
    for _ in range(TRIES):
        answer, took = answered(problem, scene.seconds)
        if took <= WORKER_SHARE * scene.seconds and (scene in HARD or answer.proof is not Proof.UNPROVEN):
            break
    assert took <= WORKER_SHARE * scene.seconds, took
    assert scene in HARD or answer.proof is not Proof.UNPROVEN
    assert not isinstance(answer, Plan) or verify(problem, answer) == ()


def answered(problem: Problem, seconds: float) -> tuple[Answer, float]:
    """Return a worker's answer within the caller's limit, and its duration in seconds of this process's cpu time."""
    began, share = time.process_time(), SOLVER_SHARE * seconds
    answer = decide(problem, Limits(seconds=share), deadline=own_time(began + share))
    if isinstance(answer, NoPlan):
        end = began + share * (1 + EXPLAINING)
        answer = explained(problem, answer, Limits(seconds=share), own_time(end))
    return answer, time.process_time() - began


def own_time(end: float) -> Deadline:
    """Return the deadline at which this process has used `end` seconds of cpu time."""
    return Deadline(lambda: end - time.process_time())


@pytest.mark.timed
@pytest.mark.parametrize("longest", [1.0, 10.0])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_workers_keep_the_limit_by_themselves(scene: Scene, longest: float, caplog: pytest.LogCaptureFixture) -> None:
    problem, seconds = problem_of(scene), max(longest, scene.seconds)
    with closing(Workers(1)) as workers:
        for _ in range(TRIES):
            caplog.clear()
            workers.await_started()
            with caplog.at_level(logging.WARNING):
                began = time.monotonic()
                answer = workers.solve(problem, Limits(seconds=seconds))
                took = time.monotonic() - began
            if took <= LATE * seconds and not caplog.messages and answer.proof is not Proof.UNPROVEN:
                break
    assert took <= LATE * seconds, took
    assert caplog.messages == []
    assert isinstance(answer, Plan) == scene.possible


@pytest.mark.timed
@pytest.mark.parametrize("scene", HARD, ids=lambda scene: scene.name)
def test_callers_get_their_limit_where_it_is_not_enough(scene: Scene) -> None:
    problem = problem_of(scene)
    with closing(Workers(1)) as workers:
        for _ in range(TRIES):
            workers.await_started()
            began = time.monotonic()
            workers.solve(problem, Limits(seconds=scene.seconds))
            took = time.monotonic() - began
            if took <= LATE * scene.seconds:
                break
    assert took <= LATE * scene.seconds, took
