"""An executor with a thread of its own: it takes one piece of work at a time, and survives errors."""

import threading

from controller.scheduling.single_slot_executor import ThreadExecutor

PATIENCE = 60.0


def test_an_executor_is_idle_only_when_its_work_is_done() -> None:
    executor, begun, may_end = ThreadExecutor("test"), threading.Event(), threading.Event()
    assert executor.idle

    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE)

    executor.submit(work)
    assert begun.wait(PATIENCE)
    assert not executor.idle
    may_end.set()
    await_idle(executor)


def test_work_that_fails_stops_nothing() -> None:
    executor, done = ThreadExecutor("test"), threading.Event()

    def failing() -> None:
        raise ArithmeticError

    executor.submit(failing)
    await_idle(executor)
    executor.submit(done.set)
    assert done.wait(PATIENCE)


def test_an_executor_that_is_closed_ends() -> None:
    executor = ThreadExecutor("to-be-closed")
    executor.close()
    for thread in threading.enumerate():
        if thread.name == "to-be-closed":
            thread.join(PATIENCE)
            assert not thread.is_alive()


def await_idle(executor: ThreadExecutor) -> None:
    """Wait until all its work is done."""
    ended = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if executor.idle:
            return
        ended.wait(0.01)
    raise TimeoutError("the executor is still busy")
