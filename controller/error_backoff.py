"""Back-off after internal errors at one gang. The gang is skipped until its back-off ends. No other gang is stopped.

Errors that concern all gangs are raised: a term that is over, or an API server that cannot be reached.
"""

import logging
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeVar

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE
from controller.gang_status import Phase
from controller.leadership.election import LeadershipLostError
from controller.reconcile_state import Effects, ReconcileState
from controller.telemetry.metrics import Metrics
from controller.writes.writer import Writer, Written, gang_path
from gangs.model import GangKey, Manifest
from timing.backoff import Backoff
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

FAILED = "could not be handled: an error of Phalanx itself, told in the controller's log; it is tried again"

RETRIES = Backoff(first=0.5, longest=30.0)
"""The back-off, in seconds, of a gang after an internal error.

The first pause is shorter than a user notices. The longest one still tries a gang twice a minute.
"""
_ERRORS_OF_ALL_GANGS = (LeadershipLostError, ApiException, *UNREACHABLE)
"""Errors that are raised, because they concern all gangs."""

_T = TypeVar("_T")


class Activity(Enum):
    """The activity that failed with an internal error at a gang: computing its step, carrying it out, or reporting it.

    The name in lower case is a label value of `phalanx_gang_errors_total`. The value is the text in the log.
    """

    LOOKING = "what is due for it cannot be told"
    ACTING = "what is due for it cannot be done"
    TELLING = "how it stands cannot be told"


class _Error(NamedTuple):
    """The last internal error at a gang: times in a row, the time of the next try (monotonic seconds), and the text."""

    times: int
    again: float
    error: str


class ErrorBackoff:
    """The gangs with internal errors of Phalanx, and when the failed activity of each is tried again.

    The reconcile loop and the write threads call it, without a lock. The loop waits for the threads, so no two threads
    handle the same activity of one gang at once.
    """

    def __init__(self, writer: Writer, metrics: Metrics, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._metrics = metrics
        self._errors: dict[tuple[GangKey, Activity], _Error] = {}

    def run_steps(
        self, gang_states: Iterable[ReconcileState], step: Callable[[ReconcileState], Effects]
    ) -> dict[GangKey, Effects]:
        """Run `step` for every gang that had no internal error in this reconcile. Return the effects by gang."""
        able = ((each.gang.key, each) for each in gang_states if not each.failed)
        return {key: self.run_step(key, partial(step, gang_state)) for key, gang_state in able}

    def run_step(self, key: GangKey, step: Callable[[], Effects]) -> Effects:
        """Return the effects of a step for a gang. If the step raises, the only effect is the error message."""
        return self.run(key, Activity.ACTING, step) or Effects(failed=self.message(key, Activity.ACTING))

    def run(self, key: GangKey, activity: Activity, call: Callable[[], _T]) -> _T | None:
        """Return the result of `call` for a gang. If `call` raises, start the gang's back-off, log it and return None.

        Errors that concern all gangs, such as an unreachable API server, are raised.
        """
        try:
            return call()
        except _ERRORS_OF_ALL_GANGS:
            raise
        except Exception as error:
            last, text = self._errors.get((key, activity)), f"{type(error).__name__}: {error}"
            times = last.times + 1 if last is not None else 1
            self._errors[key, activity] = _Error(times, self._clock.monotonic() + RETRIES.delay(times), text)
            self._metrics.gang_errors.labels(activity.name.lower()).inc()
            if last is None or last.error != text:
                LOG.exception("gang %s: %s", key, activity.value)
            return None

    def message(self, key: GangKey, activity: Activity) -> str:
        """Return the error message for a gang while it backs off after this activity failed; else ""."""
        last = self._errors.get((key, activity))
        return FAILED if last is not None and self._clock.monotonic() < last.again else ""

    def any_at(self, key: GangKey) -> bool:
        """Return whether some activity at the gang has failed and has not succeeded since then."""
        return bool(self._errors) and any((key, activity) in self._errors for activity in Activity)

    def succeeded(self, key: GangKey) -> None:
        """Forget the gang's errors whose back-off is over. Called after a reconcile of the gang without an error."""
        for activity in Activity if self._errors else ():
            if not self.message(key, activity):
                self._errors.pop((key, activity), None)

    def forget(self, key: GangKey) -> None:
        """Drop the back-off of a gang that no longer exists."""
        for activity in Activity:
            self._errors.pop((key, activity), None)

    def report(self, activity: Activity, shown: Iterable[tuple[GangKey, Manifest]], most: int) -> None:
        """Write the error message to the status of Gang objects at which this activity fails.

        The other fields of the status stay. If the write fails, too, the error is in the log only.

        :param shown: the gangs at which the activity fails, each with its Gang object as last read.
        :param most: the most Gang objects that are written in one call.
        """
        lacking = [(key, manifest) for key, manifest in shown if _lacks_message(manifest)]
        self._writer.each(
            partial(self.run, key, activity, partial(self._report, manifest)) for key, manifest in lacking[:most]
        )

    def _report(self, manifest: Manifest) -> Written:
        meta, phase = manifest["metadata"], (manifest.get("status") or {}).get("phase", Phase.WAITING.value)
        path = f"{gang_path(meta['namespace'], meta['name'])}/status"
        return self._writer.merge(path, {"status": {"phase": phase, "message": FAILED}}, manifest)


def _lacks_message(manifest: Manifest) -> bool:
    """Return whether this is an existing Gang object whose status does not show the error message yet."""
    return bool(manifest["metadata"].get("uid")) and (manifest.get("status") or {}).get("message") != FAILED
