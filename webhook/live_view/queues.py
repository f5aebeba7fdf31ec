"""The queues of the cluster as JSON, `/v1/queues`: the report of `phalanx queue`, computed once for all callers."""

import threading
from collections.abc import Callable

import msgspec

from planning.queue_report import as_data, queue_reports
from planning.quota.start_estimates import expected_ends_of
from timing.clock import SYSTEM_CLOCK, Clock
from webhook.following import Observation

KEPT_SECONDS = 2.0
"""Seconds for which all callers get the same report, so that the work does not grow with the number of open pages."""
PATIENCE_SECONDS = 5.0
"""The most seconds to wait for the first observation of the cluster. At 15,000 nodes it takes about a second."""


class QueueAnswers:
    """Answers `/v1/queues`, with one report for all callers. Safe to share between threads."""

    def __init__(self, latest: Callable[[float], Observation | None], *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Start without a report.

        :param latest: returns the last observation of the cluster; None if there is none within the given seconds.
        """
        self._latest = latest
        self._clock = clock
        self._lock = threading.Lock()
        self._encoded = b""
        self._until = 0.0

    def answer(self) -> bytes | None:
        """Return the reports on all queues as JSON, at most `KEPT_SECONDS` old. None if the cluster was not read in
        time.
        """
        with self._lock:
            if self._encoded and self._clock.monotonic() < self._until:
                return self._encoded
            look = self._latest(PATIENCE_SECONDS)
            if look is None:
                return None
            charged, now = [gang for gang in look.gangs if gang.account is not None], self._clock.wall()
            expected = expected_ends_of(charged, look.sources, now)
            reports = queue_reports(look.gangs, look.snapshot, expected, now)
            self._encoded = msgspec.json.encode({"queues": [as_data(each) for each in reports]})
            self._until = self._clock.monotonic() + KEPT_SECONDS
            return self._encoded
