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
"""The pause after a request of the infeasible queue, as a multiple of its planning time. It limits processor time."""
_REST_BEFORE_RENEWAL = DutyCycle(rest=19)
"""The pause before a gang that has a cached rejection is replanned, as a multiple of the time the last replanning took.

Replanning only renews the figures in the rejection, so it may use a twentieth of a core.
"""


class InfeasibleQueue:
    """The infeasible queue: which of its gangs are planned next, by round-robin share of the namespaces, and when."""

    def __init__(self) -> None:
        self._shares = Shares()
        self._planning_request: PlanningRequest | None = None
        self._since, self._renewing = 0.0, False
        self._again: float | None = None
        """The time at which the next request is due. None until the due time is first read."""
        self._anew = 0.0
        """The time from which a gang that already has a result may be replanned."""

    def ready(self, gangs: Collection[QueuedGang], at: float) -> Collection[QueuedGang]:
        """Return the gangs that may be planned in an idle lane at the time `at`.

        None is ready before the last request is answered and the pause after it is over. The pause of gangs that
        already have a result is longer.
        """
        if self._planning_request is not None or at < self._next(at):
            return ()
        return gangs if at >= self._anew else [queued for queued in gangs if queued.rejection is None]

    def next_due(self, gangs: Collection[QueuedGang], at: float) -> float:
        """Return the time at which the next of these gangs is due.

        Infinity if there are none, or while a request is being planned.
        """
        if self._planning_request is not None or not gangs:
            return float("inf")
        has_new = any(queued.rejection is None for queued in gangs)
        return self._next(at) if has_new else max(self._next(at), self._anew)

    def overdue(self, at: float) -> bool:
        """Return whether the gangs may be planned although no lane was idle when they were due."""
        return at >= self._next(at) + OVERDUE_SECONDS

    def _next(self, at: float) -> float:
        if self._again is None:
            self._again = at
        return self._again

    def next_ones(self, gangs: Iterable[QueuedGang], *, in_fast_lane: bool) -> list[GangKey]:
        """Return the gangs to plan next, by round-robin share of the namespaces.

        Within a namespace, gangs that were never planned come first, then the gang that was planned longest ago.

        :param in_fast_lane: return one gang only. Otherwise return gangs up to a total cost of `BATCH`.
        """
        by_key = {queued.key: queued for queued in sorted(gangs, key=lambda queued: queued.planned_at)}
        return self._shares.next_ones(
            by_key, lambda key: _FIXED_COST + len(by_key[key].gang.members), 1 if in_fast_lane else BATCH
        )

    def sent(self, planning_request: PlanningRequest, gangs: Collection[QueuedGang], at: float) -> None:
        """Record that this request is being planned. A gang that changes before the answer has used its turn, too."""
        self._planning_request, self._since = planning_request, at
        self._renewing = any(queued.rejection is not None for queued in gangs)
        for queued in gangs:
            queued.planned_at = at

    def holds(self, planning_request: PlanningRequest | None) -> bool:
        """Return whether this is the request of the infeasible queue that is being planned."""
        return planning_request is not None and planning_request is self._planning_request

    def ended(self, planning_request: PlanningRequest, at: float) -> None:
        """Start the pause after a request of the infeasible queue. A request of another queue is ignored."""
        if planning_request is self._planning_request:
            took = at - self._since
            self._planning_request, self._again = None, at + _REST.pause(took)
            if self._renewing:
                self._anew = at + _REST_BEFORE_RENEWAL.pause(took)
