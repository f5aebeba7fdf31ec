"""Duty cycle: background work rests in proportion to the time it took, to use a bounded share of a processor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Work rests `rest` times as long as it took, at least `shortest` and at most `longest` seconds.

    Work that takes w seconds uses at most 1 / (1 + rest) of a processor, unless `longest` cuts the rest.
    """

    rest: float
    shortest: float = 0.0
    longest: float = float("inf")

    def pause(self, worked: float) -> float:
        """Return the seconds to rest after `worked` seconds of work."""
        return min(max(self.shortest, self.rest * worked), self.longest)
