"""When the next round begins (docs/decisions/0025): at once for what somebody waits for, together for all else."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from controller.urgency import Urgencies, Urgency
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle

IDLE_SECONDS = 0.5
"""A round is due this long after the last one though nothing changed, where pauses or timeouts may have ended."""
AT_ONCE_SECONDS = 0.005
"""Changes come in bursts, by several watches: even what is urgent waits for so long for what comes with it."""
SETTLE = DutyCycle(rest=1, shortest=0.02, longest=0.2)
"""The pause before a round for which no gang waits."""
GATHER = DutyCycle(rest=3, shortest=0.5, longest=1.0)
"""The pause before a round for changes that may wait: such rounds use a quarter of a processor at most."""
_TICK_SECONDS = 0.005
"""While changes come in, it is looked at them so often."""


@dataclass(slots=True)
class Due:
    """What the last round leaves: when the next one is due though nothing changes.

    `version`: the cache's, that the last round has seen. `at`: monotonic seconds. `hurried`: the last round has changed
    something from which another step follows. `spent`: seconds of the processor that it took.
    """

    version: int = -1
    at: float = float("inf")
    unfinished: bool = True
    hurried: bool = False
    spent: float = 0.0
    late: bool = False
    """Whether the cache did not show the writes of the round before: an answer of the planner starts no round then."""


class Pace:
    """Waits for the next round. `answered`: whether a plan was found that no round has taken up."""

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
        """Return when a round is due, or leadership is lost."""
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
        """Return when (monotonic seconds) the next round is due if nothing changes; infinity if none is."""
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
