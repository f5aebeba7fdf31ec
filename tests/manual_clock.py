"""A clock that a test moves by hand."""

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def clock_at(time: str) -> "ManualClock":
    """Return a clock whose wall clock shows an RFC 3339 time."""
    clock = ManualClock()
    clock.set_wall(datetime.fromisoformat(time))
    return clock


class ManualClock:
    """A `timing.clock.Clock` whose time passes when a test adds seconds to it, and while its owner waits.

    A wait passes its whole time at once, unless its event is set.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        """Start `seconds` after the clock's own zero; the wall clock starts at `START`."""
        self.now = seconds
        self._wall_offset = timedelta()
        self.worked = 0.0
        """Processor time of every thread."""

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.now

    def since_boot(self) -> float:
        """Return the seconds that have passed."""
        return self.now

    def wall(self) -> datetime:
        """Return `START` plus the seconds that have passed, plus all steps of the wall clock."""
        return START + timedelta(seconds=self.now) + self._wall_offset

    def processor(self) -> float:
        """Return `worked`."""
        return self.worked

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += max(0.0, seconds)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Let the time pass, unless the event is set."""
        if not event.is_set():
            assert seconds is not None, "nothing sets this event: the wait would never end"
            self.sleep(seconds)
        return event.is_set()

    def set_wall(self, time: datetime) -> None:
        """Set the wall clock."""
        self._wall_offset += time - self.wall()

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back if `seconds` is negative."""
        self._wall_offset += timedelta(seconds=seconds)
