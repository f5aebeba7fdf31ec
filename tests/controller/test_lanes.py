"""A thread that works beside the rounds."""

import threading

from controller.scheduling.lanes import ThreadLane

PATIENCE = 60.0


def test_a_lane_is_idle_only_when_its_work_is_done() -> None:
    lane, begun, may_end = ThreadLane("test"), threading.Event(), threading.Event()
    assert lane.idle

    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE)

    lane.do(work)
    assert begun.wait(PATIENCE)
    assert not lane.idle
    may_end.set()
    await_idle(lane)


def test_work_that_fails_stops_nothing() -> None:
    lane, done = ThreadLane("test"), threading.Event()

    def failing() -> None:
        raise ArithmeticError

    lane.do(failing)
    await_idle(lane)
    lane.do(done.set)
    assert done.wait(PATIENCE)


def test_a_lane_that_is_closed_ends() -> None:
    lane = ThreadLane("to-be-closed")
    lane.close()
    for thread in threading.enumerate():
        if thread.name == "to-be-closed":
            thread.join(PATIENCE)
            assert not thread.is_alive()


def await_idle(lane: ThreadLane) -> None:
    """Wait until all its work is done."""
    ended = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if lane.idle:
            return
        ended.wait(0.01)
    raise TimeoutError("the lane is still busy")
