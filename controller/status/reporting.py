"""Reports the state of every gang: Gang status, conditions of members, events. Only changes are written."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from controller.cluster_view import ClusterView
from controller.error_backoff import Activity, ErrorBackoff
from controller.gang_status import ROOM_TAKEN, Notes, Phase, PresentObject, gang_status, status_patch, waiting_line
from controller.reconcile_state import NO_EFFECTS, Effects, FollowUp, ReconcileState, Reported, Topic, after
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
    predecessors_message,
)
from controller.release.records import PlannedVictim, successors_patch
from controller.release.wholeness import Withdrawal, WithdrawalReason, still_withdrawn
from controller.status.about_devices import about_devices, devices_not_held
from controller.status.conditions import GATED, Condition, differs, member_conditions
from controller.status.evicted_gangs import evicted_gangs, objects_of
from controller.status.fair_turns import LEISURELY, in_turns, turn_of
from controller.status.mirrors import GANG_KIND, mark_of
from controller.telemetry import events
from controller.telemetry.events import Reason
from controller.telemetry.metrics import Metrics
from controller.telemetry.recorder import Recorder
from controller.times import created_now, still_coming
from controller.writes.writer import Write, Writer, Written
from gangs.model import Gang, GangKey, ObjectRef
from kube.keys import API_VERSION, GATE, STOCK_SCHEDULER
from kube.objects import ObjectMeta, Pod
from kube.placeholders import to_come
from planning.decision import Decision, Outcome
from planning.messages import wording
from planning.messages.wording import compressed, pods
from planning.planner import missing_members
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")


class _Change(NamedTuple):
    """The wanted status of a Gang object, and the merge patch that leads to it.

    `patch`: empty if the object needs no other status. `noted`: the messages that the status reports.
    """

    status: dict[str, Any]
    patch: dict[str, Any]
    noted: Reported


_REASONS: Mapping[Phase, Reason] = {
    Phase.WAITING: events.GANG_WAITING,
    Phase.UNPLACEABLE: events.GANG_UNPLACEABLE,
    Phase.INVALID: events.GANG_INVALID,
    Phase.PLACED: events.GANG_PLACED,
}
"""The event at the beginning of a phase. In phases before a plan the event is repeated when the message changes."""

EVENT_OF_CAUSE: Mapping[Cause, Reason] = {
    Cause.ROOM_LOST: events.ROOM_LOST,
    Cause.POD_OVERDUE: events.ROOM_LOST,
    Cause.MEMBER_GONE: events.ROOM_LOST,
    Cause.REQUEST_CHANGED: events.ROOM_LOST,
    Cause.EVICTION_REFUSED: events.EVICTION_REFUSED,
    Cause.DEVICES_TAKEN: events.DEVICES_LOST,
    Cause.DEVICES_NEEDED: events.DEVICES_LOST,
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

_STEPS_OF_OUR_OWN = frozenset({events.GANG_NOMINATED.name, events.GANG_RELEASED.name})
"""The names of the events that only the Gang object gets. They are steps on the way from GangPlanned to GangPlaced, and
each further event on a Job would be one more write of the API server."""

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


def phase_of(gang_state: ReconcileState) -> Phase:
    """Return the phase of the gang, given the step that this reconcile has carried out."""
    step = gang_state.step.step if isinstance(gang_state.step, Postponed) else gang_state.step
    match step:
        case NeedPlan():
            return _phase_of_answer(gang_state)
        case Evict() | AwaitVictims():
            return Phase.EVICTING
        case AwaitBinding() | Renominate() | AwaitPods() if _begun(gang_state):
            return Phase.RELEASED
        case AllBound():
            return Phase.PLACED if gang_state.gang.suffice(gang_state.gang.members) else Phase.WAITING
        case _:  # the phase stays while arrived pods replace their placeholders
            return Phase.RELEASED if _begun(gang_state) and gang_state.placeholders else Phase.NOMINATED


def _begun(gang_state: ReconcileState) -> bool:
    """Return whether a member of the gang has been released."""
    return any(not member.pod.gated_by(GATE) for member in gang_state.gang.members)


def _phase_of_answer(gang_state: ReconcileState) -> Phase:
    if gang_state.decision is None:
        return Phase.WAITING
    if gang_state.decision.outcome is Outcome.PLACED and gang_state.record is None:
        return Phase.PLACED  # the minimum runs; further members wait for capacity
    if gang_state.record is not None and gang_state.record.victims:
        return Phase.EVICTING
    return _OUTCOMES[gang_state.decision.outcome]


class Reporter:
    """Writes the statuses of Gang objects, the conditions of their members, and events on both."""

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

    def ref(self, gang_state: ReconcileState) -> ObjectRef:
        """Return a reference to the gang's Gang object, for events."""
        uid = gang_state.manifest["metadata"].get("uid", "")
        return ObjectRef(API_VERSION, GANG_KIND, gang_state.namespace, gang_state.name, uid)

    def report(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> Mapping[GangKey, Effects]:
        """Write the statuses of gangs and the conditions of members at the end of a reconcile. Return the effects.

        Gangs whose plan is being carried out come first, and all of them are reported. The others are reported in turns
        of their namespaces, as many as the time allows. The rest is left for the next reconcile.
        """
        telling = [gang_state for gang_state in gang_states if not gang_state.deferred]
        effects = self._report([gang_state for gang_state in telling if gang_state.on_its_way], cluster_view)
        turn = turn_of(gang_states)
        over = self._clock.monotonic() + turn.seconds
        others = in_turns((each for each in telling if not each.on_its_way), lambda each: each.gang.key.namespace)
        while (batch := list(islice(others, turn.batch))) and self._clock.monotonic() < over:
            effects |= self._report(batch, cluster_view)
        return effects | {each.gang.key: Effects(follow_up=FollowUp.REPORT) for each in (*batch, *others)}

    def _report(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> dict[GangKey, Effects]:
        able = [each for each in gang_states if not self._failed(each)]
        effects = {each.gang.key: Effects(failed=self._failed(each)) for each in gang_states}
        changes = [(each, self._tried(each, partial(self._due_change, each))) for each in able]
        effects |= {each.gang.key: _unless_changing(change) for each, change in changes if change is not None}
        changing = [(each, change) for each, change in changes if change is not None and change.patch]
        answers = self._writer.each(partial(self._tried, each, partial(self._send, each, to)) for each, to in changing)
        for (gang_state, change), written in zip(changing, answers, strict=True):
            if written is not None:
                taken = self._tried(gang_state, partial(self._take, gang_state, change, written))
                effects[gang_state.gang.key] = taken or NO_EFFECTS
        telling = [
            (each, self._tried(each, partial(self._untold, each, cluster_view))) for each in after(able, effects)
        ]
        self._writer.each(
            partial(self._tried, each, write) for each, untold in telling if untold for write in untold[0]
        )
        changed = {gang_state.gang.key for gang_state, _ in changing}
        for gang_state, untold in telling:
            key, failed = gang_state.gang.key, self._failed(gang_state)
            writes, reported = untold or ((), None)
            wrote = key in changed or bool(writes) or gang_state.effects.written
            if wrote or gang_state.failed or failed or (untold is None and gang_state.effects.watched):
                follow_up = FollowUp.RECONCILE
            else:
                follow_up = FollowUp.REPORT_LATER if untold is None else FollowUp.NONE
            effects[key] = effects[key].then(Effects(failed=failed, reported=reported, follow_up=follow_up))
        mute = [(each.gang.key, each.manifest) for each in after(gang_states, effects) if self._failed(each)]
        self._error_backoff.report(Activity.TELLING, mute, LEISURELY.batch)
        return effects

    def _failed(self, gang_state: ReconcileState) -> str:
        """Return the error message of a gang that backs off because reporting its state failed; "" for any other."""
        return self._error_backoff.message(gang_state.gang.key, Activity.TELLING)

    def _tried(self, gang_state: ReconcileState, call: Callable[[], _T]) -> _T | None:
        """Return the result of `call`. If `call` raises, return None; the gang then shows an internal error and backs
        off.
        """
        return self._error_backoff.run(gang_state.gang.key, Activity.TELLING, call)

    def write_status(self, gang_state: ReconcileState) -> tuple[bool, Effects]:
        """Write the status of the Gang object if it has changed. A new plan is recorded in this way.

        Return whether the object now has the wanted status, and the effects of the write. False if the object does not
        exist, or has changed since it was read; then a new plan must not be carried out.
        """
        change = self._change(gang_state)
        if change is None or not change.patch:
            return change is not None, NO_EFFECTS if change is None else _unless_changing(change)
        written = self._send(gang_state, change)
        return written.done, Effects.of([written]).then(self._take(gang_state, change, written))

    def _due_change(self, gang_state: ReconcileState) -> _Change | None:
        """Return the change of the status that should be written now (`_change`); None while the gang's members are
        being created.
        """
        return None if self._is_arriving(gang_state) else self._change(gang_state)

    def _change(self, gang_state: ReconcileState) -> _Change | None:
        """Return the wanted status and the patch that leads to it; None if the Gang object does not exist."""
        if not gang_state.manifest["metadata"].get("uid"):
            return None
        phase = phase_of(gang_state)
        notes = self._notes(gang_state, phase)
        status = self._status(gang_state, phase, notes)
        patch = status_patch(gang_state.status, status)
        plan_alone = _is_plan_alone(gang_state, phase, notes)
        if patch and plan_alone and gang_state.reported.plan_alone and _only_reworded(gang_state.status, status):
            patch = {}
        return _Change(status, patch, replace(_noted(gang_state, phase), plan_alone=plan_alone))

    def _send(self, gang_state: ReconcileState, change: _Change) -> Written:
        return self._writer.merge(f"{gang_state.path}/status", {"status": change.patch}, gang_state.manifest)

    def _take(self, gang_state: ReconcileState, change: _Change, written: Written) -> Effects:
        """Record the events of a status write if it succeeded. Return its effects; none if it failed."""
        if not written.done:
            return NO_EFFECTS
        effects = _with_status(gang_state, change.status, written)
        return effects.then(self._tell_change(gang_state.after(effects), gang_state.status, change))

    def planned(self, gang_state: ReconcileState, decision: Decision) -> None:
        """Record the event for a new plan: MemberReplaced if members run already, else GangPlanned."""
        repair = any(member.pod.bound for member in gang_state.gang.members)
        reason = events.MEMBER_REPLACED if repair else events.GANG_PLANNED
        self._tell(gang_state, reason, _decided(gang_state.gang, decision.message))

    def taken_over(self, gang_state: ReconcileState, successors: Mapping[str, ObjectMeta]) -> Effects:
        """Replace expected pods by arrived pods in the plan of the Gang's status.

        The effects contain the changed Gang object. Without one, the write failed.

        :param successors: the metadata of each arrived pod, by the identifier of the expected pod that it replaces.
        """
        patch = successors_patch(gang_state.status, successors)
        written = self._writer.merge(f"{gang_state.path}/status", {"status": patch}, gang_state.manifest)
        effects = Effects.of([written])
        return (
            effects.then(_with_status(gang_state, {**gang_state.status, **patch}, written)) if written.done else effects
        )

    def nominated(self, gang_state: ReconcileState, members: Sequence[Planned]) -> None:
        """Record an event for a plan whose capacity is reserved for all members."""
        nodes = compressed(member.node for member in members)
        self._tell(gang_state, events.GANG_NOMINATED, f"capacity is reserved for {pods(len(members))} on {nodes}")

    def invalidated(self, gang_state: ReconcileState, step: NeedPlan) -> None:
        """Record, by metric and event, that a plan was invalidated before its gang was released.

        A schedule timeout gets no event here, because its event is recorded with the status.
        """
        if step.cause is None:
            return
        self._metrics.invalidated(step.cause)
        again = ": the capacity is freed and the gang is planned again" if step.stale else ""
        if step.cause is Cause.EVICTION_REFUSED or (again and step.cause is not Cause.TIMED_OUT):
            _log(gang_state, EVENT_OF_CAUSE[step.cause], step.message + again)
            self._recorder.record(self.ref(gang_state), EVENT_OF_CAUSE[step.cause], step.message + again)

    def unbound(self, gang_state: ReconcileState, members: Sequence[Planned]) -> None:
        """Record an event for each released member that has lost its nomination, because the scheduler found no
        capacity for the member.
        """
        for member in members:
            note = (
                f"cannot bind on {member.node}, where its gang's plan put it; "
                "the capacity is reserved for it once it is free"
            )
            self._recorder.record(_pod_ref(member.pod), events.MEMBER_UNBOUND, note, related=self.ref(gang_state))

    def evicted(self, gang_state: ReconcileState, victim: PlannedVictim) -> None:
        """Record the eviction of a victim, with events on the victim and on the gang that name each other."""
        self._metrics.evicted(gang_state.gang.key.dialect)
        pod = ObjectRef("v1", "Pod", victim.namespace, victim.name, victim.uid)
        gang = self.ref(gang_state)
        note = f"evicted for gang {gang_state.gang.key}, which needs its room on {victim.node}"
        self._recorder.record(pod, events.PREEMPTED, note, related=gang)
        note = f"evicted {victim.namespace}/{victim.name} from {victim.node}"
        _log(gang_state, events.VICTIM_EVICTED, note)
        self._recorder.record(gang, events.VICTIM_EVICTED, note, related=pod)

    def gangs_evicted(
        self, gang_state: ReconcileState, victims: Iterable[PlannedVictim], cluster_view: ClusterView
    ) -> None:
        """Record events on the gangs of evicted members, and on their workloads. The events name the evicting gang."""
        by = f"gang {gang_state.gang.key} of priority {gang_state.gang.priority}"
        for gang, members in evicted_gangs(victims, cluster_view):
            note = f"{pods(len(members))} evicted for {by}, on {compressed(each.node for each in members)}"
            for ref in objects_of(gang, cluster_view):
                self._recorder.record(ref, events.GANG_EVICTED, note, related=self.ref(gang_state))

    def set_free(self, gang_state: ReconcileState, pod: Pod) -> None:
        """Record the event for a gated member that was deleted so that its controller recreates it without its pin."""
        note = (
            f"deleted to be recreated: it was tied to siblings of gang {gang_state.gang.key} that are gone, "
            "and the gang fits nowhere with it"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_SET_FREE, note, related=self.ref(gang_state))

    def taken_back(self, gang_state: ReconcileState, pod: Pod, seconds: float) -> None:
        """Record an event for a released member whose capacity Phalanx has freed, because the member's scheduler has
        not tried it.

        :param seconds: the time within which the scheduler should have tried it.
        """
        note = (
            f"{pod.spec.scheduler_name} has not tried it within {seconds:g} s of its release; "
            f"its capacity is freed, and the message of gang {gang_state.gang.key} says what becomes of it"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_UNTRIED, note, related=self.ref(gang_state))

    def withdrawn(self, gang_state: ReconcileState, pods: Iterable[Pod], withdrawal: Withdrawal) -> None:
        """Record, by metric and events, that a gang was withdrawn or restarted.

        :param pods: the members that were evicted for this.
        """
        restart, why = withdrawal.reason is WithdrawalReason.RESTARTED, withdrawal.in_full
        (self._metrics.restarted if restart else self._metrics.withdrawn).inc()
        self._tell(gang_state, events.GANG_RESTARTED if restart else events.GANG_WITHDRAWN, why)
        of = f"gang {gang_state.gang.key}"
        reason = events.MEMBER_RESTARTED if restart else events.MEMBER_WITHDRAWN
        for pod in pods:
            note = f"evicted: {f'with all of {of}' if restart else f'{of} has begun and cannot become whole'}; {why}"
            self._recorder.record(_pod_ref(pod), reason, note, related=self.ref(gang_state))

    def made_again(self, gang_state: ReconcileState, pod: Pod) -> None:
        """Record the event for a member that was deleted because it names a scheduler that does not run here.

        Its controller recreates it, and the webhook makes the new pod name the stock scheduler.
        """
        note = (
            f"deleted to be recreated for {STOCK_SCHEDULER}: {pod.spec.scheduler_name}, which it names, "
            f"does not run here (gang {gang_state.gang.key})"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_MADE_AGAIN, note, related=self.ref(gang_state))

    def released(self, gang_state: ReconcileState, members: Sequence[Planned]) -> None:
        """Record the event for the release of these members."""
        self._tell(
            gang_state,
            events.GANG_RELEASED,
            f"released {pods(len(members))} to {'its node' if len(members) == 1 else 'their nodes'}",
        )

    def _notes(self, gang_state: ReconcileState, phase: Phase) -> Notes:
        """Return the facts that the gang's status reports besides its plan."""
        stuck = gang_state.step.stranded if isinstance(gang_state.step, AwaitBinding) else ()
        effects = gang_state.effects
        reason, message = about_devices(gang_state.step) if phase is Phase.NOMINATED else ("", "")
        if isinstance(gang_state.step, AwaitPods):
            message = predecessors_message(gang_state.step.predecessors)
        return Notes(
            reason=ROOM_TAKEN if stuck else reason,
            message=gang_state.failed or wording.stranded(stuck) or message,
            untried="; ".join(filter(None, (effects.untried, effects.stays))),
            devices=effects.awaited or (devices_not_held(gang_state.gang, gang_state.record) if phase.planned else ""),
            timed_out=False if gang_state.timed_out and phase.released else gang_state.timed_out,
            withdrawal=effects.withdrawal,
        )

    def _status(self, gang_state: ReconcileState, phase: Phase, notes: Notes) -> dict[str, Any]:
        generation = gang_state.manifest["metadata"].get("generation")
        return gang_status(
            gang_state.gang,
            phase,
            now=rfc3339(self._clock.wall()),
            decision=gang_state.decision,
            plan_id=gang_state.record.plan_id if gang_state.record else "",
            present=PresentObject(gang_state.status, generation, mark_of(gang_state.gang)),
            notes=notes,
        )

    def _tell_change(self, gang_state: ReconcileState, before: Mapping[str, Any], change: _Change) -> Effects:
        """Record the events for a changed status. Return the effects, which contain all messages reported so far.

        :param before: the status before the change.
        """
        status, noted, reported = change.status, change.noted, gang_state.reported
        phase, untried = Phase(status["phase"]), gang_state.effects.untried
        if untried and untried != reported.untried:
            self._tell(gang_state, events.GANG_UNTRIED, untried)
        changed = before.get("phase") != phase.value
        recounted = phase is Phase.WAITING and noted.waiting == reported.waiting
        reworded = changed or (before.get("message") != status["message"] and not recounted)
        if phase in _REASONS and (changed if phase is Phase.PLACED else reworded):
            self._tell(gang_state, _reason(gang_state, phase), _decided(gang_state.gang, status["message"]))
        elif status["reason"] == ROOM_TAKEN and reworded:
            self._tell(gang_state, events.MEMBER_UNBOUND, status["message"])
        return Effects(reported=noted)

    def _tell(self, gang_state: ReconcileState, reason: Reason, note: str) -> None:
        """Record an event on the gang, and on the workload that asked for it unless only the gang gets such events."""
        _log(gang_state, reason, note)
        self._recorder.record(self.ref(gang_state), reason, note)
        asked_by = gang_state.gang.source
        if asked_by.kind not in (GANG_KIND, "Pod") and asked_by.uid and reason.name not in _STEPS_OF_OUR_OWN:
            self._recorder.record(asked_by, reason, note, related=self.ref(gang_state))

    def pod_conditions(
        self, gang_state: ReconcileState, decision: Decision, cluster_view: ClusterView
    ) -> Mapping[str, Condition]:
        """Return the wanted PodScheduled condition of each member that is not bound, after this decision, by UID."""
        return {p.metadata.uid: each for p, each in member_conditions(gang_state.gang, decision, cluster_view)}

    def _is_arriving(self, gang_state: ReconcileState) -> bool:
        """Return whether the gang is new and lacks members that are being created right now, so its status can wait.

        Each arrival would be one more write of the status, and the first of them two more events. The state of the gang
        is reported once no member has arrived for `BURST_SECONDS`, or `LONGEST_BURST_SECONDS` after its creation.
        """
        gang = gang_state.gang
        if gang_state.failed or gang_state.status.get("phase") not in (None, Phase.WAITING.value):
            return False
        if phase_of(gang_state) is not Phase.WAITING or not created_now(gang, self._clock.wall()):
            return False
        return bool(gang.waiting_for or missing_members(gang))

    def _too_early(self, gang_state: ReconcileState) -> bool:
        """Return whether the conditions of a waiting gang's members are not written yet, because members still arrive.

        The message counts the members, so each arrival would change the conditions of all of them.
        """
        waiting = gang_state.decision is not None and gang_state.decision.outcome is Outcome.WAITING
        return waiting and still_coming(gang_state.gang, self._clock.wall())

    def _untold(self, gang_state: ReconcileState, cluster_view: ClusterView) -> tuple[list[Write], Reported] | None:
        """Return the writes of members' conditions that are due, and the messages that events have reported on the
        members.

        None while more members arrive, because each arrival changes the messages. Members in the plan are left out,
        because the nomination wrote their conditions.
        """
        if self._too_early(gang_state) or self._is_arriving(gang_state):
            return None
        planned = {member.uid for member in gang_state.record.members} if gang_state.record else set()
        there = (member.pod for member in gang_state.gang.members if not to_come(member.pod))
        gated = (pod for pod in there if pod.gated_by(GATE))  # the scheduler writes the condition of released pods
        pods = [pod for pod in gated if pod.metadata.uid not in planned]
        if not pods or gang_state.decision is None:
            return [], self._tell_pods(gang_state, ())
        conditions = self.pod_conditions(gang_state, gang_state.decision, cluster_view)
        pods = [pod for pod in pods if pod.metadata.uid in conditions]
        reported = self._tell_pods(gang_state, [(pod, conditions[pod.metadata.uid]) for pod in pods[:PODS_TOLD]])
        writes: list[Write] = [
            partial(self._writer.condition, pod, conditions[pod.metadata.uid])
            for pod in pods
            if differs(pod, conditions[pod.metadata.uid])
        ]
        return writes, reported

    def _tell_pods(self, gang_state: ReconcileState, wanted: Iterable[tuple[Pod, Condition]]) -> Reported:
        """Record an event on each gated member that gets another message, unless only counts change."""
        reported, topics = gang_state.reported, dict[str, Topic]()
        if gang_state.decision is None:
            return reported
        for pod, condition in wanted:
            uid, message = pod.metadata.uid, condition["message"]
            topics[uid] = gang_state.decision.line.topic if condition["reason"] == GATED else (message,)
            if differs(pod, condition) and reported.members.get(uid) != topics[uid]:
                self._recorder.record(_pod_ref(pod), events.MEMBER_WAITING, message, related=self.ref(gang_state))
        return replace(reported, members=topics)


def _unless_changing(change: _Change) -> Effects:
    """Return the messages that the status reports as an effect; none while they must still be written."""
    return Effects(reported=None if change.patch else change.noted)


def _is_plan_alone(gang_state: ReconcileState, phase: Phase, notes: Notes) -> bool:
    """Return whether the gang's status reports a plan with reserved capacity, and nothing besides it."""
    return phase is Phase.NOMINATED and not gang_state.gang.to_come and notes == Notes(timed_out=notes.timed_out)


def _only_reworded(before: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether the messages of both statuses differ, and nothing else.

    If both statuses report a plan and nothing besides it, the second one need not be written: the release follows at
    once.
    """
    return _without_messages(before) == _without_messages(status)


def _without_messages(status: Mapping[str, Any]) -> dict[str, Any]:
    facts = [(each["type"], each["status"], each["reason"]) for each in status.get("conditions") or ()]
    return {**status, "message": "", "conditions": facts}


def _log(gang_state: ReconcileState, reason: Reason, note: str) -> None:
    """Log an event on a gang. With `--log-format json`, gang, dialect, reason and plan are separate fields."""
    fields = {"gang": str(gang_state.gang.key), "dialect": gang_state.gang.key.dialect, "reason": reason.name}
    if gang_state.record is not None:
        fields["plan"] = gang_state.record.plan_id
    LOG.info("gang %s: %s", gang_state.gang.key, note, extra=fields)


def _with_status(gang_state: ReconcileState, status: dict[str, Any], written: Written) -> Effects:
    """Return the effects of a status write that succeeded: the Gang object with the new status and resourceVersion."""
    metadata = {**gang_state.manifest["metadata"], "resourceVersion": written.version}
    return Effects(manifest={**gang_state.manifest, "metadata": metadata, "status": status})


def _noted(gang_state: ReconcileState, phase: Phase) -> Reported:
    """Return the messages that the gang's status reports in this phase, as topics.

    A topic has no counts, so the arrival of a member, which only changes a count, causes no event.
    """
    waiting = _topic(gang_state) if phase is Phase.WAITING else None
    return replace(gang_state.reported, untried=gang_state.effects.untried, waiting=waiting)


def _topic(gang_state: ReconcileState) -> Topic:
    """Return the parts of a waiting gang's status message without its counts."""
    effects = gang_state.effects
    withdrawal = effects.withdrawal or still_withdrawn(gang_state.status, released=False)
    line = waiting_line(gang_state.gang, gang_state.decision)
    return *line.topic, effects.failed, effects.untried, effects.stays, withdrawal


def _reason(gang_state: ReconcileState, phase: Phase) -> Reason:
    if gang_state.expired_now:
        return events.GANG_TIMED_OUT
    if phase is Phase.UNPLACEABLE and any(member.pod.bound for member in gang_state.gang.members):
        return events.MEMBER_IRREPLACEABLE
    return _REASONS[phase]


def _decided(gang: Gang, message: str) -> str:
    """Return the message with the topology and the levels that the gang asks for, which users look for in events.

    A gang that asks for no topology gets the message as it is.
    """
    if gang.topology is None:
        return message
    asked = (("required", gang.required), ("preferred", gang.preferred))
    levels = [f"{mode} {level}" for mode, level in asked if level is not None]
    return f"{message} (topology {', '.join([gang.topology, *levels])})"


def _pod_ref(pod: Pod) -> ObjectRef:
    meta = pod.metadata
    return ObjectRef("v1", "Pod", meta.namespace, meta.name, meta.uid)
