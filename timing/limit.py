"""A time limit that counts down."""

from timing.clock import SYSTEM_CLOCK, Clock


class TimeLimit:
    """A time limit of `seconds`, which starts when the object is created."""

    def __init__(self, seconds: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds

    @property
    def seconds(self) -> float:
        """The seconds that are left of the limit; 0 once it has passed."""
        return max(0.0, self._end - self._clock.monotonic())
