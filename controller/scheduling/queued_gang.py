"""The planning queue's entry for one gang: its plans, rejection and planning request, kept between reconciles."""

from dataclasses import dataclass
from typing import NamedTuple

from controller.scheduling.demand import MinimumDemand, request_of
from controller.scheduling.planning_requests import PlanningRequest
from controller.scheduling.rejections import CachedRejection
from gangs.model import Gang, GangKey
from planning.decision import Decision, Outcome


class FoundPlan(NamedTuple):
    """A plan that no reconcile has accepted yet, and the planning request that found it."""

    decision: Decision
    planning_request: PlanningRequest


@dataclass(slots=True)
class QueuedGang:
    """The planning queue's entry for a gang that needs a plan, or needed one before.

    `request` and `demand` are derived from the gang, and kept while the request is equal, because most gangs do not
    change between reconciles. kube-scheduler's counterpart is `QueuedPodInfo`.
    """

    key: GangKey
    gang: Gang
    request: object
    demand: MinimumDemand
    pending: PlanningRequest | None = None
    """The planning request with which a lane is planning the gang now; None if no lane is."""
    plans: tuple[FoundPlan, ...] = ()
    """Plans that no reconcile has accepted yet: the best one first, then one that was found before it."""
    plan_due: float = float("-inf")
    """The monotonic time from which the best plan is accepted, even if the search for a better one goes on."""
    rejection: CachedRejection | None = None
    """The last rejection, until there is a plan."""
    needs_more_time: bool = False
    """Whether the gang had too little time in the fast lane, and waits for the slow lane."""
    overtaken: bool = False
    """Whether the slow lane's plan was stale. Then the fast lane plans the gang once with the full time limit."""
    planned_at: float = float("-inf")
    """The monotonic time at which the gang was last planned, or sent to a lane as infeasible."""
    unanswered_since: float | None = None
    """The monotonic time since which the gang has no planning result; None if it has one or needs none."""
    checked_for_missing: bool = False
    """Whether the queue has checked if members or objects are missing for the gang's present request."""

    @classmethod
    def of(cls, gang: Gang) -> "QueuedGang":
        """Return the entry for a gang that the queue has not seen before."""
        return cls(gang.key, gang, request_of(gang), MinimumDemand(gang))

    def update(self, gang: Gang) -> None:
        """Replace the gang by its latest state. If its request has changed, drop its results, so it is replanned."""
        if self.gang is gang:
            return
        self.gang, request = gang, request_of(gang)
        if request != self.request:  # compared by value once; after that, the same object is found by identity
            self.request, self.demand, self.checked_for_missing = request, MinimumDemand(gang), False
            self.drop_results()
            if self.rejection is not None:
                self.rejection.outdate()

    @property
    def last_rejection(self) -> Decision | None:
        """The gang's last decision Unplaceable, which is reported until replanning has a result; None without one."""
        if self.rejection is None or self.rejection.decision.outcome is not Outcome.UNPLACEABLE:
            return None
        return self.rejection.decision

    def drop_results(self) -> None:
        """Drop the gang's plans, ignore the result of its pending request, and do not wait for the slow lane."""
        self.plans, self.pending, self.needs_more_time = (), None, False
