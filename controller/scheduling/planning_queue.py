"""Which gangs are planned when, and which results are cached. A reconcile never waits for planning.

Each gang without a plan is in one of these queues, as a pod is in kube-scheduler's scheduling queue:

- The active queue: gangs that may fit. The fast lane plans all of them together, by priority.
- The slow lane's queue: gangs that had too little time in the fast lane.
- The infeasible queue: gangs above the capacity bound (`capacity_bound`, `infeasible_queue`). An idle lane plans them,
  to explain their rejection.
- The back-off queue: rejected gangs, until a change of the cluster cures their rejection and its pause is over
  (`rejections`, `cluster_changes`).

Planning runs in the background of reconciles, in two lanes (docs/decisions/0008). In the fast lane (`fast`) every
gang that needs a plan gets an answer within seconds. A gang that the fast lane could not place, or not prove optimal,
is planned again in the slow lane (`slow`). There it gets the full time limit and delays no other gang.
A reconcile accepts the plans that were found since the last one, unless they are stale.

Nothing here is durable state. A restarted controller plans again.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.scheduling.capacity_bound import CapacityBound
from controller.scheduling.cluster_changes import ClusterChanges, basis_of
from controller.scheduling.infeasible_queue import InfeasibleQueue
from controller.scheduling.plan_revalidation import PlanRevalidation
from controller.scheduling.planning_requests import FAULTY, PlanningRequest, PlanningResult, planning_results
from controller.scheduling.queued_gang import FoundPlan, QueuedGang
from controller.scheduling.rejections import (
    FAST_LANE_SECONDS,
    CachedRejection,
    SharedRejections,
    rejection_of,
)
from controller.scheduling.shares import Shares
from controller.scheduling.single_slot_executor import Lanes, SingleSlotExecutor
from controller.telemetry.metrics import Metrics
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.decision import Decision, Outcome
from planning.framing.priorities import with_priorities
from planning.gang_order import in_order
from planning.message import Message
from planning.planner import behind_in_line, stands_in_line, waiting
from solver.plan import Proof
from solver.problem import Limits
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

QUIET_SECONDS = 1.0
"""Seconds for which a gang without a planning result keeps its status and reservations: the result will come soon."""


@dataclass(slots=True)
class _PlanningRound:
    """The working state of `PlanningQueue.decide` in one reconcile: the gangs, and their decisions so far."""

    gangs: Mapping[GangKey, QueuedGang]
    cluster_view: ClusterView
    changes: ClusterChanges
    revalidation: PlanRevalidation
    known: dict[GangKey, Decision] = field(default_factory=dict)
    """By gang: its decision. Gangs without a decision so far are missing."""
    holding: dict[GangKey, CachedRejection] = field(default_factory=dict)
    """The cached rejections among `known` that no change of the cluster has been able to cure."""
    infeasible: frozenset[GangKey] = frozenset()
    """Gangs above the capacity bound that have no decision yet."""
    pausing: bool = False
    """Whether a gang has its decision only because its back-off is not over: its rejection may be cured by now."""

    @property
    def unknown(self) -> list[QueuedGang]:
        """The gangs that have no decision in this reconcile yet."""
        return [self.gangs[key] for key in self.gangs if key not in self.known]

    @property
    def active(self) -> list[QueuedGang]:
        """The gangs without a decision that no lane is planning and for which no plan was found."""
        return [queued for queued in self.unknown if queued.pending is None and not queued.plans]


class PlanningQueue:
    """The planning queue: sends gangs that need a plan to the lanes, by priority. Use an object from one thread only.

    :param limits: the limits of planning one gang in the slow lane.
    :param wake: called in the thread of a lane's executor when there is a result.
    """

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        lanes: Lanes,
        wake: Callable[[], None] = lambda: None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._lanes = lanes
        self._wake = wake
        self._inbox: deque[tuple[PlanningRequest, PlanningResult | None, float]] = deque()
        """The answers of the lanes with their times. None marks the end of a planning request."""
        self._gangs: dict[GangKey, QueuedGang] = {}
        """Every gang that needed a plan in some reconcile and still exists."""
        self._needy: Mapping[GangKey, QueuedGang] = {}
        """The gangs that needed a plan in the last reconcile."""
        self.unanswered: frozenset[GangKey] = frozenset()
        """Gangs of the last reconcile that have no planning result and are not above the capacity bound."""
        self.pausing = False
        """Whether to reconcile again soon without an event: a gang backs off, or waits for a lane."""
        self.due = float("inf")
        """The time, in monotonic seconds, at which an infeasible gang is to be planned, if no event comes before."""
        self._infeasible_queue = InfeasibleQueue()
        self._capacity_bound = CapacityBound()
        self._slow_shares = Shares()

    def decide(self, gangs: Sequence[Gang], cluster_view: ClusterView) -> Mapping[GangKey, Decision | None]:
        """Return the decision for every gang, or None while the gang is being planned. A plan is returned only once.

        If gangs compete for capacity, each is planned with the capacity that the gangs before it in the queue leave.

        :param gangs: all gangs that need a plan now.
        """
        self._capacity_bound.update(cluster_view.snapshot, cluster_view.topologies)
        needy = {gang.key: self._queued(gang) for gang in gangs}
        for key in self._needy.keys() - needy.keys():  # gangs that need no plan any more
            self._needy[key].drop_results()
            self._needy[key].unanswered_since = None
        self._needy = needy
        now = _PlanningRound(
            needy, cluster_view, ClusterChanges(basis_of(cluster_view)), PlanRevalidation(cluster_view)
        )
        behind = behind_in_line(gangs, cluster_view.snapshot, partial(self._in_line, now))
        now.known |= {decision.key: decision for decision in behind}
        idle = (
            self._lanes.fast.idle,
            self._lanes.slow.idle,
        )  # Read before the inbox: if a lane is idle now, the inbox has all its results.
        self._take_results(now)
        if self._ask(now, *idle):
            self._take_results(now)
        self._note_unanswered(now)
        self._set_due(now)
        return {key: now.known.get(key) or queued.last_rejection for key, queued in now.gangs.items()}

    def answered(self) -> bool:
        """Return whether a lane has sent a planning result that no reconcile has read yet."""
        return bool(self._inbox)

    def quiet(self, key: GangKey) -> bool:
        """Return whether the gang has been waiting for a planning result for less than `QUIET_SECONDS`, so that its
        status and its reservations stay as they are.
        """
        queued = self._gangs.get(key)
        since = queued.unanswered_since if queued is not None else None
        return since is not None and self._clock.monotonic() - since < QUIET_SECONDS

    def clear(self) -> None:
        """Drop the entries of all gangs, with their plans and cached rejections. The reconciler calls this when it
        drops the state between reconciles.
        """
        self._gangs.clear()

    def forget(self, keys: Iterable[GangKey]) -> None:
        """Drop the entries of these gangs, because the gangs no longer exist."""
        for key in keys:
            self._gangs.pop(key, None)

    def hold_off(self, gang: Gang, message: str) -> Decision:
        """Reject this gang for a moment (`rejections.HOLD_SECONDS`): its last plan could not be carried out.

        :param gang: the gang as the next call of `decide` gets it. If its request changes, the pause ends.
        """
        return self._hold_off(self._queued(gang), message)

    def held_back(self, decision: Decision) -> tuple[Pod, ...]:
        """Return the members to delete, so that their controllers recreate them without the pin to a domain of former
        siblings.

        Only this pin keeps the gang from a plan, and recreating the members costs nothing. Empty unless the gang's
        rejection is `decision`.
        """
        queued = self._gangs.get(decision.key)
        rejection = queued.rejection if queued is not None else None
        return rejection.tied if rejection is not None and rejection.decision is decision else ()

    def close(self) -> None:
        """Close both lanes, so that no further planning request is answered."""
        self._lanes.close()

    def _queued(self, gang: Gang) -> QueuedGang:
        """Return the queue's entry for this gang, updated to the gang's present request. A new gang gets an entry."""
        queued = self._gangs.get(gang.key)
        if queued is None:
            queued = self._gangs[gang.key] = QueuedGang.of(gang)
        queued.update(gang)
        return queued

    def _hold_off(self, queued: QueuedGang, message: str) -> Decision:
        decision = Decision(
            queued.gang, queued.key, Outcome.UNPLACEABLE, Message.of(message), proof=Proof.UNPROVEN.value
        )
        queued.drop_results()
        self._reject(queued, PlanningResult(decision, final=True, seconds=0.0, failed=True))
        return decision

    def _take_results(self, now: _PlanningRound) -> None:
        """Read the lanes' answers, accept plans that are not stale, and look up cached rejections that still hold."""
        self._read()
        planned = [queued for queued in now.gangs.values() if queued.plans]
        for queued in sorted(planned, key=lambda queued: -_priority(queued.plans[0].decision)):
            decision = self._accepted(queued, now)
            if decision is not None:
                now.known[queued.key] = decision
        at = self._clock.monotonic()
        for queued in now.unknown:
            rejection = queued.rejection
            if rejection is not None and rejection.holds(now.changes, at):
                now.known[queued.key], now.holding[queued.key] = rejection.decision, rejection
            elif rejection is not None and at < rejection.again:
                now.known[queued.key], now.pausing = rejection.decision, True
        self._share_rejections(now, at)

    def _share_rejections(self, now: _PlanningRound, at: float) -> None:
        """Reject, without planning, each gang whose placement request and pods are equal to those of a gang whose
        cached rejection holds.
        """
        active = now.active
        if not active or not now.holding:
            return
        demands = ((now.gangs[key].demand, rejection) for key, rejection in now.holding.items())
        shared_rejections, new = SharedRejections(demands, now.cluster_view.snapshot), list[Decision]()
        for queued in active:
            shared = shared_rejections.of(queued.gang, queued.demand)
            if shared is not None:
                queued.rejection = now.holding[queued.key] = shared.shared_with(queued.gang, at)
                now.known[queued.key] = queued.rejection.decision
                new.append(queued.rejection.decision)
        self._metrics.decided(new)

    def _accepted(self, queued: QueuedGang, now: _PlanningRound) -> Decision | None:
        """Return the best plan found for the gang that is not stale. None if there is none, or if the time to accept
        the gang's plan has not come yet.

        Stale plans are dropped, so the gang is replanned.
        """
        if self._clock.monotonic() < queued.plan_due:
            return None
        plans = queued.plans
        queued.drop_results()
        for decision, planning_request in plans:
            why = self._tried(queued, now, partial(now.revalidation.fault, decision, queued.gang, planning_request))
            if why is None:
                return None
            if not why:
                now.revalidation.accept(decision, planning_request)
                return decision
            LOG.info("gang %s: a plan is stale, and the gang is replanned: %s", queued.key, why)
            self._metrics.stale()
        if any(planning_request.limits.seconds > FAST_LANE_SECONDS for _, planning_request in plans):
            queued.overtaken = True
        return None

    def _ask(self, now: _PlanningRound, fast_idle: bool, slow_idle: bool) -> bool:  # noqa: FBT001 - which lanes are idle
        """Send gangs without a planning result to the idle lanes. Return whether there may be new results."""
        for queued in now.gangs.values():
            if self._infeasible_queue.holds(queued.pending) and self._may_fit(queued, now):
                queued.drop_results()
        active = now.active
        for queued in active:
            queued.needs_more_time = False
        checked = {queued.key for queued in active if self._may_wait(queued)}
        active = [queued for queued in active if not (queued.key in checked and self._waits(queued, now))]
        able, infeasible = self._counted(active, now)
        able = [queued for queued in able if queued.key in checked or not self._waits(queued, now)]
        now.infeasible = frozenset(queued.key for queued in infeasible)
        slow = [queued for queued in now.gangs.values() if queued.needs_more_time and queued.pending is None]
        asked = False
        if able and fast_idle:
            seconds = self._limits.seconds if any(queued.overtaken for queued in able) else FAST_LANE_SECONDS
            for queued in able:
                queued.overtaken = False
            self._send(self._lanes.fast, able, now, seconds)
            asked, fast_idle = True, False
        free = self._lanes.fast if fast_idle else self._lanes.slow if slow_idle else None
        # Infeasible gangs use the slow lane only if they are overdue. Then they go before the gangs in `slow`.
        asked = self._ask_infeasible(infeasible, now, free) or asked
        if slow and slow_idle and self._lanes.slow.idle:
            # Each gang has the same cost, because each has the same time limit.
            (key,) = self._slow_shares.next_ones(_highest(slow, now.cluster_view), lambda _: 1, 1)
            now.gangs[key].needs_more_time = False
            self._send(self._lanes.slow, [now.gangs[key]], now, self._limits.seconds)
            asked = True
        return asked

    def _note_unanswered(self, now: _PlanningRound) -> None:
        at, unknown = self._clock.monotonic(), now.unknown
        for queued in now.gangs.values():
            if queued.key in now.known:
                queued.unanswered_since = None
            elif queued.unanswered_since is None:
                queued.unanswered_since = at
        self.unanswered = frozenset(queued.key for queued in unknown) - now.infeasible
        self._metrics.planning(sum(queued.pending is not None for queued in now.gangs.values()))

    def _set_due(self, now: _PlanningRound) -> None:
        """Set `due` and `pausing`: when the next reconcile is needed for gangs that could not be sent to a lane.

        The lanes are checked again: a lane may have become idle during this reconcile, after its last result was read.
        """
        active = now.active
        infeasible = [queued for queued in active if queued.key in now.infeasible]
        slow = any(queued.needs_more_time and queued.pending is None for queued in now.gangs.values())
        if self._lanes.fast.idle:
            self.due = self._infeasible_queue.next_due(infeasible, self._clock.monotonic())
            self.pausing = now.pausing or slow or len(active) > len(infeasible)
        else:
            self.due, self.pausing = float("inf"), now.pausing or slow or bool(active)

    def _ask_infeasible(
        self, gangs: Sequence[QueuedGang], now: _PlanningRound, executor: SingleSlotExecutor | None
    ) -> bool:
        """Send gangs above the capacity bound to the idle lane `executor` if they are due. Return whether a gang was
        sent or has a new decision.
        """
        at = self._clock.monotonic()
        ready, in_fast_lane = self._infeasible_queue.ready(gangs, at), executor is self._lanes.fast
        if not ready or executor is None or not (in_fast_lane or self._infeasible_queue.overdue(at)):
            return False
        next_gangs = map(now.gangs.__getitem__, self._infeasible_queue.next_ones(ready, in_fast_lane=in_fast_lane))
        first = [queued for queued in next_gangs if not self._waits(queued, now)]
        if first:
            self._infeasible_queue.sent(self._send(executor, first, now, FAST_LANE_SECONDS), first, at)
        return True

    def _counted(
        self, gangs: Sequence[QueuedGang], now: _PlanningRound
    ) -> tuple[Sequence[QueuedGang], Sequence[QueuedGang]]:
        """Return the gangs that may fit, and the gangs above the capacity bound, as two sequences.

        Gangs above the bound are planned apart, so that they delay no gang that may fit. The bound is checked in each
        reconcile, so a gang that fits now is found at once. A single new gang is not checked, as it delays no other
        gang.
        """
        if len(gangs) == 1 and gangs[0].rejection is None:
            return gangs, ()
        able = {queued.key for queued in gangs if self._may_fit(queued, now)}
        return [each for each in gangs if each.key in able], [each for each in gangs if each.key not in able]

    def _may_fit(self, queued: QueuedGang, now: _PlanningRound) -> bool:
        return self._tried(queued, now, partial(self._capacity_bound.may_hold, queued.demand)) is not False

    def _may_wait(self, queued: QueuedGang) -> bool:
        """Return whether to check first if the gang lacks members or objects (`_waits`), and only then if it is above
        the capacity bound.

        True if the gang lacked members or objects at the last check, or if its placement request is new. With thousands
        of members the check takes a while, so it does not run in each reconcile for a gang above the capacity bound.
        """
        checked, queued.checked_for_missing = queued.checked_for_missing, True
        rejection = queued.rejection
        return not checked or (rejection is not None and rejection.decision.outcome is Outcome.WAITING)

    def _waits(self, queued: QueuedGang, now: _PlanningRound) -> bool:
        """Return whether the gang is decided without the solver, because it lacks members or objects.

        Also True if the check raised an error, because the gang is then rejected for a moment. The decision is
        recorded.
        """
        cluster_view = now.cluster_view
        decision = self._tried(
            queued, now, partial(waiting, queued.gang, cluster_view.snapshot, cluster_view.topologies)
        )
        if decision is None:
            return queued.key in now.known
        self._metrics.decided([decision])
        self._reject(queued, PlanningResult(decision, final=True, seconds=0.0, basis=now.changes.basis))
        now.known[queued.key] = decision
        return True

    def _in_line(self, now: _PlanningRound, gang: Gang, snapshot: Snapshot) -> bool:
        """Return whether the gangs behind this gang must wait for it, because their queue is strictly ordered
        (`StrictFIFO`).
        """
        return self._tried(now.gangs[gang.key], now, partial(stands_in_line, gang, snapshot)) or False

    def _tried(self, queued: QueuedGang, now: _PlanningRound, ask: Callable[[], _T]) -> _T | None:
        """Return the result of `ask`, a check of one gang. If `ask` raises an exception, reject the gang for a moment
        and return None.

        So an internal error at one gang stops no other gang. The error is logged and reported in the gang's decision.
        """
        try:
            return ask()
        except Exception:
            LOG.exception("gang %s cannot be planned", queued.key)
            self._metrics.gang_errors.labels("planning").inc()
            now.known[queued.key], now.pausing = self._hold_off(queued, FAULTY), True
            return None

    def _send(
        self, executor: SingleSlotExecutor, gangs: Collection[QueuedGang], now: _PlanningRound, seconds: float
    ) -> PlanningRequest:
        """Send the gangs to a lane, with at most `seconds` for each gang."""
        sent = {queued.key for queued in gangs}
        unseen = [queued.plans[0].decision for key, queued in now.gangs.items() if queued.plans and key not in sent]
        planning_request = PlanningRequest(
            tuple(queued.gang for queued in gangs),
            now.cluster_view,
            (*now.revalidation.accepted, *unseen),
            replace(self._limits, seconds=min(self._limits.seconds, seconds)),
            self._limits,
        )
        for queued in gangs:
            queued.pending = planning_request
        executor.submit(partial(self._run_request, planning_request))
        return planning_request

    def _run_request(self, planning_request: PlanningRequest) -> None:
        """Answer a planning request. Runs in the thread of a lane's executor."""
        try:
            for result in planning_results(planning_request, self._clock):
                self._inbox.append((planning_request, result, self._clock.monotonic()))
                self._wake()
        finally:
            self._inbox.append((planning_request, None, self._clock.monotonic()))
            self._wake()

    def _read(self) -> None:
        """Process the planning results that the lanes have sent. Ignore results of dropped or replaced requests."""
        new = []
        while self._inbox:
            planning_request, result, at = self._inbox.popleft()
            if result is None:
                self._give_up(planning_request)
                self._infeasible_queue.ended(planning_request, at)
                continue
            queued = self._gangs.get(result.decision.key)
            if queued is not None and queued.pending is planning_request:
                queued.pending, queued.planned_at = None, self._clock.monotonic()
                new += [result.decision] if result.final else []
                self._remember(queued, result, planning_request)
        self._metrics.decided(new)

    def _give_up(self, planning_request: PlanningRequest) -> None:
        """End a planning request. Reject its gangs without a result for a moment, because planning them has failed
        twice.
        """
        for gang in planning_request.gangs:
            queued = self._gangs.get(gang.key)
            if queued is not None and queued.pending is planning_request:
                self._hold_off(queued, FAULTY)

    def _remember(self, queued: QueuedGang, result: PlanningResult, planning_request: PlanningRequest) -> None:
        if not result.final:
            queued.needs_more_time = True
        if result.failed:
            self._metrics.gang_errors.labels("planning").inc()
        if result.decision.outcome is Outcome.PLACED:
            queued.plans = (FoundPlan(result.decision, planning_request), *queued.plans)
            queued.plan_due = float("-inf") if result.final else self._clock.monotonic() + self._limits.seconds
            queued.rejection = None
        elif queued.plans:
            queued.plan_due = float("-inf")  # no better plan was found, so the earlier plan is accepted now
        else:
            self._reject(queued, result)

    def _reject(self, queued: QueuedGang, result: PlanningResult) -> None:
        queued.rejection = rejection_of(result, queued.rejection, self._clock.monotonic())


def _highest(gangs: Iterable[QueuedGang], cluster_view: ClusterView) -> list[GangKey]:
    """Return the keys of the gangs with the highest priority, in planning order."""
    ordered = in_order(with_priorities(queued.gang, cluster_view.snapshot) for queued in gangs)
    return [gang.key for gang in ordered if gang.priority == ordered[0].priority]


def _priority(decision: Decision) -> int:
    return decision.gang.priority if decision.gang is not None else 0
