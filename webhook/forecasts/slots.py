"""One solve at a time, and a short queue before it: the solver may use a whole core, and so may admission."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class BusyError(Exception):
    """Too many wait already, or the time to wait is over."""


class SolveSlot:
    """Lets one caller solve at a time; at most `waiting` others wait for it."""

    def __init__(self, waiting: int = 4) -> None:
        self._places = threading.BoundedSemaphore(waiting + 1)
        self._running = threading.Lock()

    @contextmanager
    def taken(self, seconds: float) -> Iterator[float]:
        """Hold the slot; gives what is left of `seconds` after waiting. Raises BusyError."""
        if not self._places.acquire(blocking=False):
            raise BusyError("too many requests wait for the solver")
        started = time.monotonic()
        try:
            if not self._running.acquire(timeout=max(seconds, 0)):
                raise BusyError("the solver was not free in time")
            try:
                yield max(seconds - (time.monotonic() - started), 0)
            finally:
                self._running.release()
        finally:
            self._places.release()
