"""Idle solver processes that wait for a caller. If several are idle for `IDLE_SECONDS`, all but one are ended.

A second worker is needed if two callers solve at the same time, such as a dry run during a reconcile. An idle worker
holds about 60 MB, and starting a new one takes about a second.
"""

import threading
from dataclasses import dataclass

from planning.solver_pool.process import Worker
from timing.clock import SYSTEM_CLOCK, Clock

IDLE_SECONDS = 60.0
"""How long a worker stays idle beside another idle worker before it is ended."""


@dataclass(frozen=True, slots=True)
class _Idle:
    worker: Worker
    since: float


class IdleWorkers:
    """A thread-safe stack of idle solver processes.

    The worker that was put back last is taken first. So the others stay idle, and are ended unless callers need them.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._waiting: list[_Idle] = []
        self._timer: threading.Timer | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Worker | None:
        """Return an idle worker whose process runs; None if there is none. The caller must close it or put it back."""
        with self._lock:
            while self._waiting:
                worker = self._waiting.pop().worker
                if worker.process.poll() is None:
                    return worker
                worker.close()
        return None

    def put(self, worker: Worker) -> None:
        """Keep the worker for the next caller. A worker is ended later if other workers are idle, too."""
        with self._lock:
            self._waiting.append(_Idle(worker, self._clock.monotonic()))
            self._look_again()

    def close(self) -> None:
        """End all idle workers."""
        with self._lock:
            ended, self._waiting = self._waiting, []
            self._stop_looking()
        for each in ended:
            each.worker.close()

    def _end_the_unneeded(self) -> None:
        with self._lock:
            self._stop_looking()
            enough = self._clock.monotonic() - self._idle_seconds
            ended = [each for each in self._waiting[:-1] if each.since <= enough]
            self._waiting = self._waiting[len(ended) :]
            self._look_again()
        for each in ended:
            each.worker.close()

    def _look_again(self) -> None:
        """Start the timer that ends the worker which has been idle longest (the first in the list), if several are
        idle.
        """
        if self._timer is None and len(self._waiting) > 1:
            wait = self._waiting[0].since + self._idle_seconds - self._clock.monotonic()
            self._timer = threading.Timer(max(0.0, wait), self._end_the_unneeded)
            self._timer.daemon = True
            self._timer.start()

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
