"""Exponential back-off: the one formula for every retry."""

from dataclasses import dataclass

_MOST_DOUBLINGS = 60
"""Bounds the exponent; 2^60 seconds exceed every `longest`."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first` up to `longest` seconds."""

    first: float
    longest: float

    def delay(self, failures: int) -> float:
        """Return the delay after so many failures in a row; 0 if there was none."""
        if failures <= 0:
            return 0.0
        return min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest)

    def after(self, previous: float) -> float:
        """Return the delay that follows the delay `previous`; `first` if `previous` is 0."""
        return min(max(self.first, 2 * previous), self.longest)
