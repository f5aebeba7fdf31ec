"""Exponential back-off: the one formula for every retry of the project."""

from dataclasses import dataclass

_MOST_DOUBLINGS = 60
"""The largest exponent. `2.0 ** n` overflows from 1,024 on, and 2^60 seconds exceed every `longest`."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between retries: `first` seconds after the first failure, doubled after each further one, at most
    `longest`.
    """

    first: float
    longest: float

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after `failures` failures in a row; 0 if `failures` is 0."""
        if failures <= 0:
            return 0.0
        return min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest)

    def after(self, previous: float) -> float:
        """Return the seconds to wait if the last wait was `previous` seconds: twice as long, or `first` if `previous`
        is 0.
        """
        return min(max(self.first, 2 * previous), self.longest)
