"""One solve at a time, and a short queue before it: the solver may use a whole core, and so may admission."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from timing.clock import SYSTEM_CLOCK, Clock

MOST_KNOWN = 256
"""Callers of whom it is remembered when they solved last."""


class BusyError(Exception):
    """Too many wait already, or the time to wait is over."""


class SolveSlot:
    """Lets one caller solve at a time; at most `waiting` others wait for it, with `most_each` requests each at most.

    Of those who wait, whoever has solved longest ago is next: nobody has it all because he asks again and again.
    """

    def __init__(self, waiting: int = 4, most_each: int = 2, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._most, self._most_each = waiting + 1, most_each
        self._changed = threading.Condition()
        self._running = False
        self._queue: list[str] = []
        """Who waits, in the order of coming."""
        self._of_each: Counter[str] = Counter()
        self._last: OrderedDict[str, int] = OrderedDict()
        """Callers by when they solved last, counted in solves."""
        self._solves = 0

    @contextmanager
    def taken(self, seconds: float, who: str = "") -> Iterator[float]:
        """Hold the slot; gives what is left of `seconds` after waiting. Raises BusyError.

        :param who: asks; "": admission does, which is one of those who take turns, without a limit of its own.
        """
        started = self._clock.monotonic()
        self._enter(who)
        try:
            self._wait(who, max(seconds, 0.0))
            try:
                yield max(seconds - (self._clock.monotonic() - started), 0)
            finally:
                self._leave(who)
        finally:
            with self._changed:
                self._of_each[who] -= 1
                self._of_each += Counter()

    def _enter(self, who: str) -> None:
        with self._changed:
            if self._of_each.total() >= self._most:
                raise BusyError("too many requests wait for the solver")
            if who and self._of_each[who] >= self._most_each:
                raise BusyError(f"{self._most_each} of your requests are being solved or wait for it")
            self._of_each[who] += 1

    def _wait(self, who: str, seconds: float) -> None:
        with self._changed:
            self._queue.append(who)
            try:
                if not self._changed.wait_for(lambda: not self._running and self._next() == who, seconds):
                    raise BusyError("the solver was not free in time")
                self._running = True
            finally:
                self._queue.remove(who)
                self._changed.notify_all()

    def _next(self) -> str:
        return min(self._queue, key=lambda who: self._last.get(who, 0))

    def _leave(self, who: str) -> None:
        with self._changed:
            self._running = False
            self._solves += 1
            self._last[who] = self._solves
            self._last.move_to_end(who)
            if len(self._last) > MOST_KNOWN:
                self._last.popitem(last=False)
            self._changed.notify_all()
