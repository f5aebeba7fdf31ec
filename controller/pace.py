"""When the next reconcile begins (docs/decisions/0025): at once for changes that a gang waits for, else in batches."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from controller.urgency import Urgencies, Urgency
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle

IDLE_SECONDS = 0.5
"""Seconds after which a reconcile is due without a change, if pauses or timeouts may have ended."""
AT_ONCE_SECONDS = 0.005
"""Seconds by which a reconcile for an urgent change is delayed, because changes come in bursts, by several watches."""
SETTLE = DutyCycle(rest=1, shortest=0.02, longest=0.2)
"""The pause before a reconcile for changes of urgency SOON, from the processor time of the last reconcile."""
GATHER = DutyCycle(rest=3, shortest=0.5, longest=1.0)
"""The pause before a reconcile for changes of urgency LATER. Such reconciles use at most a quarter of a processor."""
_TICK_SECONDS = 0.005
"""Seconds between two checks of the changes while changes arrive."""


@dataclass(slots=True)
class Due:
    """When the next reconcile is due if the cluster does not change. The last reconcile computes it.

    `version`: the cache version that the last reconcile read. `at`: the due time in monotonic seconds.
    `unfinished`: whether a pause or timeout may end before `at`, so that a reconcile is due every `IDLE_SECONDS`.
    `hurried`: whether a write of the last reconcile makes another step due soon. `spent`: the processor time of the
    last reconcile, in seconds.
    """

    version: int = -1
    at: float = float("inf")
    unfinished: bool = True
    hurried: bool = False
    spent: float = 0.0
    late: bool = False
    """Whether the cache does not show the last reconcile's writes yet. Then a planning result starts no reconcile."""


class Pace:
    """Waits until the next reconcile is due, from the urgency of the changes and the load of the last reconcile.

    `answered`: returns whether there is a planning result that no reconcile has read.
    """

    def __init__(
        self,
        cache: ClusterCache,
        journal: Journal,
        urgencies: Urgencies,
        answered: Callable[[], bool],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._journal = journal
        self._urgencies = urgencies
        self._answered = answered

    def wait(self, last: Due, lost: threading.Event) -> None:
        """Block until the next reconcile is due, or leadership is lost."""
        pauses, version, due = _pauses(last.spent), last.version, self.due(last)
        while not lost.is_set() and (last.late or not self._answered()) and (left := due - self._clock.monotonic()) > 0:
            if self._cache.wait_for_change(version, min(left, IDLE_SECONDS)) == version:
                continue
            with self._cache.still():
                version, news = self._cache.version(), self._journal.news()
            urgency = self._urgencies.of(news)
            if urgency is not Urgency.NEVER:
                due = min(due, self._clock.monotonic() + pauses[urgency])
            self._clock.wait(lost, min(_TICK_SECONDS, max(0.0, due - self._clock.monotonic())))

    def due(self, last: Due) -> float:
        """Return the time at which a reconcile is due if nothing changes, in monotonic seconds; infinity if none is."""
        now = self._clock.monotonic()
        if last.hurried:
            return now + _pauses(last.spent)[Urgency.SOON]
        return min(last.at, now + IDLE_SECONDS) if last.unfinished else last.at


def _pauses(spent: float) -> Mapping[Urgency, float]:
    return {
        Urgency.NOW: AT_ONCE_SECONDS,
        Urgency.SOON: SETTLE.pause(spent),
        Urgency.LATER: GATHER.pause(spent),
    }
