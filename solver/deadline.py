"""When a solve must end. The solver has no clock of its own: whoever calls it lends one.

Everything whose effort grows with nodes, members or victims looks at the deadline as it goes, so that a solve ends by
itself, with the best plan that it has, and need not be stopped from outside.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")
_OFTEN = 64
"""Steps of a loop between two looks at the clock."""


class OutOfTimeError(Exception):
    """The time of the solve is over. Whoever has a plan gives that; else nothing is known."""


def _for_ever() -> float:
    return math.inf


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a solve. `left` tells the seconds until then."""

    left: Callable[[], float] = _for_ever

    @property
    def over(self) -> bool:
        """Whether it has come."""
        return self.left() <= 0

    def look(self) -> None:
        """Go on only before the end. Raises `OutOfTimeError`."""
        if self.left() <= 0:
            raise OutOfTimeError

    def through(self, things: Iterable[_T], often: int = _OFTEN) -> Iterator[_T]:
        """The things one by one, with a look at the clock before every so many of them. Raises `OutOfTimeError`."""
        for place, thing in enumerate(things):
            if place % often == 0:
                self.look()
            yield thing

    def before(self, seconds: float) -> "Deadline":
        """A deadline that comes so many seconds earlier."""
        return Deadline(lambda: self.left() - seconds)

    def share(self, share: float) -> "Deadline":
        """A deadline after this share of the time that is left now."""
        left = self.left()
        return self if math.isinf(left) else self.before(max(0.0, left) * (1 - share))


NO_DEADLINE = Deadline()
"""For those who wait."""

DeadlineCheck = Callable[[], bool]
"""Whether the time is over. The solver has no clock of its own."""


def no_deadline_check() -> bool:
    """For those who wait."""
    return False
