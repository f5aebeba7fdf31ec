"""Time that is left of a limit."""

from timing.clock import SYSTEM_CLOCK, Clock


class TimeLimit:
    """A limit that began when this object was made."""

    def __init__(self, seconds: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds

    @property
    def seconds(self) -> float:
        """Return the seconds that are left; 0 when the limit is over."""
        return max(0.0, self._end - self._clock.monotonic())
