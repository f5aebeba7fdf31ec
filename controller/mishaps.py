"""Errors of ours that show at one gang: they are told on it, it is left alone for a moment, and no other is stopped.

What concerns everybody goes through: a term that is over, an API server that cannot be reached.
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
"""When a gang is tried again at which an error of ours has shown."""
_OF_EVERYBODY = (LeadershipLostError, ApiException, *UNREACHABLE)

_T = TypeVar("_T")


class Doing(Enum):
    """What fails at a gang."""

    LOOKING = "what is due for it cannot be told"
    ACTING = "what is due for it cannot be done"
    TELLING = "how it stands cannot be told"


class _Mishap(NamedTuple):
    """What failed last at a gang: how often in a row, until when (monotonic seconds) it is not tried again, and how."""

    times: int
    again: float
    error: str


class Mishaps:
    """Which gangs have met an error of ours. To be used by the rounds, and by the writes that they wait for."""

    def __init__(self, writer: Writer, metrics: Metrics, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._metrics = metrics
        self._known: dict[tuple[GangKey, Doing], _Mishap] = {}

    def tried(self, gang_round: GangRound, doing: Doing, call: Callable[[], _T]) -> _T | None:
        """What the call for a gang answers; None where it fails: then the gang is left alone, and says so."""
        key = gang_round.gang.key
        found = self.looked(key, doing, call)
        gang_round.failed = gang_round.failed or self.pausing(key, doing)
        return found

    def looked(self, key: GangKey, doing: Doing, call: Callable[[], _T]) -> _T | None:
        """The same for a gang that has no round yet."""
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
        """What is said of a gang at which this has failed a moment ago, so that it is not tried; "" for any other."""
        known = self._known.get((key, doing))
        return FAILED if known is not None and self._clock.monotonic() < known.again else ""

    def any_at(self, key: GangKey) -> bool:
        """Whether something has failed at the gang since it was last carried through a round."""
        return bool(self._known) and any((key, doing) in self._known for doing in Doing)

    def carried(self, key: GangKey) -> None:
        """The gang was carried through a round: what was to be tried again has been."""
        for doing in Doing if self._known else ():
            if not self.pausing(key, doing):
                self._known.pop((key, doing), None)

    def forget(self, key: GangKey) -> None:
        """The gang is no more."""
        for doing in Doing:
            self._known.pop((key, doing), None)

    def say(self, doing: Doing, shown: Iterable[tuple[GangKey, Manifest]], most: int) -> None:
        """Write on the Gang objects of gangs at which this fails that nothing else can be said of them, for `most` at a
        time; their last status stays beside that. Where that fails, too, it stands in the log alone.
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
