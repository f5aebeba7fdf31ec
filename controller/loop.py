"""The controller's loop: each reconcile reads the cluster, decides, acts and reports. The loop is level-triggered.

The state that is kept between reconciles is a cache of the cluster. If a reconcile fails, that state is dropped and
everything is read again.
"""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from controller.acting.executing import PlanExecutor
from controller.acting.resource_quota_shortages import QuotaShortages
from controller.acting.restarting import Restarter
from controller.acting.untried import Reclaimer
from controller.acting.wholeness_marks import WholenessMarker
from controller.acting.withdrawing import PartialGangRollback
from controller.cluster_view import ClusterView, ClusterViewReader
from controller.coexistence import CoexistenceReporter
from controller.error_backoff import ErrorBackoff
from controller.leadership.election import LeadershipLostError
from controller.pace import IDLE_SECONDS, Due, Pace
from controller.reconcile_state import Effects, ReconcileState, after, with_steps
from controller.reconcile_states import ReconcileStates
from controller.release.next_step import AllBound, AwaitBinding, Cause, NeedPlan
from controller.release.records import record_of
from controller.release.schedule_timeout import expired
from controller.scheduling.device_conflicts import DeviceConflicts, beside_device_plans
from controller.scheduling.eviction_checks import drop_unlawful
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.postponed_steps import Handover, postpone_displaced
from controller.status.described_kinds import DescribedKinds
from controller.status.fair_turns import Turn, turn_of
from controller.status.invalid_gangs import InvalidGangReporter
from controller.status.reporting import Reporter
from controller.status.status_sync import StatusSync
from controller.status.strays import Strays
from controller.telemetry.metrics import Metrics, Observer
from controller.urgency import Urgencies
from controller.writes.writer import Writer
from gangs.model import GangKey
from planning.decision import Decision
from planning.decision import Outcome as Verdict
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class LoopState:
    """State kept between reconciles. It is a cache: every field can be rebuilt from the cluster."""

    view_reader: ClusterViewReader
    gang_states: ReconcileStates
    urgencies: Urgencies
    due: Due = field(default_factory=lambda: Due(at=0.0, unfinished=False))
    """When the next reconcile is due if the cluster does not change."""
    invalid: list[GangKey] = field(default_factory=list)
    handover: Handover = field(default_factory=Handover)


LATE_SECONDS = 0.01
"""Seconds after which the cache is checked again, if it does not show the writes of the last reconcile yet."""


class Outcome(Enum):
    """The outcome of a reconcile. The values are labels of `phalanx_round_duration_seconds`."""

    DONE = "done"
    LATE = "late"
    """The cache does not show the writes of the last reconcile yet, so nothing was decided."""
    LOST = "lost"
    """The term ended during the reconcile."""
    FAILED = "failed"
    """An internal error, which is logged."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one reconcile.

    `writes`: how many requests changed the cluster. `due`: when the next reconcile is due if nothing changes, in
    monotonic seconds; infinity if none is.
    """

    outcome: Outcome
    writes: int
    due: float


@dataclass(frozen=True, slots=True)
class GangSteps:
    """The objects that carry out the steps of a reconcile for all gangs, in the order in which they run."""

    executor: PlanExecutor
    reclaimer: Reclaimer
    marker: WholenessMarker
    rollback: PartialGangRollback
    restarter: Restarter
    reporter: Reporter


@dataclass(frozen=True, slots=True)
class ClusterReports:
    """The objects that report everything besides gangs that can be planned: invalid gangs, queues, and pods of no gang
    that name a scheduler which does not run.
    """

    coexistence: CoexistenceReporter
    invalid_gangs: InvalidGangReporter
    status_sync: StatusSync
    strays: Strays
    described: DescribedKinds


class Controller:
    """The leading controller. In each reconcile it moves every gang one step on: plan, reserve, evict, release.

    :param placeholders: whether capacity is reserved for pods that do not exist yet.
    :param forgets: returns whether the stock scheduler forgets the nominations of gated pods when it restarts, so that
        placeholders reserve the capacity of all gated members.
    """

    def __init__(
        self,
        cache: ClusterCache,
        writer: Writer,
        planning_queue: PlanningQueue,
        *,
        steps: GangSteps,
        reports: ClusterReports,
        error_backoff: ErrorBackoff,
        metrics: Metrics,
        observers: Sequence[Observer] = (),
        placeholders: bool = True,
        forgets: Callable[[], bool] = lambda: False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._writer = writer
        self._planning_queue = planning_queue
        self._steps = steps
        self._reports = reports
        self._error_backoff = error_backoff
        self._metrics = metrics
        self._observers = (metrics, *observers)
        self._placeholders = placeholders
        self._forgets = forgets
        self._quota_shortages = QuotaShortages(clock)
        self._device_conflicts = DeviceConflicts(clock)

    def lead(self, lost: threading.Event) -> None:
        """Run reconciles, each when it is due, until leadership is lost."""
        with self._cache.journal() as journal:
            known = self.begin(journal)
            while not lost.is_set():
                self._pace(known).wait(known.due, lost)
                if self._clock.wait(lost, self._writer.pause):
                    return
                if self.step(known).outcome is Outcome.FAILED:
                    known = self.begin(journal)
                    self._clock.wait(lost, IDLE_SECONDS)

    def begin(self, journal: Journal) -> LoopState:
        """Return the state before the first reconcile. It is empty, and the first reconcile reads everything.

        :param journal: records the changes of the cache from now on.
        """
        self._planning_queue.clear()
        return LoopState(
            ClusterViewReader(self._cache, journal),
            ReconcileStates(self._writer, self._error_backoff, placeholders=self._placeholders, clock=self._clock),
            Urgencies(self._cache, self._writer.read_your_writes),
            handover=Handover(self._clock),
        )

    def step(self, known: LoopState) -> Round:
        """Run one reconcile on the present cache, without waiting.

        After a reconcile that FAILED, `known` is not valid any more: call `begin` again.
        """
        started, done = self._clock.monotonic(), self._writer.done
        outcome = self._round_safely(known)
        if outcome is not Outcome.LATE:
            self._metrics.round_seconds.labels(outcome.value).observe(self._clock.monotonic() - started)
        return Round(outcome, self._writer.done - done, self._pace(known).due(known.due))

    def _pace(self, known: LoopState) -> Pace:
        return Pace(self._cache, known.view_reader.journal, known.urgencies, self._planning_queue.answered, self._clock)

    def _round_safely(self, known: LoopState) -> Outcome:
        if self._writer.read_your_writes.late(self._cache):
            known.due = Due(known.due.version, at=self._clock.monotonic() + LATE_SECONDS, late=True)
            return Outcome.LATE
        try:
            self._round(known)
        except LeadershipLostError as error:
            LOG.info("the round ends here: %s", error)
            return Outcome.LOST
        except Exception:
            LOG.exception("round failed")
            return Outcome.FAILED
        return Outcome.DONE

    def _round(self, known: LoopState) -> None:
        started, done, known.due = self._clock.processor(), self._writer.done, Due(known.view_reader.version)
        cluster_view = replace(known.view_reader.read(), ungated=self._forgets())
        self._reports.coexistence.tell(cluster_view)
        open_states = known.gang_states.update(cluster_view)
        cluster_view = replace(cluster_view, made_again=known.gang_states.made_again)
        gone = known.gang_states.gone()
        self._planning_queue.forget(gone)
        cluster_view, gang_states = self._decide(open_states, cluster_view)
        gang_states = postpone_displaced(gang_states, cluster_view.snapshot)
        gang_states = known.handover.postpone(gang_states, self._planning_queue.unanswered)
        # States are immutable. `_decide` and the postponements return the same object for a gang that rests with the
        # same decision, and a new object for any other gang. So the identity tells which gangs have begun a reconcile.
        begun = [now for then, now in zip(open_states, gang_states, strict=True) if now is not then]
        changed = self._act(begun, cluster_view, known.gang_states.keys())
        known.gang_states.close(changed)
        known.urgencies.note(changed, gone, cluster_view)
        self._tell(known, cluster_view, turn_of(changed))
        known.due.version, known.due.spent = known.view_reader.version, self._clock.processor() - started
        known.due.hurried = self._writer.done != done and known.gang_states.hurried

    def _act(
        self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView, known: Collection[GangKey]
    ) -> Sequence[ReconcileState]:
        """Carry out the due steps of all gangs, and report their states. Return the states with all effects.

        The steps run one after the other, and each reads the states after the steps before it.

        :param known: all existing gangs.
        """
        steps = self._steps
        gang_states = after(gang_states, steps.executor.execute(gang_states, cluster_view))
        steps.executor.finish(gang_states, cluster_view, known)
        gang_states = after(gang_states, steps.reclaimer.reclaim(gang_states, cluster_view))
        gang_states = after(gang_states, steps.marker.mark(gang_states))
        gang_states = after(gang_states, steps.rollback.withdraw(gang_states, cluster_view))
        gang_states = after(gang_states, steps.restarter.restart(gang_states, cluster_view))
        return after(gang_states, steps.reporter.report(gang_states, cluster_view))

    def _tell(self, known: LoopState, cluster_view: ClusterView, turn: Turn) -> None:
        """Report invalid gangs, other objects and changed gang states, and set when the next reconcile is due."""
        reports = self._reports
        invalid = reports.invalid_gangs.tell(cluster_view)
        reports.status_sync.show(cluster_view, turn)
        reports.strays.tell(cluster_view)
        reports.described.show(cluster_view)
        self._metrics.see(cluster_view)
        if known.gang_states.moved or invalid != known.invalid:
            known.invalid, (changed, gone) = invalid, known.gang_states.moves()
            for each in self._observers:
                each.stand(changed, invalid, gone)
        telling = (reports.invalid_gangs, reports.status_sync, reports.strays, reports.described)
        going_on = self._planning_queue.pausing or known.gang_states.unfinished
        known.due.unfinished = going_on or any(each.unfinished for each in telling)
        status_due = float("inf") if known.due.unfinished else reports.status_sync.due
        known.due.at = min(self._planning_queue.due, status_due, self._departure_due())

    def _departure_due(self) -> float:
        """Return when the capacity of a terminating pod next begins to count as free, or as taken again.

        That happens shortly before and after the end of its grace period, without a change of any object
        (`cluster.departure`). The result is in monotonic seconds; infinity if no pod is terminating.
        """
        time = self._cache.next_departure()
        if time is None:
            return float("inf")
        return self._clock.monotonic() + max(0.0, (time - self._clock.wall()).total_seconds())

    def _decide(
        self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView
    ) -> tuple[ClusterView, Sequence[ReconcileState]]:
        """Decide about every gang that needs a plan.

        Return the cluster view in which the victims of plans in force are leaving, and the states with their decisions.
        A state stays the same object if nothing is due for its gang.
        """
        over = {each.gang.key: self._expired(each) for each in gang_states if self._is_over(each)}
        gang_states = [over.get(each.gang.key, each) for each in gang_states] if over else gang_states
        gang_states = with_steps(gang_states, self._quota_shortages.find(gang_states, cluster_view.snapshot))
        cluster_view, gang_states = drop_unlawful(cluster_view, gang_states)
        conflicts = self._device_conflicts.find(gang_states, cluster_view)
        needed = {key: step for key, step in conflicts.items() if step.cause is Cause.DEVICES_NEEDED}
        over |= {
            each.gang.key: self._dropped(each, needed[each.gang.key]) for each in gang_states if each.gang.key in needed
        }
        gang_states = with_steps(gang_states, conflicts)
        cluster_view = beside_device_plans(cluster_view, gang_states)
        needy = [
            gang_state
            for gang_state in gang_states
            if isinstance(gang_state.step, NeedPlan) and gang_state.gang.key not in over and not gang_state.failed
        ]
        decisions = self._planning_queue.decide([gang_state.gang_in_line for gang_state in needy], cluster_view)
        decided = {each.gang.key: self._decided(each, decisions[each.gang.key]) for each in needy} | over
        return cluster_view, [decided.get(each.gang.key) or _undecided(each) for each in gang_states]

    def _decided(self, gang_state: ReconcileState, decision: Decision | None) -> ReconcileState:
        """Return the state with the decision of this reconcile.

        :param decision: None while the gang is being planned. The gang then keeps its old plan and its reservations if
            its planning has just begun, or if `holds_meanwhile`. Otherwise the old plan is dropped.
        """
        if (gang_state.resting or gang_state.arriving) and decision is gang_state.decision:
            return gang_state
        gang_state = _begun(gang_state, decision)
        waits = self._planning_queue.quiet(gang_state.gang.key) or holds_meanwhile(gang_state)
        if decision is None and waits:
            return replace(gang_state, deferred=True)
        record = record_of(decision) if decision and decision.outcome is Verdict.PLACED else None
        record = record if record and record.members else None
        return replace(gang_state, deferred=False, fallen=gang_state.record, record=record)

    def _is_over(self, gang_state: ReconcileState) -> bool:
        """Return whether the gang's schedule timeout ends in this reconcile."""
        if gang_state.timed_out is not None or isinstance(gang_state.step, AwaitBinding | AllBound):
            return False
        return expired(gang_state.gang, gang_state.status, self._clock.wall())

    def _expired(self, gang_state: ReconcileState) -> ReconcileState:
        """Return the state of a gang whose schedule timeout has ended.

        Its reserved capacity is freed. It is planned after all other gangs of its priority from now on.
        """
        message = (
            f"was not placed within {gang_state.gang.schedule_timeout_seconds} s: its capacity is freed for others"
        )
        cause = Cause.TIMED_OUT if gang_state.record is not None else None
        over = self._dropped(replace(gang_state, timed_out=True), NeedPlan("", gang_state.held, cause), message)
        return replace(over, expired_now=True)

    def _dropped(self, gang_state: ReconcileState, step: NeedPlan, message: str = "") -> ReconcileState:
        """Return the state without its plan. The gang is replanned after a pause, so that others get its capacity.

        :param message: why the gang waits; "": the message of the step.
        """
        # The pause is that of the request which the next reconcile reads, such as the gang at the end of its priority.
        decision = self._planning_queue.hold_off(gang_state.gang_in_line, message or step.message)
        state = _begun(gang_state, decision)
        return replace(state, step=step, fallen=gang_state.record, record=None, deferred=False)


def holds_meanwhile(gang_state: ReconcileState) -> bool:
    """Return whether a gang keeps its reserved capacity while it is planned again, however long planning takes.

    True if the gang needs a new plan only because it has lost further members while others are being recreated. The old
    plan is still valid for the others.
    """
    step = gang_state.step
    planned = isinstance(step, NeedPlan) and step.cause is None and gang_state.record is not None
    return planned and bool(gang_state.gang.made_again)


def _undecided(gang_state: ReconcileState) -> ReconcileState:
    """Return the state of a gang that needs no plan, without a decision. If the gang's report waits for further
    members, the same object is returned.
    """
    return gang_state if gang_state.arriving else _begun(gang_state, None)


def _begun(gang_state: ReconcileState, decision: Decision | None) -> ReconcileState:
    """Return the state with a decision and without the effects of the previous reconcile."""
    return replace(gang_state, decision=decision, effects=Effects(failed=gang_state.failed))
