"""Whatever becomes of a solving process, the caller gets a verified plan or an honest no, in time.

rack-0: a b c d      one pod a node
rack-1: e f
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planning.workers import COMMAND, Workers
from solver.joint import JointProblem, solve_joint
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Member, Node, PodSet, Problem, Shape
from solver.solving import solve
from solver.verify import verify

FAULTY = Path(__file__).with_name("faulty_worker.py")
LIMIT = 2.0
LATENESS = 2.0
"""What a busy machine may add: its threads are woken late, ours or not."""


def problem(count: int) -> Problem:
    """`count` pods in one rack."""
    racks = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 1, "f": 1}
    nodes = tuple(Node(name, (f"rack-{rack}",), (1,), (0,)) for name, rack in racks.items())
    members = tuple(Member(f"pod-{rank}", 0) for rank in range(count))
    shape = Shape((1,), frozenset(range(len(nodes))))
    return Problem(("rack", "node"), ("gpu",), nodes, (shape,), (PodSet("main", members, count),), count, required=0)


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers()
    yield pool
    pool.close()


TWO = JointProblem((problem(2), problem(2)), ((1,), (1,)))


def faulty(fault: str) -> Workers:
    return Workers(command=(sys.executable, str(FAULTY), fault))


def test_a_worker_answers_what_the_solver_does(workers: Workers) -> None:
    for count in (1, 2, 3, 4, 5, 6, 7):
        assert workers.solve(problem(count), Limits()) == solve(problem(count))


@pytest.mark.parametrize(
    "fault", ["killed", "hung", "stopped", "greedy_for_memory", "lying", "boasting", "contradicting", "raising"]
)
def test_a_gang_that_fits_gets_a_verified_plan_and_no_other_gets_a_proof(fault: str) -> None:
    pool = faulty(fault)
    try:
        answer, seconds = _timed(pool, problem(3))
        assert isinstance(answer, Plan)
        assert answer.proof is Proof.FEASIBLE
        assert verify(problem(3), answer) == ()
        assert seconds < LIMIT + LATENESS
        if fault not in ("lying", "boasting"):
            assert pool.solve(problem(5), Limits(seconds=LIMIT)) == NoPlan(Proof.UNPROVEN)
    finally:
        pool.close()


def test_of_gangs_together_and_of_what_is_next_door_nothing_is_known_then() -> None:
    pool = faulty("killed")
    try:
        assert pool.solve_joint(TWO, Limits(seconds=LIMIT)) is None
        plan = solve(problem(3))
        assert isinstance(plan, Plan)
        assert pool.next_door(problem(3), plan, Limits(seconds=LIMIT)) is None
    finally:
        pool.close()


def test_plans_for_several_gangs_that_take_a_node_twice_are_not_believed() -> None:
    pool = faulty("giving_twice")
    try:
        assert pool.solve_joint(TWO, Limits(seconds=LIMIT)) is None
    finally:
        pool.close()


def test_several_gangs_are_planned_together_in_a_worker(workers: Workers) -> None:
    assert workers.solve_joint(TWO, Limits()) == solve_joint(TWO, Limits())


def test_a_no_that_is_known_stands_without_its_explanation() -> None:
    pool = faulty("silent_after_no")
    try:
        assert pool.solve(problem(5), Limits(seconds=1.0)) == NoPlan(Proof.INFEASIBLE)
    finally:
        pool.close()


def test_another_worker_takes_the_place_of_one_that_was_killed(workers: Workers) -> None:
    workers.solve(problem(3), Limits())
    for pid in _children():
        os.kill(pid, signal.SIGKILL)
    answer = workers.solve(problem(3), Limits())
    assert isinstance(answer, Plan)
    again = workers.solve(problem(3), Limits())
    assert isinstance(again, Plan)
    assert again.proof is Proof.OPTIMAL


def test_threads_share_the_workers(workers: Workers) -> None:
    answers: list[object] = []

    def ask() -> None:
        answers.append(workers.solve(problem(4), Limits(seconds=60)))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [solve(problem(4))] * 6


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("fault", ["", "hung"])
def test_no_worker_outlives_its_parent(end: signal.Signals, fault: str) -> None:
    """A parent with a worker that waits, and one with a worker that works."""
    command = COMMAND if not fault else (sys.executable, str(FAULTY), fault)
    text = (
        "import sys; sys.path.insert(0, 'tests/planning')\n"
        "from test_workers import Workers, Limits, problem\n"
        f"pool = Workers(command={command!r})\n"
        "pool.start(); print(pool._places.home[0].process.pid, flush=True)\n"
        "pool.solve(problem(3), Limits(seconds=60)); print('solved', flush=True)\n"
        "import time; time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env=_environment())
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    if not fault:
        assert parent.stdout.readline() == "solved\n"
    else:
        time.sleep(2.0)
    parent.send_signal(end)
    parent.wait()
    parent.stdout.close()
    assert _ended(child, seconds=10.0)


def _timed(pool: Workers, asked: Problem) -> tuple[Answer, float]:
    """The answer of a pool whose worker has started, and how long it took."""
    pool.start()
    pool._places.home[0].await_ready()  # noqa: SLF001 -- starting is not counted in the limit
    began = time.monotonic()
    return pool.solve(asked, Limits(seconds=LIMIT)), time.monotonic() - began


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def _ended(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not _runs(pid):
            return True
        time.sleep(0.1)
    return False


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
        if int(fields[1]) == os.getpid() and "planning.worker" in command:
            found.append(int(stat.parent.name))
    return found
