"""When a solve must end. The solver has no clock of its own; the caller of a solve gives it one.

Every step whose effort grows with nodes, members or victims checks the deadline as it goes. So a solve ends by itself
with its best plan, and no caller has to stop it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")
_OFTEN = 64
"""Steps of a loop between two checks of the clock."""


class OutOfTimeError(Exception):
    """The deadline has passed. A caller that has a plan returns the plan; otherwise the result is unknown."""


def _for_ever() -> float:
    return math.inf


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a solve. `left` returns the seconds until then."""

    left: Callable[[], float] = _for_ever

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.left() <= 0

    def check(self) -> None:
        """Raise `OutOfTimeError` if the deadline has passed."""
        if self.left() <= 0:
            raise OutOfTimeError

    def through(self, things: Iterable[_T], often: int = _OFTEN) -> Iterator[_T]:
        """Iterate over `things` with a check of the clock before every `often` of them. Raises `OutOfTimeError`."""
        for place, thing in enumerate(things):
            if place % often == 0:
                self.check()
            yield thing

    def before(self, seconds: float) -> "Deadline":
        """Return a deadline that comes so many seconds earlier."""
        return Deadline(lambda: self.left() - seconds)

    def share(self, share: float) -> "Deadline":
        """Return a deadline after this share of the time that is left now."""
        left = self.left()
        return self if math.isinf(left) else self.before(max(0.0, left) * (1 - share))


NO_DEADLINE = Deadline()
"""A deadline that never comes."""

DeadlineCheck = Callable[[], bool]
"""Whether the time is over. The solver has no clock of its own."""


def no_deadline_check() -> bool:
    """A check for solves without a deadline: the time is never over."""
    return False
