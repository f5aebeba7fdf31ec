"""The clock of a process.

Code that measures, waits or compares times takes a `Clock`. The entry point of a process passes `SYSTEM_CLOCK`; a
simulation passes a clock whose time moves only when the simulation moves it.
"""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time for all code that measures, waits or compares times. It reports the present time and the used
    processor time, and it waits. Numbers are seconds.
    """

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. Never goes back."""

    def since_boot(self) -> float:
        """Seconds since an arbitrary start, including the time for which the machine slept. Never goes back."""

    def wall(self) -> datetime:
        """The present time in UTC. An administrator may set it back."""

    def processor(self) -> float:
        """Seconds of processor time that the calling thread has used."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`; at once if `seconds` is zero or negative."""

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Return whether `event` is set, after at most `seconds`. None waits without limit."""


class SystemClock:
    """A `Clock` that reads the operating system's clocks."""

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def since_boot(self) -> float:
        """Seconds of CLOCK_BOOTTIME, or of CLOCK_MONOTONIC if the operating system has no such clock."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def wall(self) -> datetime:
        """The operating system's time in UTC."""
        return datetime.now(UTC)

    def processor(self) -> float:
        """Seconds of CLOCK_THREAD_CPUTIME_ID."""
        return time.thread_time()

    def sleep(self, seconds: float) -> None:
        """Let the calling thread sleep; return at once if `seconds` is zero or negative."""
        if seconds > 0:
            time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Block until the event is set or `seconds` have passed. Return whether the event is set."""
        return event.wait(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds_since(time: str, now: datetime) -> float | None:
    """Return how many seconds before `now` an RFC 3339 time was; negative if it lies ahead. None if the text is
    malformed or has no zone.

    Any user can write such a text into an object, so a malformed text raises no error.
    """
    try:
        then = datetime.fromisoformat(time)
        return (now - then).total_seconds() if then.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def is_time(text: str) -> bool:
    """Return whether the text is an RFC 3339 time with a zone."""
    return seconds_since(text, _EPOCH) is not None


def rfc3339(time: datetime) -> str:
    """Return the time as Kubernetes writes `metav1.Time`: UTC, whole seconds."""
    return f"{time.astimezone(UTC).isoformat(timespec='seconds').removesuffix('+00:00')}Z"


def micro_time(time: datetime) -> str:
    """Return the time as Kubernetes writes `metav1.MicroTime`: UTC, with microseconds."""
    return f"{time.astimezone(UTC).isoformat(timespec='microseconds').removesuffix('+00:00')}Z"
