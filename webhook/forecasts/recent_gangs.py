"""Caches all gangs of the cluster, because the forecast of one gang depends on the other gangs."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from gangs.incremental.reading_apart import read_apart
from gangs.model import Reading
from planning.framing.running_gangs import RunningGang, RunningGangs, running_gangs
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle
from webhook.forecasts.slots import BusyError
from webhook.picture import Picture

CHEAP_SECONDS = 0.1
"""If reading all gangs takes less processor time than this, the result is not cached: every call reads them again."""
REST = DutyCycle(rest=10)
"""How long the gangs stay cached if reading them takes longer than `CHEAP_SECONDS`: ten times as long as the read.

So reads use at most a tenth of a processor.
"""


class Known(NamedTuple):
    """All gangs of the cluster as read at one instant (`reading`), and the gang of each running pod (`running`)."""

    reading: Reading
    running: RunningGangs


class RunningGangsOnDemand(Mapping[str, RunningGang]):
    """The gang of each running pod (`RunningGangs`), from a function that is called at each look-up.

    So a forecast reads all gangs of the cluster only if its plan depends on them. A plan looks up the gangs of pods
    that may be evicted, which have a lower priority. It also looks up the gangs of pods that it names in the reason for
    a rejection.

    :param read: returns the gangs of all running pods, and is fast after its first call.
    """

    def __init__(self, read: Callable[[], RunningGangs]) -> None:
        self._read = read

    def __getitem__(self, pod: str) -> RunningGang:
        """Return the gang of a running pod, which is given as `namespace/name`."""
        return self._read()[pod]

    def __iter__(self) -> Iterator[str]:
        """Iterate over all running pods of gangs, as `namespace/name`."""
        return iter(self._read())

    def __len__(self) -> int:
        """Return the number of running pods of gangs."""
        return len(self._read())


class RecentGangs:
    """A cache of all gangs in the cluster. The longer a read takes, the longer it is reused (`REST`).

    Safe to share between threads.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reading")
        self._lock = threading.Lock()
        self._known = Known(Reading(), {})
        self._coming: Future[Known] | None = None
        """The read in progress; None if none is. Calls that arrive meanwhile wait for it."""
        self._until = -1.0

    def of(self, picture: Picture, seconds: float) -> Known:
        """Return the gangs of the cluster. Their age is at most ten times the processor time that reading them takes.

        :param seconds: how long to wait for a read. A read that takes longer goes on, and later calls use its result.
        :raises BusyError: the gangs could not be read in time.
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
