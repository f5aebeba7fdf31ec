"""When the next round is due, and what does not start one."""

import threading

import pytest
from cache_feed import FedCache
from manual_clock import ManualClock

from controller.pace import IDLE_SECONDS, Due, Pace
from controller.urgency import Urgencies
from controller.writes.read_your_writes import ReadYourWrites


class TickingClock(ManualClock):
    """A clock that advances 1 ms with each reading, so that no wait on it is endless."""

    def monotonic(self) -> float:
        """Return the time, after it has moved."""
        self.now += 0.001
        return self.now


@pytest.mark.parametrize(("late", "waits"), [(False, False), (True, True)])
def test_an_answer_of_the_planner_starts_a_round_unless_the_cache_is_late(*, late: bool, waits: bool) -> None:
    """Without the exception, rounds would follow one another without pause until the cache catches up."""
    cache, clock = FedCache(), TickingClock()
    with cache.journal() as journal:
        pace = Pace(cache, journal, Urgencies(cache, ReadYourWrites(clock)), lambda: True, clock)
        pace.wait(Due(cache.version(), at=0.05, late=late), threading.Event())
    assert (clock.now >= 0.05) is waits


@pytest.mark.parametrize(
    ("due", "at"),
    [
        (Due(at=100.0, unfinished=False), 100.0),
        (Due(at=100.0, unfinished=True), IDLE_SECONDS),
        (Due(at=0.1, unfinished=True), 0.1),
        (Due(at=100.0, hurried=True), 0.02),
        (Due(at=100.0, hurried=True, spent=0.1), 0.1),
        (Due(at=100.0, hurried=True, spent=5.0), 0.2),
    ],
)
def test_when_a_round_is_due_if_nothing_changes(due: Due, at: float) -> None:
    cache, clock = FedCache(), ManualClock()
    with cache.journal() as journal:
        assert Pace(cache, journal, Urgencies(cache, ReadYourWrites(clock)), lambda: False, clock).due(
            due
        ) == pytest.approx(at)
