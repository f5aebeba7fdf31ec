"""When a solve must end. The solver has no clock of its own; the caller of a solve passes a clock in a `Deadline`.

Every step whose effort grows with nodes, members or victims checks the deadline as it goes. So a solve ends by itself
with its best plan, and no caller has to stop it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")
_OFTEN = 64
"""How many items `Deadline.iterate` yields between two checks of the clock."""


class OutOfTimeError(Exception):
    """The deadline has passed. Code that catches the error returns its best plan; without a plan, it reports an unknown
    result.
    """


def _for_ever() -> float:
    return math.inf


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a solve. `left`: a function that returns the seconds until this end; negative after it."""

    left: Callable[[], float] = _for_ever

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.left() <= 0

    def check(self) -> None:
        """Raise `OutOfTimeError` if the deadline has passed."""
        if self.left() <= 0:
            raise OutOfTimeError

    def iterate(self, items: Iterable[_T], every: int = _OFTEN) -> Iterator[_T]:
        """Yield the items. Before the first and then each `every`-th item, raise `OutOfTimeError` if time is over."""
        for place, item in enumerate(items):
            if place % every == 0:
                self.check()
            yield item

    def before(self, seconds: float) -> "Deadline":
        """Return a deadline that is `seconds` seconds earlier than this one."""
        return Deadline(lambda: self.left() - seconds)

    def share(self, share: float) -> "Deadline":
        """Return a deadline after the given share (0 to 1) of the remaining time. A deadline that never comes is
        returned unchanged.
        """
        left = self.left()
        return self if math.isinf(left) else self.before(max(0.0, left) * (1 - share))


NO_DEADLINE = Deadline()
"""A deadline that never comes."""

DeadlineCheck = Callable[[], bool]
"""A function that returns whether the caller's time is over. It takes the place of a clock."""


def no_deadline_check() -> bool:
    """Return False: a `DeadlineCheck` for solves without a deadline."""
    return False
