"""Reports the state of every gang: Gang status, conditions of members, events. Only changes are written."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from controller.cluster_view import ClusterView
from controller.error_backoff import Activity, ErrorBackoff
from controller.gang_round import GangRound
from controller.gang_status import ROOM_TAKEN, Phase, gang_status, status_patch
from controller.release.next_step import (
    AllBound,
    AwaitBinding,
    AwaitPods,
    AwaitVictims,
    Cause,
    Evict,
    NeedPlan,
    Planned,
    Postponed,
    Renominate,
)
from controller.release.records import PlannedVictim, heirs_patch
from controller.release.wholeness import Withdrawal, WithdrawalReason
from controller.status.conditions import POD_SCHEDULED, Condition, differs, member_conditions
from controller.status.evicted_gangs import evicted_gangs, objects_of
from controller.status.fair_turns import LEISURELY, in_turns, turn_of
from controller.status.mirrors import GANG_KIND, mark_of
from controller.telemetry import events
from controller.telemetry.events import Reason
from controller.telemetry.metrics import Metrics
from controller.telemetry.recorder import Recorder
from controller.times import still_coming
from controller.writes.writer import Write, Writer, Written
from gangs.model import Gang, ObjectRef
from kube.keys import API_VERSION, GATE, STOCK_SCHEDULER
from kube.objects import ObjectMeta, Pod
from kube.placeholders import to_come
from planning.decision import Outcome
from planning.messages import wording
from planning.messages.wording import compressed, pods
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

_Change = tuple[dict[str, Any], dict[str, Any]]
"""A wanted status, and the merge patch that leads to it."""

_REASONS: Mapping[Phase, Reason] = {
    Phase.WAITING: events.GANG_WAITING,
    Phase.UNPLACEABLE: events.GANG_UNPLACEABLE,
    Phase.INVALID: events.GANG_INVALID,
    Phase.PLACED: events.GANG_PLACED,
}
"""Phases with an event at their beginning. Phases before a plan also have an event when their message changes."""

EVENT_OF_CAUSE: Mapping[Cause, Reason] = {
    Cause.ROOM_LOST: events.ROOM_LOST,
    Cause.POD_OVERDUE: events.ROOM_LOST,
    Cause.MEMBER_GONE: events.ROOM_LOST,
    Cause.REQUEST_CHANGED: events.ROOM_LOST,
    Cause.EVICTION_REFUSED: events.EVICTION_REFUSED,
    Cause.QUOTA_SHORT: events.QUOTA_SHORT,
    Cause.ROOM_UNWANTED: events.ROOM_UNWANTED,
    Cause.TIMED_OUT: events.GANG_TIMED_OUT,
}
"""The event for each cause that invalidates a plan before its gang is released."""

EVENT_OF_PHASE: Mapping[Phase, Reason] = {
    **_REASONS,
    Phase.NOMINATED: events.GANG_NOMINATED,
    Phase.EVICTING: events.VICTIM_EVICTED,
    Phase.RELEASED: events.GANG_RELEASED,
}
"""The event for each phase that a gang reaches. The steps themselves record the events of the last three phases."""

PODS_TOLD = 8
"""The most gated members of a gang that get an event when their message changes. `kubectl describe pod` shows events,
but not the messages of conditions. An event on each of 500 members would cost the API server 500 writes for one
sentence."""

_OUTCOMES: Mapping[Outcome, Phase] = {
    Outcome.PLACED: Phase.NOMINATED,
    Outcome.WAITING: Phase.WAITING,
    Outcome.UNPLACEABLE: Phase.UNPLACEABLE,
    Outcome.INVALID: Phase.INVALID,
}


def phase_of(gang_round: GangRound) -> Phase:
    """Return the phase of the gang after the step of this reconcile."""
    step = gang_round.step.step if isinstance(gang_round.step, Postponed) else gang_round.step
    match step:
        case NeedPlan():
            return _phase_of_answer(gang_round)
        case Evict() | AwaitVictims():
            return Phase.EVICTING
        case AwaitBinding() | Renominate() | AwaitPods() if _begun(gang_round) or not gang_round.gang.made_again:
            return Phase.RELEASED
        case AllBound():
            return Phase.PLACED if gang_round.gang.suffice(gang_round.gang.members) else Phase.WAITING
        case _:  # while arrived pods take their reserved capacity, the phase stays
            return Phase.RELEASED if _begun(gang_round) and gang_round.placeholders else Phase.NOMINATED


def _begun(gang_round: GangRound) -> bool:
    """Return whether a member has been released."""
    return any(not member.pod.gated_by(GATE) for member in gang_round.gang.members)


def _phase_of_answer(gang_round: GangRound) -> Phase:
    if gang_round.decision is None:
        return Phase.WAITING
    if gang_round.decision.outcome is Outcome.PLACED and gang_round.record is None:
        return Phase.PLACED  # the minimum runs; further members wait for capacity
    if gang_round.record is not None and gang_round.record.victims:
        return Phase.EVICTING
    return _OUTCOMES[gang_round.decision.outcome]


class Reporter:
    """Writes statuses, conditions and events of gangs, for people and programs."""

    def __init__(
        self,
        writer: Writer,
        recorder: Recorder,
        metrics: Metrics,
        error_backoff: ErrorBackoff,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._recorder = recorder
        self._metrics = metrics
        self._error_backoff = error_backoff

    def ref(self, gang_round: GangRound) -> ObjectRef:
        """Return a reference to the gang's Gang object, for events."""
        uid = gang_round.manifest["metadata"].get("uid", "")
        return ObjectRef(API_VERSION, GANG_KIND, gang_round.namespace, gang_round.name, uid)

    def report(self, gang_rounds: Sequence[GangRound], picture: ClusterView) -> None:
        """Update statuses and conditions at the end of a reconcile.

        All gangs with a plan being carried out are updated. Of the others, as many are updated as the time allows, in
        turns of their namespaces. The rest is left for later reconciles.
        """
        telling = [gang_round for gang_round in gang_rounds if not gang_round.deferred]
        self._report([gang_round for gang_round in telling if gang_round.on_its_way], picture)
        turn = turn_of(gang_rounds)
        over = self._clock.monotonic() + turn.seconds
        others = in_turns((each for each in telling if not each.on_its_way), lambda each: each.gang.key.namespace)
        while (batch := list(islice(others, turn.batch))) and self._clock.monotonic() < over:
            self._report(batch, picture)
        for gang_round in (*batch, *others):
            gang_round.behind, gang_round.resting = True, False

    def _report(self, gang_rounds: Sequence[GangRound], picture: ClusterView) -> None:
        for gang_round in gang_rounds:
            gang_round.failed = gang_round.failed or self._error_backoff.message(gang_round.gang.key, Activity.TELLING)
        able = [each for each in gang_rounds if not self._error_backoff.message(each.gang.key, Activity.TELLING)]
        changes = [(gang_round, self._tried(gang_round, partial(self._change, gang_round))) for gang_round in able]
        changing = [(gang_round, change) for gang_round, change in changes if change is not None]
        written = self._writer.each(partial(self._tried, each, partial(self._send, each, to)) for each, to in changing)
        for (gang_round, wanted), answer in zip(changing, written, strict=True):
            if answer is not None:
                self._tried(gang_round, partial(self._take, gang_round, wanted, answer))
        telling = [(each, self._tried(each, partial(self._untold, each, picture))) for each in able]
        self._writer.each(partial(self._tried, each, write) for each, writes in telling for write in writes or ())
        for (gang_round, change), (_, writes) in zip(changes, telling, strict=True):
            gang_round.behind = False
            calm = change is None and writes == [] and not gang_round.writing
            gang_round.resting = calm and not gang_round.failed
        mute = [each for each in gang_rounds if self._error_backoff.message(each.gang.key, Activity.TELLING)]
        self._error_backoff.report(Activity.TELLING, [(each.gang.key, each.manifest) for each in mute], LEISURELY.batch)

    def _tried(self, gang_round: GangRound, call: Callable[[], _T]) -> _T | None:
        """Return the result of `call`; None after an internal error, which the gang reports. It is retried later."""
        return self._error_backoff.run_step(gang_round, Activity.TELLING, call)

    def write_status(self, gang_round: GangRound) -> bool:
        """Write the Gang's status if it has changed. Return whether the object has the wanted status.

        False if the Gang that the pods name does not exist. This method also records a plan. If the Gang has changed
        since it was read, the write fails, and the plan is not carried out.
        """
        if not gang_round.manifest["metadata"].get("uid"):
            return False
        change = self._change(gang_round)
        return change is None or self._take(gang_round, change, self._send(gang_round, change))

    def _change(self, gang_round: GangRound) -> _Change | None:
        """Return the wanted status and the patch that leads to it; None if nothing has to be written."""
        if not gang_round.manifest["metadata"].get("uid"):
            return None
        status = self._status(gang_round)
        patch = status_patch(gang_round.status, status)
        return (status, patch) if patch else None

    def _send(self, gang_round: GangRound, change: _Change) -> Written:
        return self._writer.merge(f"{gang_round.path}/status", {"status": change[1]}, gang_round.manifest)

    def _take(self, gang_round: GangRound, change: _Change, written: Written) -> bool:
        """Continue with the written status, and record its events. Return whether the write succeeded."""
        if written.done:
            before, status = gang_round.status, change[0]
            metadata = {**gang_round.manifest["metadata"], "resourceVersion": written.version}
            gang_round.manifest = {**gang_round.manifest, "metadata": metadata, "status": status}
            self._tell_change(gang_round, before, status)
        return written.done

    def planned(self, gang_round: GangRound) -> None:
        """Record an event for a new plan, of a gang or of the replacement of a lost member."""
        if gang_round.decision:
            repair = any(member.pod.bound for member in gang_round.gang.members)
            reason = events.MEMBER_REPLACED if repair else events.GANG_PLANNED
            self._tell(gang_round, reason, _decided(gang_round.gang, gang_round.decision.message))

    def taken_over(self, gang_round: GangRound, heirs: Mapping[str, ObjectMeta]) -> bool:
        """Record arrived pods in the plan. Return whether the write succeeded.

        :param heirs: metadata of the arrived pods, by the seats that they take.
        """
        written = self._writer.merge(
            f"{gang_round.path}/status",
            {"status": (patch := heirs_patch(gang_round.status, heirs))},
            gang_round.manifest,
        )
        if written.done:
            metadata = {**gang_round.manifest["metadata"], "resourceVersion": written.version}
            gang_round.manifest = {
                **gang_round.manifest,
                "metadata": metadata,
                "status": {**gang_round.status, **patch},
            }
        return written.done

    def nominated(self, gang_round: GangRound, members: Sequence[Planned]) -> None:
        """Record an event for a plan whose capacity is reserved for all members."""
        nodes = compressed(member.node for member in members)
        self._tell(gang_round, events.GANG_NOMINATED, f"room is held for {pods(len(members))} on {nodes}")

    def invalidated(self, gang_round: GangRound, step: NeedPlan) -> None:
        """Record that a plan was invalidated before its gang was released.

        A schedule timeout has an event of its own, which is recorded with the status.
        """
        if step.cause is None:
            return
        self._metrics.invalidated(step.cause)
        again = ": the room is given back and the gang is planned again" if step.stale else ""
        if step.cause is Cause.EVICTION_REFUSED or (again and step.cause is not Cause.TIMED_OUT):
            _log(gang_round, EVENT_OF_CAUSE[step.cause], step.message + again)
            self._recorder.record(self.ref(gang_round), EVENT_OF_CAUSE[step.cause], step.message + again)

    def unbound(self, gang_round: GangRound, members: Sequence[Planned]) -> None:
        """Record events for released members that lost their nomination: the scheduler found no capacity for them."""
        for member in members:
            note = (
                f"cannot bind on {member.node}, where its gang's plan put it; the room is held for it once it is free"
            )
            self._recorder.record(_pod_ref(member.pod), events.MEMBER_UNBOUND, note, related=self.ref(gang_round))

    def evicted(self, gang_round: GangRound, victim: PlannedVictim) -> None:
        """Record the eviction of a victim, with events on the victim and on the gang that name each other."""
        self._metrics.evicted(gang_round.gang.key.dialect)
        pod = ObjectRef("v1", "Pod", victim.namespace, victim.name, victim.uid)
        gang = self.ref(gang_round)
        note = f"evicted for gang {gang_round.gang.key}, which needs its room on {victim.node}"
        self._recorder.record(pod, events.PREEMPTED, note, related=gang)
        note = f"evicted {victim.namespace}/{victim.name} from {victim.node}"
        _log(gang_round, events.VICTIM_EVICTED, note)
        self._recorder.record(gang, events.VICTIM_EVICTED, note, related=pod)

    def gangs_evicted(self, gang_round: GangRound, victims: Iterable[PlannedVictim], picture: ClusterView) -> None:
        """Record events on the gangs of evicted members, and on their workloads. The events name the evicting gang."""
        by = f"gang {gang_round.gang.key} of priority {gang_round.gang.priority}"
        for gang, members in evicted_gangs(victims, picture):
            note = f"{pods(len(members))} evicted for {by}, on {compressed(each.node for each in members)}"
            for ref in objects_of(gang, picture):
                self._recorder.record(ref, events.GANG_EVICTED, note, related=self.ref(gang_round))

    def set_free(self, gang_round: GangRound, pod: Pod) -> None:
        """Record that a gated member was deleted, so that its controller recreates it without the old pin."""
        note = (
            f"deleted to be made again: it was tied to siblings of gang {gang_round.gang.key} that are gone, "
            "and the gang fits nowhere with it"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_SET_FREE, note, related=self.ref(gang_round))

    def taken_back(self, gang_round: GangRound, pod: Pod, seconds: float) -> None:
        """Record that a released member lost its capacity, because its scheduler has not tried it."""
        note = (
            f"{pod.spec.scheduler_name} has not tried it within {seconds:g} s of its release; "
            f"its room is given back, and the message of gang {gang_round.gang.key} says what becomes of it"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_UNTRIED, note, related=self.ref(gang_round))

    def withdrawn(self, gang_round: GangRound, pods: Iterable[Pod], withdrawal: Withdrawal) -> None:
        """Record the eviction of members of a gang that never became whole, or that is restarted."""
        restart, why = withdrawal.reason is WithdrawalReason.RESTARTED, withdrawal.message
        (self._metrics.restarted if restart else self._metrics.withdrawn).inc()
        self._tell(gang_round, events.GANG_RESTARTED if restart else events.GANG_WITHDRAWN, why)
        of = f"gang {gang_round.gang.key}"
        reason = events.MEMBER_RESTARTED if restart else events.MEMBER_WITHDRAWN
        for pod in pods:
            note = f"evicted: {f'with all of {of}' if restart else f'{of} has begun and cannot become whole'}; {why}"
            self._recorder.record(_pod_ref(pod), reason, note, related=self.ref(gang_round))

    def made_again(self, gang_round: GangRound, pod: Pod) -> None:
        """Record that a member was deleted, so that its controller recreates it for the stock scheduler."""
        note = (
            f"deleted to be made again for {STOCK_SCHEDULER}: {pod.spec.scheduler_name}, which it names, "
            f"does not run here (gang {gang_round.gang.key})"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_MADE_AGAIN, note, related=self.ref(gang_round))

    def released(self, gang_round: GangRound, members: Sequence[Planned]) -> None:
        """Record the release of members."""
        self._tell(gang_round, events.GANG_RELEASED, f"released {len(members)} pods to their nodes")

    def _status(self, gang_round: GangRound) -> dict[str, Any]:
        phase = phase_of(gang_round)
        stuck = gang_round.step.stranded if isinstance(gang_round.step, AwaitBinding) else ()
        over = False if gang_round.timed_out and phase.released else gang_round.timed_out
        return gang_status(
            gang_round.gang,
            phase=phase,
            now=rfc3339(self._clock.wall()),
            decision=gang_round.decision,
            plan_id=gang_round.record.plan_id if gang_round.record else "",
            previous=gang_round.status,
            generation=gang_round.manifest["metadata"].get("generation"),
            timed_out=over,
            untried="; ".join(filter(None, (gang_round.untried, gang_round.stays))),
            withdrawal=gang_round.withdrawal,
            restarts=gang_round.restarts,
            reason=ROOM_TAKEN if stuck else "",
            message=gang_round.failed or wording.stranded(stuck),
            mirrors=mark_of(gang_round.gang),
        )

    def _tell_change(self, gang_round: GangRound, before: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        phase = Phase(status["phase"])
        if gang_round.untried and gang_round.untried not in before.get("message", ""):
            self._tell(gang_round, events.GANG_UNTRIED, gang_round.untried)
        changed = before.get("phase") != phase.value
        alike = _counted if phase is Phase.WAITING else str
        reworded = changed or alike(before.get("message", "")) != alike(status["message"])
        if phase in _REASONS and (changed if phase is Phase.PLACED else reworded):
            self._tell(gang_round, _reason(gang_round, phase), _decided(gang_round.gang, status["message"]))
        elif status["reason"] == ROOM_TAKEN and reworded:
            self._tell(gang_round, events.MEMBER_UNBOUND, status["message"])

    def _tell(self, gang_round: GangRound, reason: Reason, note: str) -> None:
        """Record an event on the gang, and on the object that asked for it if that is another object."""
        _log(gang_round, reason, note)
        self._recorder.record(self.ref(gang_round), reason, note)
        if gang_round.gang.source.kind not in (GANG_KIND, "Pod") and gang_round.gang.source.uid:
            self._recorder.record(gang_round.gang.source, reason, note, related=self.ref(gang_round))

    def pod_conditions(self, gang_round: GangRound, picture: ClusterView) -> Mapping[str, Condition]:
        """Return the wanted condition of each member after this decision, by UID; empty without a decision."""
        if gang_round.decision is None:
            return {}
        return {p.metadata.uid: each for p, each in member_conditions(gang_round.gang, gang_round.decision, picture)}

    def _too_early(self, gang_round: GangRound) -> bool:
        """Return whether conditions are delayed because members still arrive. Each arrival would change all of them."""
        waiting = gang_round.decision is not None and gang_round.decision.outcome is Outcome.WAITING
        return waiting and still_coming(gang_round.gang, self._clock.wall())

    def _untold(self, gang_round: GangRound, picture: ClusterView) -> list[Write] | None:
        """Return the writes of conditions that differ. Members of the plan got theirs with the nomination.

        None while more members arrive, so that it is too early.
        """
        if self._too_early(gang_round):
            return None
        planned = {member.uid for member in gang_round.record.members} if gang_round.record else set()
        conditions = self.pod_conditions(gang_round, picture) if gang_round.decision else {}
        there = (member.pod for member in gang_round.gang.members if not to_come(member.pod))
        gated = (pod for pod in there if pod.gated_by(GATE))  # the scheduler writes the condition of released pods
        pods = [pod for pod in gated if pod.metadata.uid in conditions and pod.metadata.uid not in planned]
        for pod in pods[:PODS_TOLD]:
            if differs(pod, conditions[pod.metadata.uid]):
                self._tell_pod(gang_round, pod, conditions[pod.metadata.uid]["message"])
        return [
            partial(self._writer.condition, pod, conditions[pod.metadata.uid])
            for pod in pods
            if differs(pod, conditions[pod.metadata.uid])
        ]

    def _tell_pod(self, gang_round: GangRound, pod: Pod, message: str) -> None:
        """Record an event on a gated member that gets another message, unless only the numbers change."""
        shown = next((each.message for each in pod.status.conditions if each.type == POD_SCHEDULED), "")
        if _counted(shown) == _counted(message):
            return
        self._recorder.record(_pod_ref(pod), events.MEMBER_WAITING, message, related=self.ref(gang_round))


def _log(gang_round: GangRound, reason: Reason, note: str) -> None:
    """Log an event. Gang, plan and reason are fields of their own (`--log-format json`)."""
    fields = {"gang": str(gang_round.gang.key), "dialect": gang_round.gang.key.dialect, "reason": reason.name}
    if gang_round.record is not None:
        fields["plan"] = gang_round.record.plan_id
    LOG.info("gang %s: %s", gang_round.gang.key, note, extra=fields)


def _counted(message: str) -> str:
    """Return a message without its counts. Otherwise each arrival of a member would be an event."""
    return re.sub(r"\d+ more pods?|\d+ of \d+", "", message)


def _reason(gang_round: GangRound, phase: Phase) -> Reason:
    if gang_round.expired_now:
        return events.GANG_TIMED_OUT
    if phase is Phase.UNPLACEABLE and any(member.pod.bound for member in gang_round.gang.members):
        return events.MEMBER_IRREPLACEABLE
    return _REASONS[phase]


def _decided(gang: Gang, message: str) -> str:
    """Return the decision's message with the topology and levels of the request, which users look for in events."""
    if gang.topology is None:
        return message
    asked = (("required", gang.required), ("preferred", gang.preferred))
    levels = [f"{mode} {level}" for mode, level in asked if level is not None]
    return f"{message} (topology {', '.join([gang.topology, *levels])})"


def _pod_ref(pod: Pod) -> ObjectRef:
    meta = pod.metadata
    return ObjectRef("v1", "Pod", meta.namespace, meta.name, meta.uid)
