"""The infeasible queue: gangs above the capacity bound. They are planned in idle lanes, to explain their rejection.

kube-scheduler's counterpart is the queue of unschedulable pods.
"""

from collections.abc import Collection, Iterable

from controller.scheduling.planning_requests import PlanningRequest
from controller.scheduling.queued_gang import QueuedGang
from controller.scheduling.shares import Shares
from gangs.model import GangKey
from timing.duty_cycle import DutyCycle

BATCH = 2_148
"""The most total cost of the gangs in one planning request of the slow lane.

It admits one gang of the maximum size, or some twenty small gangs. In the fast lane a request holds one gang only,
because a gang that may fit can arrive at any time.
"""
_FIXED_COST = 100
"""The fixed planning cost of a gang, in members: planning a gang costs this plus the number of its members."""
OVERDUE_SECONDS = 5.0
"""If the lanes are never idle, infeasible gangs are planned in the slow lane after waiting this long beyond their due
time.
"""
_REST = DutyCycle(rest=2)
"""The pause after a planning request of the infeasible queue: twice its planning time. It limits processor time."""
_REST_BEFORE_RENEWAL = DutyCycle(rest=19)
"""The pause before the next replanning of gangs that have a cached rejection: 19 times the time of the last one.

Replanning only renews the figures in the rejection, so it may use a twentieth of a core.
"""


class InfeasibleQueue:
    """Decides which infeasible gangs are planned next, by round-robin share of the namespaces, and when.

    At most one planning request of this queue runs at a time. The caller passes the gangs in each call.
    """

    def __init__(self) -> None:
        self._shares = Shares()
        self._planning_request: PlanningRequest | None = None
        self._since, self._renewing = 0.0, False
        self._again: float | None = None
        """The time at which the next planning request is due. None until the due time is first read."""
        self._anew = 0.0
        """The time from which a gang that already has a result may be replanned."""

    def ready(self, gangs: Collection[QueuedGang], at: float) -> Collection[QueuedGang]:
        """Return the gangs that an idle lane may plan now.

        Empty until the last request of this queue is answered and the pause after it is over. The pause is longer for
        gangs that already have a cached rejection.

        :param at: the present time, in monotonic seconds.
        """
        if self._planning_request is not None or at < self._next(at):
            return ()
        return gangs if at >= self._anew else [queued for queued in gangs if queued.rejection is None]

    def next_due(self, gangs: Collection[QueuedGang], at: float) -> float:
        """Return the time at which the next of these gangs may be planned, in monotonic seconds.

        Infinity if there are none, or while a request of this queue is being planned.

        :param at: the present time, in monotonic seconds.
        """
        if self._planning_request is not None or not gangs:
            return float("inf")
        has_new = any(queued.rejection is None for queued in gangs)
        return self._next(at) if has_new else max(self._next(at), self._anew)

    def overdue(self, at: float) -> bool:
        """Return whether the gangs have been due for `OVERDUE_SECONDS`, so that even the slow lane plans them.

        :param at: the present time, in monotonic seconds.
        """
        return at >= self._next(at) + OVERDUE_SECONDS

    def _next(self, at: float) -> float:
        if self._again is None:
            self._again = at
        return self._again

    def next_ones(self, gangs: Iterable[QueuedGang], *, in_fast_lane: bool) -> list[GangKey]:
        """Return which of these gangs to plan next, by round-robin share of the namespaces.

        Within a namespace, gangs that were never planned come first, then the gang that was planned longest ago.

        :param in_fast_lane: return one gang only. Otherwise return gangs up to a total cost of `BATCH`.
        """
        by_key = {queued.key: queued for queued in sorted(gangs, key=lambda queued: queued.planned_at)}
        return self._shares.next_ones(
            by_key, lambda key: _FIXED_COST + len(by_key[key].gang.members), 1 if in_fast_lane else BATCH
        )

    def sent(self, planning_request: PlanningRequest, gangs: Collection[QueuedGang], at: float) -> None:
        """Record that this request of the infeasible queue is being planned, with these gangs, since the time `at`."""
        self._planning_request, self._since = planning_request, at
        self._renewing = any(queued.rejection is not None for queued in gangs)
        for queued in gangs:
            queued.planned_at = at

    def holds(self, planning_request: PlanningRequest | None) -> bool:
        """Return whether this planning request is the one that this queue has sent and that is not answered yet."""
        return planning_request is not None and planning_request is self._planning_request

    def ended(self, planning_request: PlanningRequest, at: float) -> None:
        """Start the pause after the answered request. A request of another queue is ignored.

        :param at: the time of its end, in monotonic seconds.
        """
        if planning_request is self._planning_request:
            took = at - self._since
            self._planning_request, self._again = None, at + _REST.pause(took)
            if self._renewing:
                self._anew = at + _REST_BEFORE_RENEWAL.pause(took)
