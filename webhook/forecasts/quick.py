"""The plan that a gang would get once an arriving pod is there, if it is known within 10 ms.

Nothing waits for it longer and nothing piles up: one solve at a time, in the background; who comes while it runs goes
without. An answer that comes too late is kept, and told at the next CREATE that asks the same of the same cluster.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from gangs.model import Gang, GangKey
from planning.messages.wording import listed
from planning.planner import missing_members
from timing.clock import SYSTEM_CLOCK, Clock
from timing.duty_cycle import DutyCycle
from webhook.forecasts.forecasting import messages_for
from webhook.forecasts.recent_gangs import RecentGangs
from webhook.forecasts.slots import BusyError, SolveSlot
from webhook.metrics import Metrics
from webhook.picture import Picture

BUDGET_SECONDS = 0.01
"""What telling the plan may add to the CREATE of a pod."""
SOLVE_SECONDS = 0.5
"""What a solve may take that nobody waits for: the next CREATE may be glad of it."""
KEPT = 64
"""Answers that are remembered."""
REST = DutyCycle(rest=9)
"""Between two readings of all members of one gang.

Without it, a gang of 500 that has its minimum would be read for each pod beyond it, and the time for that would grow
with the square of its size.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was told, the request and the cluster that it was told about."""

    request: object
    version: str
    messages: tuple[str, ...]


class QuickForecasts:
    """Tells of arriving pods what becomes of their gangs. Safe to share between threads."""

    def __init__(self, slot: SolveSlot, metrics: Metrics, others: RecentGangs, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._slot = slot
        self._others = others
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="forecast")
        self._idle = threading.Lock()
        self._answers: OrderedDict[GangKey, _Answer] = OrderedDict()
        self._rests: dict[GangKey, float] = {}
        """Until when nobody looks at all members of a gang, for those that were looked at lately: a handful."""

    def messages(self, gang: Gang, picture: Picture, all_members: Callable[[], Gang] | None = None) -> tuple[str, ...]:
        """Sentences about the gang, the arriving pod among its members; none where that takes too long.

        :param all_members: the same gang, where in `gang` one member may stand for others that are like it.
        """
        deadline = self._clock.monotonic() + BUDGET_SECONDS
        if missing := missing_members(gang):
            return self._counted("waiting", (f"gang {gang.key}: waits for {listed(missing)}",))
        if gang.waiting_for:
            return ()  # the review of the pod has said so
        in_full = gang if all_members is None else self._in_full(gang.key, all_members)
        return self._counted("busy", ()) if in_full is None else self._counted(*self._found(in_full, picture, deadline))

    def _found(self, gang: Gang, picture: Picture, deadline: float) -> tuple[str, tuple[str, ...]]:
        """What came of asking for a plan, and the sentences."""
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
        """With all of its members; None: that was looked at just now."""
        began = self._clock.monotonic()
        if self._rests.get(key, 0.0) > began:
            return None
        gang = all_members()
        now = self._clock.monotonic()
        resting = {each: end for each, end in self._rests.items() if end > now}
        self._rests = resting | {key: now + REST.pause(now - began)}
        return gang

    def _solve(self, gang: Gang, picture: Picture) -> tuple[str, tuple[str, ...]]:
        """What came of it, and the sentences."""
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
            if gang.account is None:  # what is left of a queue's quota changes without a change of the snapshot
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
    """What is asked for. A pod that is not stored yet has no uid, so members are told apart by their names."""
    members = tuple((m.pod.key, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members
