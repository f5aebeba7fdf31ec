"""How events are left to gather while many come."""

import pytest

from cluster.caches.bursts import APART, LONGEST_PAUSE, Burst


def paused(burst: Burst, *times: float) -> list[float]:
    """Return the pause (seconds) after each of these events, of which each arrives alone."""
    pauses = []
    for now in times:
        burst.came(now)
        pauses.append(burst.pause(now))
    return pauses


def test_an_event_after_a_silence_is_not_paused_after() -> None:
    assert paused(Burst(), 5.0, 10.0, 15.0) == [0.0, 0.0, 0.0]


def test_the_longer_events_come_closely_the_longer_they_gather() -> None:
    """With one event every 10 ms, a gang of eight that is complete after 0.08 s is delayed by milliseconds."""
    pauses = paused(Burst(), *(0.01 * number for number in range(100)))
    assert pauses[0] == 0.0
    assert max(pauses[:8]) < 0.008
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_a_pause_in_which_nothing_gathers_is_none() -> None:
    assert paused(Burst(), 0.0, 0.001, 0.005) == [0.0, 0.0, 0.0]


def test_what_came_late_because_the_reader_was_busy_does_not_end_a_burst() -> None:
    """Only an event for which the reader had to wait shows that the watch was quiet."""
    burst = Burst()
    paused(burst, *(0.01 * number for number in range(100)))
    burst.came(1.0)
    burst.came(1.0 + 3 * APART)
    assert burst.pause(1.0 + 3 * APART) == LONGEST_PAUSE


@pytest.mark.parametrize("silence", [APART * 1.01, 60.0])
def test_a_silence_ends_a_burst(silence: float) -> None:
    burst = Burst()
    last = paused(burst, *(0.01 * number for number in range(100)))[-1]
    began = 0.99 + last + silence
    assert paused(burst, began, began + 0.005, began + 0.02) == [0.0, 0.0, pytest.approx(0.002)]


def test_before_anything_has_come_there_is_no_pause() -> None:
    assert Burst().pause(7.0) == 0.0
