"""The pool ends idle workers except one."""

import time
from collections.abc import Iterator

import pytest
from manual_clock import ManualClock
from waiting import wait_for

from planning.solver_pool.idle import IdleWorkers
from planning.solver_pool.process import COMMAND, Worker

MOMENT = 0.2


@pytest.fixture
def idle() -> Iterator[IdleWorkers]:
    workers = IdleWorkers(idle_seconds=MOMENT)
    yield workers
    workers.close()


def runs(worker: Worker) -> bool:
    return worker.process.poll() is None


def test_the_last_to_come_is_the_one_that_stays(idle: IdleWorkers) -> None:
    first, second, third = (Worker(COMMAND) for _ in range(3))
    for each in (first, second, third):
        idle.put(each)
    wait_for(lambda: not runs(first) and not runs(second))
    time.sleep(2 * MOMENT)  # a fault would end the third one, too
    assert runs(third)
    assert idle.take() is third
    third.close()


def test_one_alone_is_not_ended(idle: IdleWorkers) -> None:
    worker = Worker(COMMAND)
    idle.put(worker)
    time.sleep(3 * MOMENT)  # a fault would end it
    assert runs(worker)
    assert len(idle) == 1


def test_those_that_callers_take_turns_with_stay() -> None:
    """With two concurrent callers repeatedly, no worker is ended and started again."""
    clock = ManualClock()
    idle = IdleWorkers(idle_seconds=5 * MOMENT, clock=clock)
    both = {Worker(COMMAND), Worker(COMMAND)}
    for each in both:
        idle.put(each)
    for _ in range(20):
        taken = [idle.take(), idle.take()]
        assert set(taken) == both
        clock.sleep(MOMENT / 2)
        for worker in taken:
            assert worker is not None
            idle.put(worker)
    idle.close()
    assert not any(runs(each) for each in both)


def test_one_that_died_is_not_given_out(idle: IdleWorkers) -> None:
    worker = Worker(COMMAND)
    worker.process.kill()
    worker.process.wait()
    idle.put(worker)
    assert idle.take() is None
