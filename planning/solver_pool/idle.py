"""Workers that wait for a caller: of those that nobody has needed for a while, one stays.

A second one is needed where two callers ask at the same time, as a dry run does beside a round. It holds some 60 MB,
and a second of somebody's time brings it back.
"""

import threading
from dataclasses import dataclass

from planning.solver_pool.process import Worker
from timing.clock import SYSTEM_CLOCK, Clock

IDLE_SECONDS = 60.0
"""How long a worker waits beside another one before it is ended."""


@dataclass(frozen=True, slots=True)
class _Idle:
    worker: Worker
    since: float


class IdleWorkers:
    """The one that came last is given out first, so that the others are not needed unless there are callers for them.
    Safe for threads.
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
        """One that runs, if there is one. It is the caller's to end, or to put back."""
        with self._lock:
            while self._waiting:
                worker = self._waiting.pop().worker
                if worker.process.poll() is None:
                    return worker
                worker.close()
        return None

    def put(self, worker: Worker) -> None:
        """Keep one for the next caller."""
        with self._lock:
            self._waiting.append(_Idle(worker, self._clock.monotonic()))
            self._look_again()

    def close(self) -> None:
        """End all of them."""
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
        """The first is the one that has waited longest: the others lie above it."""
        if self._timer is None and len(self._waiting) > 1:
            wait = self._waiting[0].since + self._idle_seconds - self._clock.monotonic()
            self._timer = threading.Timer(max(0.0, wait), self._end_the_unneeded)
            self._timer.daemon = True
            self._timer.start()

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
