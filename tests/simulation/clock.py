"""Clocks whose time moves only when the simulation moves it."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
"""The wall time at which every simulation begins."""
_FIRST_MONOTONIC = 1000.0
"""Not 0: a default of 0 in the code under test must not look like the present."""


class RealTimeError(AssertionError):
    """Product code read the real time, or waited."""


class LogicalClock:
    """A `timing.clock.Clock`. `now`: seconds since the simulation began."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return _FIRST_MONOTONIC + self.now

    def wall(self) -> datetime:
        """The present time in UTC."""
        return START + timedelta(seconds=self.now)

    def since_boot(self) -> float:
        """Seconds since an arbitrary start; a simulated machine does not sleep."""
        return self.monotonic()

    def processor(self) -> float:
        """Return 0: simulated work takes no processor time."""
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Fail: only the simulation moves the time."""
        message = f"product code sleeps for {seconds} s in a simulation"
        raise RealTimeError(message)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Return whether the event is set. Fail if it is not: only the simulation moves the time."""
        if event.is_set() or (seconds is not None and seconds <= 0):
            return event.is_set()
        message = f"product code waits for {seconds} s in a simulation"
        raise RealTimeError(message)


class MachineClock(LogicalClock):
    """The clock of one machine. Its wall time is `offset` seconds ahead of the simulation's.

    `waiting`: moves the time by so many seconds, for code that waits in a thread of its own; None: no code may wait.
    """

    def __init__(self, base: LogicalClock) -> None:
        self._base = base
        self.offset = 0.0
        self.waiting: Callable[[float], None] | None = None

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Return whether the event is set, after so many logical seconds if a thread may wait now."""
        if self.waiting is None or seconds is None or event.is_set():
            return super().wait(event, seconds)
        self.waiting(seconds)
        return event.is_set()

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. A step of the wall time does not move it."""
        return _FIRST_MONOTONIC + self._base.now

    def wall(self) -> datetime:
        """The machine's idea of UTC."""
        return self._base.wall() + timedelta(seconds=self.offset)
