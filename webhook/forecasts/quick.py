"""Makes the forecast for an arriving pod: the plan of its gang with this pod, if the plan is known within 10 ms.

No CREATE of a pod waits longer. One solve runs at a time, in the background, and a pod that arrives meanwhile gets no
forecast. A forecast that comes too late is cached, for the next CREATE of the same gang on the same cluster state.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from gangs.model import Gang, GangKey
from planning.message import listed
from planning.planner import missing_members
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle
from webhook.forecasts.forecasting import messages_for
from webhook.forecasts.recent_gangs import RecentGangs
from webhook.forecasts.slots import BusyError, SolveSlot
from webhook.metrics import Metrics
from webhook.picture import Picture

BUDGET_SECONDS = 0.01
"""The most time that a forecast may add to the CREATE of a pod."""
SOLVE_SECONDS = 0.5
"""The time limit of a solve in the background. It exceeds `BUDGET_SECONDS`: the next CREATE may use the result."""
KEPT = 64
"""The most cached forecasts, one for each gang."""
REST = DutyCycle(rest=9)
"""The pause between two reads of all members of one gang: nine times as long as the read takes.

Without the pause, a gang of 500 with its minimum present would be read again for each further pod. The total time
would grow with the square of the gang's size.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A cached forecast. It is reused only for a gang with an equal placement request (`request`) on the same snapshot
    (`version`).
    """

    request: object
    version: str
    messages: tuple[str, ...]


class QuickForecasts:
    """Makes forecasts for arriving pods, each within `BUDGET_SECONDS`. Safe to share between threads."""

    def __init__(self, slot: SolveSlot, metrics: Metrics, others: RecentGangs, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._slot = slot
        self._others = others
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="forecast")
        self._idle = threading.Lock()
        self._answers: OrderedDict[GangKey, _Answer] = OrderedDict()
        self._rests: dict[GangKey, float] = {}
        """By gang: the monotonic time until which its members are not read again. Only recently read gangs are kept."""

    def messages(self, gang: Gang, picture: Picture, all_members: Callable[[], Gang] | None = None) -> tuple[str, ...]:
        """Return the forecast of a gang that includes the arriving pod, as sentences; empty if it takes too long.

        :param all_members: returns the gang with its real members, because in `gang` one member may be repeated in
            place of equal members. None: `gang` has its real members.
        """
        deadline = self._clock.monotonic() + BUDGET_SECONDS
        if missing := missing_members(gang):
            return self._counted("waiting", (f"gang {gang.key}: waits for {listed(missing)}",))
        if gang.waiting_for:
            return ()  # the review of the pod already reports what it waits for
        in_full = gang if all_members is None else self._in_full(gang.key, all_members)
        return self._counted("busy", ()) if in_full is None else self._counted(*self._found(in_full, picture, deadline))

    def _found(self, gang: Gang, picture: Picture, deadline: float) -> tuple[str, tuple[str, ...]]:
        """Return how the forecast was found, as a label value of the metric, and the forecast.

        The label value is `remembered` (from the cache), `told` (solved now), `busy` (another solve runs), `late` (not
        solved by the deadline) or `failed`.

        :param deadline: the monotonic time until which the solve is waited for.
        """
        answer = self._answers.get(gang.key)
        if answer is not None and (answer.version, answer.request) == (picture.snapshot().version, _request(gang)):
            return "remembered", answer.messages
        if not self._idle.acquire(blocking=False):
            return "busy", ()
        solving = self._pool.submit(self._solve, gang, picture)
        try:
            return solving.result(max(0.0, deadline - self._clock.monotonic()))
        except TimeoutError:
            return "late", ()

    def _in_full(self, key: GangKey, all_members: Callable[[], Gang]) -> Gang | None:
        """Return the gang with its real members; None if the pause `REST` after their last read is not over."""
        began = self._clock.monotonic()
        if self._rests.get(key, 0.0) > began:
            return None
        gang = all_members()
        now = self._clock.monotonic()
        resting = {each: end for each, end in self._rests.items() if end > now}
        self._rests = resting | {key: now + REST.pause(now - began)}
        return gang

    def _solve(self, gang: Gang, picture: Picture) -> tuple[str, tuple[str, ...]]:
        """Plan the gang in the background thread. Return the label value for the metric (`told`, `busy` or `failed`)
        and the forecast.
        """
        try:
            with self._slot.taken(0.0):
                version = picture.snapshot().version
                messages = messages_for(gang, picture.sources_about(), self._others, picture, SOLVE_SECONDS)
        except BusyError:
            return "busy", ()
        except Exception:
            log.exception("no forecast for a pod of gang %s", gang.key)
            return "failed", ()
        else:
            if gang.account is None:  # a queue's remaining quota changes without a change of the snapshot
                self._keep(gang.key, _Answer(_request(gang), version, messages))
            return "told", messages
        finally:
            self._idle.release()

    def _keep(self, key: GangKey, answer: _Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def _counted(self, result: str, messages: tuple[str, ...]) -> tuple[str, ...]:
        self._metrics.forecasts.labels(result).inc()
        return messages


def _request(gang: Gang) -> object:
    """Return a value that is equal for gangs with equal forecasts on the same snapshot, as a key of the cache.

    A pod that is not stored yet has no UID, so members are identified by name.
    """
    members = tuple((m.pod.key, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members
