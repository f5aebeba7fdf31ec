"""A duty cycle: background work pauses in proportion to the time it took, so it uses a bounded share of a processor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Pauses of background work: `rest` times as long as the work took, at least `shortest` and at most `longest`
    seconds.

    Work that takes w seconds uses at most 1 / (1 + rest) of a processor, unless `longest` shortens the pause.
    """

    rest: float
    shortest: float = 0.0
    longest: float = float("inf")

    def pause(self, worked: float) -> float:
        """Return how many seconds to pause after `worked` seconds of work."""
        return min(max(self.shortest, self.rest * worked), self.longest)
