"""Limits the webhook to one solve at a time, with a short queue, so that solves leave processor time to admission."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from timing.clock import SYSTEM_CLOCK, Clock

MOST_KNOWN = 256
"""The most callers whose last solve is recorded."""


class BusyError(Exception):
    """The solver is not free for this request: too many requests wait already, or its waiting time is over."""


class SolveSlot:
    """A mutex for solves with a bounded, fair queue.

    At most `waiting` requests wait, and at most `most_each` requests of one caller are solved or wait. The next request
    comes from the waiting caller whose last solve was longest ago, so one caller with many requests cannot keep the
    others out.
    """

    def __init__(self, waiting: int = 4, most_each: int = 2, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._most, self._most_each = waiting + 1, most_each
        self._changed = threading.Condition()
        self._running = False
        self._queue: list[str] = []
        """The callers of the waiting requests, in the order of arrival."""
        self._of_each: Counter[str] = Counter()
        self._last: OrderedDict[str, int] = OrderedDict()
        """By caller: the number of its last solve. All solves are numbered in one sequence."""
        self._solves = 0

    @contextmanager
    def taken(self, seconds: float, who: str = "") -> Iterator[float]:
        """Wait for the slot and hold it during the `with` block. Yield how many of the `seconds` are left after the
        wait.

        :param seconds: the time limit of the wait and the solve together.
        :param who: an identifier of the caller. "" is admission, to which `most_each` does not apply.
        :raises BusyError: too many requests wait, or the slot is not free within `seconds`.
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
