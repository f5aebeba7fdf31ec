"""When the next round begins (docs/decisions/0025): at once for what somebody waits for, together for all else."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from controller.urgency import Urgencies, Urgency

IDLE_SECONDS = 0.5
"""A round is due this long after the last one though nothing changed, where pauses or timeouts may have ended."""
AT_ONCE_SECONDS = 0.005
"""Changes come in bursts, by several watches: even what is urgent waits for so long for what comes with it."""
SETTLE_SECONDS = 0.02
"""The shortest pause before a round for which nobody waits, and the longest."""
LONGEST_SETTLE = 0.2
GATHER_SECONDS = 0.5
"""The shortest pause before a round for what may wait, and the longest."""
LONGEST_GATHER = 1.0
_SHARE = 3
"""Rounds for what may wait leave so many times the processor's time that they take themselves to others."""
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


class Pace:
    """Waits for the next round. `answered`: whether a plan was found that no round has taken up."""

    def __init__(
        self, cache: ClusterCache, journal: Journal, urgencies: Urgencies, answered: Callable[[], bool]
    ) -> None:
        self._cache = cache
        self._journal = journal
        self._urgencies = urgencies
        self._answered = answered

    def wait(self, last: Due, lost: threading.Event) -> None:
        """Return when a round is due, or leadership is lost."""
        pauses, version = _pauses(last.spent), last.version
        due = min(last.at, monotonic() + IDLE_SECONDS) if last.unfinished else last.at
        if last.hurried:
            due = monotonic() + pauses[Urgency.SOON]
        while not lost.is_set() and not self._answered() and (left := due - monotonic()) > 0:
            if self._cache.wait_for_change(version, min(left, IDLE_SECONDS)) == version:
                continue
            with self._cache.still():
                version, news = self._cache.version(), self._journal.news()
            urgency = self._urgencies.of(news)
            if urgency is not Urgency.NEVER:
                due = min(due, monotonic() + pauses[urgency])
            lost.wait(min(_TICK_SECONDS, max(0.0, due - monotonic())))


def _pauses(spent: float) -> Mapping[Urgency, float]:
    return {
        Urgency.NOW: AT_ONCE_SECONDS,
        Urgency.SOON: min(max(SETTLE_SECONDS, spent), LONGEST_SETTLE),
        Urgency.LATER: min(max(GATHER_SECONDS, _SHARE * spent), LONGEST_GATHER),
    }
