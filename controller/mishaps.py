"""Internal errors at one gang: they are reported on the gang, which is skipped for a moment. No other gang is stopped.

Errors that concern all gangs are raised: a term that is over, or an API server that cannot be reached.
"""

import logging
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeVar

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE
from controller.gang_round import GangRound
from controller.gang_status import Phase
from controller.leadership.election import LeadershipLostError
from controller.telemetry.metrics import Metrics
from controller.writes.writer import Writer, Written, gang_path
from gangs.model import GangKey, Manifest
from timing.backoff import Backoff
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

FAILED = "could not be handled: an error of Phalanx itself, told in the controller's log; it is tried again"

RETRIES = Backoff(first=0.5, longest=30.0)
"""The back-off, in seconds, of a gang after an internal error."""
_OF_EVERYBODY = (LeadershipLostError, ApiException, *UNREACHABLE)

_T = TypeVar("_T")


class Doing(Enum):
    """The activity that fails at a gang."""

    LOOKING = "what is due for it cannot be told"
    ACTING = "what is due for it cannot be done"
    TELLING = "how it stands cannot be told"


class _Mishap(NamedTuple):
    """The last internal error at a gang: times in a row, the time of the next try (monotonic seconds), and the text."""

    times: int
    again: float
    error: str


class Mishaps:
    """The gangs with internal errors. Reconciles use it, and the writes for which they wait."""

    def __init__(self, writer: Writer, metrics: Metrics, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._metrics = metrics
        self._known: dict[tuple[GangKey, Doing], _Mishap] = {}

    def tried(self, gang_round: GangRound, doing: Doing, call: Callable[[], _T]) -> _T | None:
        """Return the result of the call for a gang. If it fails, return None and set the gang's `failed` message."""
        key = gang_round.gang.key
        found = self.looked(key, doing, call)
        gang_round.failed = gang_round.failed or self.pausing(key, doing)
        return found

    def looked(self, key: GangKey, doing: Doing, call: Callable[[], _T]) -> _T | None:
        """Return the result of the call for a gang without a `GangRound`. If it fails, record it and return None."""
        try:
            return call()
        except _OF_EVERYBODY:
            raise
        except Exception as error:
            known, text = self._known.get((key, doing)), f"{type(error).__name__}: {error}"
            times = known.times + 1 if known is not None else 1
            self._known[key, doing] = _Mishap(times, self._clock.monotonic() + RETRIES.delay(times), text)
            self._metrics.gang_errors.labels(doing.name.lower()).inc()
            if known is None or known.error != text:
                LOG.exception("gang %s: %s", key, doing.value)
            return None

    def pausing(self, key: GangKey, doing: Doing) -> str:
        """Return the message for a gang whose back-off after this error is not over; "" for any other gang."""
        known = self._known.get((key, doing))
        return FAILED if known is not None and self._clock.monotonic() < known.again else ""

    def any_at(self, key: GangKey) -> bool:
        """Return whether an activity has failed at the gang since its last reconcile without an error."""
        return bool(self._known) and any((key, doing) in self._known for doing in Doing)

    def carried(self, key: GangKey) -> None:
        """Forget errors whose back-off is over, after a reconcile of the gang without an error."""
        for doing in Doing if self._known else ():
            if not self.pausing(key, doing):
                self._known.pop((key, doing), None)

    def forget(self, key: GangKey) -> None:
        """Forget a gang that no longer exists."""
        for doing in Doing:
            self._known.pop((key, doing), None)

    def say(self, doing: Doing, shown: Iterable[tuple[GangKey, Manifest]], most: int) -> None:
        """Write the error message to the Gang objects of gangs at which this activity fails.

        The other fields of their status stay. If the write fails, too, the error is in the log only.

        :param most: the most Gang objects that are written in one call.
        """
        saying = [(key, manifest) for key, manifest in shown if manifest["metadata"].get("uid") and _silent(manifest)]
        self._writer.each(
            partial(self.looked, key, doing, partial(self._say, manifest)) for key, manifest in saying[:most]
        )

    def _say(self, manifest: Manifest) -> Written:
        meta, phase = manifest["metadata"], (manifest.get("status") or {}).get("phase", Phase.WAITING.value)
        path = f"{gang_path(meta['namespace'], meta['name'])}/status"
        return self._writer.merge(path, {"status": {"phase": phase, "message": FAILED}}, manifest)


def _silent(manifest: Manifest) -> bool:
    return bool((manifest.get("status") or {}).get("message") != FAILED)
