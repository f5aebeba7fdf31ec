"""Which gangs are planned when, and which results are cached. A reconcile never waits for planning.

Planning runs in the background of reconciles, in two lanes (docs/decisions/0008). In the fast lane (`fast`) every
gang that needs a plan gets an answer within seconds. A gang that the fast lane could not place, or not prove optimal,
is planned again in the slow lane (`slow`). There it gets the full time limit and delays no other gang.
A reconcile accepts the plans that were found since the last one, unless they are stale.

Nothing here is durable state. A rejection is dropped when the free capacity of the cluster or the request changes, and
a restarted controller plans again.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.scheduling.cached_rejections import (
    FAST_LANE_SECONDS,
    HOLD_SECONDS,
    CachedRejection,
    fresh_seconds,
    next_pause,
)
from controller.scheduling.capacity_bound import CapacityBound
from controller.scheduling.demand import MinimumDemand, request_of
from controller.scheduling.infeasible_queue import InfeasibleQueue
from controller.scheduling.plan_revalidation import inputs_of
from controller.scheduling.planning_requests import FAULTY, PlanningRequest, PlanningResult, planning_results
from controller.scheduling.planning_round import PlanningRound
from controller.scheduling.shares import Shares
from controller.scheduling.single_slot_executor import Lanes, SingleSlotExecutor
from controller.telemetry.metrics import Metrics
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.decision import Decision, Outcome
from planning.message import Message
from planning.planner import behind_in_line, stands_in_line, waiting
from solver.plan import Proof
from solver.problem import Limits
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

QUIET_SECONDS = 1.0
"""Planning is not reported for a gang that has been planned for less than this, because its answer will come soon."""
_EACH = 100
"""The fixed planning cost of a gang, in members: planning a gang costs this plus the number of its members."""


@dataclass(slots=True)
class _Found:
    """Plans of one gang that no reconcile has accepted yet: the best one first, then one that was found before it.

    `due`: the time from which the best plan is accepted, even if the search for a better one goes on.
    """

    request: object
    plans: tuple[tuple[Decision, PlanningRequest], ...]
    due: float


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
        self._pending: dict[GangKey, tuple[PlanningRequest, object]] = {}
        self._found: dict[GangKey, _Found] = {}
        self._rejections: dict[GangKey, CachedRejection] = {}
        self._slow: set[GangKey] = set()
        """Gangs that had too little time in the fast lane and wait for the slow lane."""
        self._overtaken: set[GangKey] = set()
        """Gangs whose plan from the slow lane was stale. Once, the fast lane gives them the full time limit."""
        self._requests: dict[GangKey, tuple[Gang, object, MinimumDemand]] = {}
        """The request and needs of each gang, with the gang object they are from. Most objects do not change between
        reconciles.
        """
        self._since: dict[GangKey, float] = {}
        """The time at which a gang without an answer was first seen."""
        self._pausing = False
        self.unanswered: frozenset[GangKey] = frozenset()
        """Gangs of the last reconcile that have no answer and are not above the capacity bound."""
        self._infeasible_queue = InfeasibleQueue()
        self._infeasible_due = float("inf")
        self._capacity_bound = CapacityBound()
        self._slow_shares = Shares()

    def decide(self, gangs: Sequence[Gang], cluster_view: ClusterView) -> Mapping[GangKey, Decision | None]:
        """Return the decision for every gang, or None while the gang is planned. A plan is returned only once.

        When gangs compete, each is planned with the capacity that the gangs before it leave.
        """
        self._capacity_bound.update(cluster_view.snapshot, cluster_view.topologies)
        now = PlanningRound(
            gangs, cluster_view, {gang.key: self._request_of(gang) for gang in gangs}, self._capacity_bound
        )
        now.known |= {
            each.key: each for each in behind_in_line(gangs, cluster_view.snapshot, partial(self._in_line, now))
        }
        idle = self._lanes.fast.idle, self._lanes.slow.idle  # before the inbox is read: all its answers are there
        self._take_results(now)
        if self._ask(now, *idle):
            self._take_results(now)
        self._since = {
            key: self._since.get(key, self._clock.monotonic()) for key in now.gangs.keys() - now.known.keys()
        }
        self._metrics.planning(len(self._pending))
        self._set_due(now)
        self.unanswered = frozenset(now.gangs.keys() - now.known.keys() - now.infeasible)
        return {key: now.known.get(key) or self._former(key) for key in now.gangs}

    def answered(self) -> bool:
        """Return whether there is an answer that no reconcile has read yet."""
        return bool(self._inbox)

    def pausing(self) -> bool:
        """Return whether to reconcile again soon without an event.

        That is so if a rejection was reported whose inputs have changed, or if a gang waits for a lane.
        """
        return self._pausing

    @property
    def due(self) -> float:
        """The time, in monotonic seconds, at which an infeasible gang is to be planned, if no event comes before."""
        return self._infeasible_due

    def quiet(self, key: GangKey) -> bool:
        """Return whether the gang has been waiting for its answer for less than `QUIET_SECONDS`."""
        return self._clock.monotonic() - self._since.get(key, float("-inf")) < QUIET_SECONDS

    def forget_others(self, keys: Collection[GangKey]) -> None:
        """Forget all gangs that are not in `keys`."""
        known = set[GangKey]().union(self._pending, self._found, self._rejections, self._since, self._requests)
        self.forget((known | self._slow | self._overtaken).difference(keys))

    def forget(self, keys: Collection[GangKey]) -> None:
        """Forget these gangs, which no longer exist."""
        for key in keys:
            for memory in (self._pending, self._found, self._rejections, self._since, self._requests):
                memory.pop(key, None)
            self._infeasible_queue.forget(key)
        self._slow.difference_update(keys)
        self._overtaken.difference_update(keys)

    def hold_off(self, gang: Gang, message: str, cluster_view: ClusterView) -> Decision:
        """Reject this gang for `HOLD_SECONDS`: its last plan could not be carried out, or its planning failed."""
        decision = Decision(gang, gang.key, Outcome.UNPLACEABLE, Message.of(message), proof=Proof.UNPROVEN.value)
        self._drop(gang.key)
        self._rejections[gang.key] = CachedRejection(
            request_of(gang),
            inputs_of(cluster_view),
            decision,
            self._clock.monotonic() + HOLD_SECONDS,
            HOLD_SECONDS,
            lasting=False,
        )
        return decision

    def held_back(self, decision: Decision) -> tuple[Pod, ...]:
        """Return the members that can be recreated at no cost and whose old pin alone keeps their gang from a plan."""
        rejection = self._rejections.get(decision.key)
        return rejection.tied if rejection is not None and rejection.decision is decision else ()

    def close(self) -> None:
        """Stop planning."""
        self._lanes.close()

    def _request_of(self, gang: Gang) -> object:
        if (known := self._requests.get(gang.key)) is None or known[0] is not gang:
            request = request_of(gang)  # compared by value once; after that, the same object is found by identity
            same = known[1:] if known is not None and known[1] == request else (request, MinimumDemand(gang))
            known = self._requests[gang.key] = gang, *same
        return known[1]

    def _take_results(self, now: PlanningRound) -> None:
        """Read the lanes' answers, accept plans that are not stale, and look up cached rejections that still hold."""
        self._read()
        for key in self._found.keys() - now.gangs.keys():
            self._drop(key)
        for key in sorted(self._found, key=lambda key: -_priority(self._found[key].plans[0][0])):
            decision = self._taken(key, now)
            if decision is not None:
                now.known[key] = decision
        for key in now.gangs.keys() - now.known.keys():
            rejection = self._rejections.get(key)
            at = self._clock.monotonic()
            if rejection is not None and rejection.holds(now.requests[key], now.inputs, now.monotonicity, at):
                now.known[key] = rejection.decision
                now.pausing = now.pausing or rejection.paused
        left = now.gangs.keys() - now.known.keys() - self._pending.keys() - self._found.keys()
        self._metrics.decided(now.reuse_rejections(left, self._rejections, self._requests, self._clock.monotonic()))

    def _taken(self, key: GangKey, now: PlanningRound) -> Decision | None:
        """Return the gang's plan if it is due and not stale. A stale plan is dropped, so the gang is replanned."""
        found = self._found[key]
        if found.request != now.requests[key]:
            self._drop(key)
            return None
        if self._clock.monotonic() < found.due:
            return None
        self._drop(key)
        for decision, planning_request in found.plans:
            why = self._tried(key, now, partial(now.revalidation.fault, decision, now.gangs[key], planning_request))
            if why is None:
                return None
            if not why:
                now.revalidation.accept(decision, planning_request)
                return decision
            LOG.info("gang %s: a plan does not stand any more, and is made again: %s", key, why)
            self._metrics.stale()
        if any(planning_request.limits.seconds > FAST_LANE_SECONDS for _, planning_request in found.plans):
            self._overtaken.add(key)
        return None

    def _drop(self, key: GangKey) -> None:
        """Drop the gang's plans, ignore the answer of its pending request, and remove it from the slow lane."""
        self._found.pop(key, None)
        self._pending.pop(key, None)
        self._slow.discard(key)

    def _ask(self, now: PlanningRound, fast_idle: bool, slow_idle: bool) -> bool:  # noqa: FBT001 - which lanes are idle
        """Send gangs without an answer to the idle lanes. Return whether there may be new answers."""
        for key, (planning_request, request) in list(self._pending.items()):
            if request != now.requests.get(key) or (
                self._infeasible_queue.holds(planning_request) and self._may_fit(key, now)
            ):
                self._drop(key)
        new = [key for key in now.gangs if key not in now.known and key not in self._pending and key not in self._found]
        self._slow.difference_update(new)
        able, infeasible = self._counted(new, now)
        able = [key for key in able if not self._waits(key, now)]
        infeasible = [key for key in infeasible if not (self._may_wait(key, now) and self._waits(key, now))]
        now.infeasible = frozenset(infeasible)
        slow = [key for key in now.gangs if key in self._slow and key not in self._pending]
        asked = False
        if able and fast_idle:
            seconds = self._limits.seconds if self._overtaken & set(able) else FAST_LANE_SECONDS
            self._overtaken.difference_update(able)
            self._send(self._lanes.fast, able, now, replace(self._limits, seconds=min(self._limits.seconds, seconds)))
            asked, fast_idle = True, False
        free = self._lanes.fast if fast_idle else self._lanes.slow if slow_idle else None
        # Infeasible gangs use the slow lane only if they are overdue. Then they go before the gangs in `slow`.
        asked = self._ask_infeasible(infeasible, now, free) or asked
        if slow and slow_idle and self._lanes.slow.idle:
            first = self._slow_shares.next_ones(now.highest(slow), _one_turn, 1)
            self._slow.difference_update(first)
            self._send(self._lanes.slow, first, now, self._limits)
            asked = True
        return asked

    def _set_due(self, now: PlanningRound) -> None:
        """Set when the next reconcile is due for gangs that could not be sent to a lane.

        The lanes are checked again: a lane may have become idle during this reconcile, after its last result was read.
        """
        met = now.known.keys() | self._pending.keys() | self._found.keys()
        left = now.gangs.keys() - met | (self._slow & now.gangs.keys()) - self._pending.keys()
        infeasible = left & now.infeasible
        due = float("inf")
        if infeasible and self._lanes.fast.idle:
            due = self._infeasible_queue.next_due(infeasible, self._rejections, self._clock.monotonic())
        self._infeasible_due = due
        self._pausing = now.pausing or bool(left if not self._lanes.fast.idle else left - infeasible)

    def _ask_infeasible(self, keys: Sequence[GangKey], now: PlanningRound, executor: SingleSlotExecutor | None) -> bool:
        """Send infeasible gangs to the lane if they are due. Return whether any was sent or has a new decision."""
        at = self._clock.monotonic()
        ready, in_fast_lane = self._infeasible_queue.ready(keys, self._rejections, at), executor is self._lanes.fast
        if not ready or executor is None or not (in_fast_lane or self._infeasible_queue.overdue(at)):
            return False
        first = self._infeasible_queue.next_ones(ready, self._cost, in_fast_lane=in_fast_lane)
        first = [key for key in first if not self._waits(key, now)]
        limits = replace(self._limits, seconds=min(self._limits.seconds, FAST_LANE_SECONDS))
        if first:
            renewing = any(key in self._rejections for key in first)
            self._infeasible_queue.sent(self._send(executor, first, now, limits), at, renewing=renewing)
        return True

    def _counted(self, keys: Sequence[GangKey], now: PlanningRound) -> tuple[Sequence[GangKey], Sequence[GangKey]]:
        """Split the gangs into those that may fit and those above the capacity bound, so that the latter delay no gang.

        The bound is computed in each reconcile, so that no gang is missed that fits now. A single new gang is not
        checked, because it delays no other gang.
        """
        if len(keys) == 1 and keys[0] not in self._rejections:
            return keys, ()
        able = {key for key in keys if self._may_fit(key, now)}
        return [key for key in keys if key in able], [key for key in keys if key not in able]

    def _may_fit(self, key: GangKey, now: PlanningRound) -> bool:
        return self._tried(key, now, partial(now.capacity_bound.may_hold, self._requests[key][2])) is not False

    def _may_wait(self, key: GangKey, now: PlanningRound) -> bool:
        """Return whether to check if a gang above the capacity bound waits for something else.

        That is so if it waited before, or if its request is new. With thousands of members the check takes a while, so
        it does not run in each reconcile.
        """
        rejection = self._rejections.get(key)
        waited = rejection is not None and rejection.decision.outcome is Outcome.WAITING
        return self._infeasible_queue.is_new(key, now.requests[key]) or waited

    def _cost(self, key: GangKey) -> int:
        return _EACH + self._requests[key][2].members

    def _waits(self, key: GangKey, now: PlanningRound) -> bool:
        """Return whether the gang has a decision without the solver: it waits for something, or the check failed."""
        decision = self._tried(
            key, now, partial(waiting, now.gangs[key], now.cluster_view.snapshot, now.cluster_view.topologies)
        )
        if decision is None:
            return key in now.known
        self._metrics.decided([decision])
        self._reject(PlanningResult(decision, final=True, seconds=0.0), now.requests[key], now.inputs)
        now.known[key] = decision
        return True

    def _in_line(self, now: PlanningRound, gang: Gang, snapshot: Snapshot) -> bool:
        """Return whether the gangs behind this gang in a strict queue have to wait for it."""
        return self._tried(gang.key, now, partial(stands_in_line, gang, snapshot)) or False

    def _tried(self, key: GangKey, now: PlanningRound, ask: Callable[[], _T]) -> _T | None:
        """Return the result of `ask` for one gang. If it fails, hold the gang off, so that it stops no other gang.

        None if it fails. The internal error is reported in the gang's decision and logged.
        """
        try:
            return ask()
        except Exception:
            LOG.exception("gang %s cannot be planned", key)
            self._metrics.gang_errors.labels("planning").inc()
            now.known[key], now.pausing = self.hold_off(now.gangs[key], FAULTY, now.cluster_view), True
            return None

    def _send(
        self, executor: SingleSlotExecutor, keys: Sequence[GangKey], now: PlanningRound, limits: Limits
    ) -> PlanningRequest:
        unseen = [found.plans[0][0] for key, found in self._found.items() if key not in keys]
        standing = (*now.revalidation.accepted, *unseen)
        planning_request = PlanningRequest(
            tuple(now.gangs[key] for key in keys), now.cluster_view, standing, limits, self._limits
        )
        self._pending |= {key: (planning_request, now.requests[key]) for key in keys}
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
        """Process the answers of the lanes. Ignore answers to requests that were dropped or replaced."""
        new = []
        while self._inbox:
            planning_request, result, at = self._inbox.popleft()
            if result is None:
                self._give_up(planning_request)
                self._infeasible_queue.ended(planning_request, at)
                continue
            asked, request = self._pending.get(result.decision.key, (None, None))
            if asked is planning_request:
                del self._pending[result.decision.key]
                self._infeasible_queue.planned([result.decision.key], self._clock.monotonic())
                new += [result.decision] if result.final else []
                self._remember(result, planning_request, request)
        self._metrics.decided(new)

    def _give_up(self, planning_request: PlanningRequest) -> None:
        """End a planning request. Gangs without an answer are held off, because planning them has failed twice."""
        for gang in planning_request.gangs:
            if self._pending.get(gang.key, (None,))[0] is planning_request:
                self.hold_off(gang, FAULTY, planning_request.cluster_view)

    def _remember(self, result: PlanningResult, planning_request: PlanningRequest, request: object) -> None:
        key, before = result.decision.key, self._found.get(result.decision.key)
        if not result.final:
            self._slow.add(key)
        if result.failed:
            self._metrics.gang_errors.labels("planning").inc()
        if result.decision.outcome is Outcome.PLACED:
            plans = ((result.decision, planning_request), *(before.plans if before is not None else ()))
            due = float("-inf") if result.final else self._clock.monotonic() + self._limits.seconds
            self._found[key] = _Found(request, plans, due)
            self._rejections.pop(key, None)
        elif before is not None:
            before.due = float("-inf")  # no better plan was found, so the earlier plan is accepted now
        else:
            self._reject(result, request, inputs_of(planning_request.cluster_view))

    def _reject(self, result: PlanningResult, request: object, inputs: object) -> None:
        decision = result.decision
        pause = next_pause(result, self._rejections.get(decision.key))
        self._rejections[decision.key] = CachedRejection(
            request,
            inputs,
            decision,
            self._clock.monotonic() + pause,
            pause,
            lasting=not result.failed,
            final=result.final,
            tied=result.tied,
            basis=result.basis,
            fresh_until=self._clock.monotonic() + fresh_seconds(decision.key),
        )

    def _former(self, key: GangKey) -> Decision | None:
        """Return the gang's last rejection, which is reported until replanning has an answer; None if there is none."""
        rejection = self._rejections.get(key)
        if rejection is None or rejection.decision.outcome is not Outcome.UNPLACEABLE:
            return None
        return rejection.decision


def _one_turn(_key: GangKey) -> int:
    """Return the cost of one gang in the slow lane: each gang counts the same, because each has the same time limit."""
    return 1


def _priority(decision: Decision) -> int:
    return decision.gang.priority if decision.gang is not None else 0
