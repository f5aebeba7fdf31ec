"""Whatever happens to a solver process, the caller gets a verified plan or a true rejection within the time limit.

rack-0: a b c d      one pod a node
rack-1: e f
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from thorough import mostly
from waiting import wait_for

from planning.solver_pool.pool import Workers
from solver.multi_gang.joint import solve_all_placed, solve_joint
from solver.multi_gang.joint_problem import ManyGangs
from solver.nodes import Node, nodes_of
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Cap, GangRules, Limits, Member, PodSet, Problem, Shape
from solver.solve import solve
from solver.verify.rules import verify

FAULTY = Path(__file__).with_name("faulty_worker.py")
PATIENT = Limits(seconds=600.0)
"""A limit that no test reaches: on any machine the answer arrives long before."""
SHORT = Limits(seconds=1.0)
"""A limit that is always reached, because the workers of these tests would not answer for an hour."""


def problem(count: int) -> Problem:
    """`count` pods in one rack."""
    racks = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 1, "f": 1}
    nodes = tuple(Node(name, (f"rack-{rack}",), (1,), (0,)) for name, rack in racks.items())
    members = tuple(Member(f"pod-{rank}", 0) for rank in range(count))
    shape = Shape((1,), frozenset(range(len(nodes))))
    return Problem(
        ("rack", "node"), ("gpu",), nodes_of(nodes), (shape,), (PodSet("main", members, count),), count, required=0
    )


def capped(uncapped: Problem) -> Problem:
    """Return a problem that requires one rack for all pods and allows one pod in a rack.

    It is infeasible, and counting capacity does not show it.
    """
    return replace(uncapped, sets=tuple(replace(each, caps=(Cap(0, 1),)) for each in uncapped.sets))


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers()
    yield pool
    pool.close()


TWO = replace(
    problem(2),
    sets=(*problem(2).sets, *problem(2).sets),
    minimum=4,
    gangs=(GangRules((0,), 2), GangRules((1,), 2)),
)
"""Two gangs of two."""
MANY = ManyGangs((problem(2), problem(2)), ((1,), (1,)))


@contextmanager
def faulty(fault: str) -> Iterator[Workers]:
    """Workers that fail in one way."""
    pool = Workers(command=(sys.executable, str(FAULTY), fault))
    try:
        yield pool
    finally:
        pool.close()


def test_a_worker_answers_what_the_solver_does(workers: Workers) -> None:
    for count in (1, 2, 3, 4, 5, 6, 7):
        assert workers.solve(problem(count), PATIENT) == solve(problem(count), PATIENT)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", mostly(["killed", "contradicting"], ["greedy_for_memory", "raising"]))
def test_a_gang_that_fits_gets_a_verified_plan_and_no_other_gets_a_proof(fault: str) -> None:
    with faulty(fault) as pool:
        is_sound(pool.solve(problem(3), PATIENT))
        assert pool.solve(capped(problem(2)), PATIENT) == NoPlan(Proof.UNPROVEN)


@pytest.mark.parametrize("fault", mostly(["lying"], ["boasting", "denying"]))
def test_a_wrong_answer_is_not_believed(fault: str) -> None:
    with faulty(fault) as pool:
        is_sound(pool.solve(problem(3), PATIENT))


@pytest.mark.thorough
@pytest.mark.parametrize("fault", mostly(["hung"], ["stopped"]))
def test_a_worker_that_never_answers_does_not_cost_more_than_the_limit(fault: str) -> None:
    with faulty(fault) as pool:
        pool.solve(problem(5), SHORT)
        is_sound(pool.solve(problem(3), SHORT))
        assert pool.solve(capped(problem(2)), SHORT) == NoPlan(Proof.UNPROVEN)


@pytest.mark.long
def test_a_worker_that_does_not_even_read_does_not_cost_more_than_the_limit() -> None:
    """The request to the stopped worker is larger than a pipe's buffer."""
    names = tuple(f"node-{number}" for number in range(20_000))
    nodes = nodes_of(Node(name, ("rack-0",), (1,), (0,)) for name in names)
    large = replace(problem(3), nodes=nodes)
    pool = Workers(1)
    try:
        pool.await_started()
        for pid in _children():
            os.kill(pid, signal.SIGSTOP)
        answer = pool.solve(large, Limits(seconds=3.0))
        assert isinstance(answer, Plan)
        assert answer.proof is Proof.FEASIBLE
    finally:
        pool.close()


def is_sound(answer: Answer) -> None:
    """A plan for three that passes the verifier and claims no more than that."""
    assert isinstance(answer, Plan)
    assert answer.proof is Proof.FEASIBLE
    assert verify(problem(3), answer) == ()


@pytest.mark.long
def test_of_gangs_together_and_of_what_is_next_door_nothing_is_known_then() -> None:
    with faulty("killed") as pool:
        assert pool.solve_joint(TWO, PATIENT) is None
        plan = solve(problem(3))
        assert isinstance(plan, Plan)
        assert pool.next_door(problem(3), plan, PATIENT) is None


def test_plans_for_several_gangs_that_take_a_node_twice_are_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    with faulty("giving_twice") as pool:
        assert pool.solve_joint(TWO, PATIENT) is None
    assert "the worker's plans are wrong" in caplog.text


def test_several_gangs_are_planned_together_in_a_worker(workers: Workers) -> None:
    assert workers.solve_joint(TWO, PATIENT) == solve_joint(TWO, PATIENT)


def test_many_gangs_are_placed_in_a_worker(workers: Workers) -> None:
    assert workers.place_many(MANY, PATIENT) == solve_all_placed(MANY, PATIENT)


def test_a_no_that_is_known_stands_without_its_explanation() -> None:
    with faulty("killed_after_no") as pool:
        assert pool.solve(capped(problem(2)), PATIENT) == NoPlan(Proof.INFEASIBLE)


def test_a_no_by_counting_needs_no_worker() -> None:
    with faulty("killed") as pool:
        assert pool.solve(problem(7), PATIENT) == NoPlan(Proof.INFEASIBLE)


def test_where_no_worker_can_be_started_the_callers_own_plan_stands_every_time() -> None:
    with closing(Workers(1, ["/no/such/program"])) as pool:
        for _ in range(3):
            is_sound(pool.solve(problem(3), PATIENT))


@pytest.mark.long
def test_another_worker_takes_the_place_of_one_that_was_killed(workers: Workers) -> None:
    workers.solve(problem(3), PATIENT)
    for pid in _children():
        os.kill(pid, signal.SIGKILL)
    answer = workers.solve(problem(3), PATIENT)
    assert isinstance(answer, Plan)
    again = workers.solve(problem(3), PATIENT)
    assert isinstance(again, Plan)
    assert again.proof is Proof.OPTIMAL


def test_threads_share_the_workers(workers: Workers) -> None:
    answers: list[object] = []

    def ask() -> None:
        answers.append(workers.solve(problem(4), PATIENT))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [solve(problem(4))] * 6


PARENT = """
import sys, threading
from planning.solver_pool.pool import Workers
from planning.solver_pool.process import COMMAND, Worker
from planning.solver_pool.tasks import Task
from test_workers import FAULTY, PATIENT, problem
waiting, working = Worker(COMMAND), Worker((sys.executable, str(FAULTY), "hung"))
for each in (waiting, working):
    each.await_ready()
threading.Thread(target=lambda: next(working.replies(Task(problem(3), PATIENT), 3600.0))).start()
print(waiting.process.pid, working.process.pid, flush=True)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("end", mostly([signal.SIGKILL], [signal.SIGTERM]))
def test_no_worker_outlives_its_parent(end: signal.Signals) -> None:
    """Neither an idle nor a busy worker outlives a parent that a signal ends."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    ) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert "hung\n" in iter(parent.stderr.readline, "")
        parent.send_signal(end)
        parent.wait()
        wait_for(lambda: not any(map(_runs, workers)), "the workers to end")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def _children() -> list[int]:
    """The worker processes of this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = stat.with_name("cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and "planning.solver_pool.worker" in command:
            found.append(int(stat.parent.name))
    return found
