"""All gangs as they were read a moment ago, for forecasts: these look at one gang and need the others around it."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from gangs.incremental.reading_apart import read_apart
from gangs.model import Reading
from planning.framing.running_gangs import RunningGangs, running_gangs
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle
from webhook.forecasts.slots import BusyError
from webhook.picture import Picture

CHEAP_SECONDS = 0.1
"""A reading that costs less than this is made anew every time."""
REST = DutyCycle(rest=10)
"""How long a reading that costs more is kept: readings use a tenth of a processor at most."""


class Known(NamedTuple):
    """Every gang of the cluster, and whose gang each running pod is of."""

    reading: Reading
    running: RunningGangs


class RecentGangs:
    """Every gang of the cluster, read anew only as often as that is cheap. Safe to share between threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reading")
        self._lock = threading.Lock()
        self._known = Known(Reading(), {})
        self._coming: Future[Known] | None = None
        """A reading under way: whoever asks meanwhile waits for that one."""
        self._until = -1.0

    def of(self, picture: Picture, seconds: float) -> Known:
        """The gangs, at most ten times as old as it takes to read them.

        :param seconds: how long to wait for that; a reading that takes longer goes on, for who comes later.
        :raises BusyError: they could not be read in time.
        """
        with self._lock:
            if self._coming is None and self._clock.monotonic() > self._until:
                self._coming = self._pool.submit(self._read, picture)
            coming, known = self._coming, self._known
        if coming is None:
            return known
        try:
            return coming.result(max(0.0, seconds))
        except TimeoutError:
            raise BusyError("the gangs could not be read in time") from None

    def _read(self, picture: Picture) -> Known:
        before = self._clock.processor()
        try:
            reading = read_apart(picture.sources())
            known = Known(reading, running_gangs(reading))
        except BaseException:
            with self._lock:
                self._coming = None
            raise
        cost = self._clock.processor() - before
        with self._lock:
            self._known, self._coming = known, None
            self._until = self._clock.monotonic() + REST.pause(cost) if cost > CHEAP_SECONDS else -1.0
        return known
