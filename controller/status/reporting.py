"""Says how every gang stands: Gang status, the members' own conditions, events. Writes only what has changed."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, zip_longest
from time import monotonic
from typing import Any

from controller.cluster_view import ClusterView
from controller.gang_round import GangRound
from controller.gang_status import ROOM_TAKEN, Phase, gang_status, status_patch
from controller.release.protocol import (
    AllBound,
    AwaitBinding,
    AwaitPods,
    AwaitVictims,
    Cause,
    Evict,
    NeedPlan,
    Planned,
    Renominate,
)
from controller.release.records import PlannedVictim, heirs_patch
from controller.status.conditions import Condition, differs, member_conditions
from controller.status.mirrors import GANG_KIND, mark_of
from controller.telemetry import events
from controller.telemetry.events import Reason, Recorder
from controller.telemetry.metrics import Metrics
from controller.times import now, still_coming
from controller.writes.writer import Write, Writer, Written
from gangs.model import Gang, ObjectRef
from kube.keys import API_VERSION, GATE, STOCK_SCHEDULER
from kube.objects import ObjectMeta, Pod
from kube.placeholders import to_come
from planning.decision import Outcome
from planning.messages import wording
from planning.messages.wording import compressed, pods

LOG = logging.getLogger(__name__)

TURN_SECONDS = 0.2
"""How long a round may tell of gangs that are not on their way: those on their way wait for the next one."""
HURRIED_SECONDS = 0.04
"""Likewise in a round that some gang waits for: what tells how others wait must not keep it."""
BATCH = 16
"""Of how many gangs is told at once."""

_Change = tuple[dict[str, Any], dict[str, Any]]
"""A status, and the merge patch that makes it so."""

_REASONS: Mapping[Phase, Reason] = {
    Phase.WAITING: events.GANG_WAITING,
    Phase.UNPLACEABLE: events.GANG_UNPLACEABLE,
    Phase.INVALID: events.GANG_INVALID,
    Phase.PLACED: events.GANG_PLACED,
}
"""Phases that are events: when they begin, and those before a plan also when their message changes."""

EVENT_OF_CAUSE: Mapping[Cause, Reason] = {
    Cause.ROOM_LOST: events.ROOM_LOST,
    Cause.MEMBER_GONE: events.ROOM_LOST,
    Cause.REQUEST_CHANGED: events.ROOM_LOST,
    Cause.EVICTION_REFUSED: events.EVICTION_REFUSED,
    Cause.TIMED_OUT: events.GANG_TIMED_OUT,
}
"""What is said when a plan falls before its gang was let go."""

EVENT_OF_PHASE: Mapping[Phase, Reason] = {
    **_REASONS,
    Phase.NOMINATED: events.GANG_NOMINATED,
    Phase.EVICTING: events.VICTIM_EVICTED,
    Phase.RELEASED: events.GANG_RELEASED,
}
"""What is said when a gang gets there: of the last three by the step itself."""

_OUTCOMES: Mapping[Outcome, Phase] = {
    Outcome.PLACED: Phase.NOMINATED,
    Outcome.WAITING: Phase.WAITING,
    Outcome.UNPLACEABLE: Phase.UNPLACEABLE,
    Outcome.INVALID: Phase.INVALID,
}


def phase_of(case: GangRound) -> Phase:
    """Where the gang stands once this round's step is done."""
    match case.step:
        case NeedPlan():
            return _phase_of_answer(case)
        case Evict() | AwaitVictims():
            return Phase.EVICTING
        case AwaitBinding() | Renominate() | AwaitPods():
            return Phase.RELEASED
        case AllBound():
            return Phase.PLACED if case.gang.suffice(case.gang.members) else Phase.WAITING
        case _:  # while pods come for room that is held for them, the gang goes on as it is
            begun = any(not member.pod.gated_by(GATE) for member in case.gang.members)
            return Phase.RELEASED if begun and case.placeholders else Phase.NOMINATED


def _phase_of_answer(case: GangRound) -> Phase:
    if case.decision is None:
        return Phase.WAITING
    if case.decision.outcome is Outcome.PLACED and case.record is None:
        return Phase.PLACED  # what must run runs; members beyond the minimum wait for room
    if case.record is not None and case.record.victims:
        return Phase.EVICTING
    return _OUTCOMES[case.decision.outcome]


class Reporter:
    """Tells people and programs."""

    def __init__(self, writer: Writer, recorder: Recorder, metrics: Metrics) -> None:
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics

    def ref(self, case: GangRound) -> ObjectRef:
        """The gang's own object, for events."""
        uid = case.manifest["metadata"].get("uid", "")
        return ObjectRef(API_VERSION, GANG_KIND, case.namespace, case.name, uid)

    def report(self, cases: Sequence[GangRound], picture: ClusterView) -> None:
        """Bring statuses and conditions up to date after the round's work: of gangs on their way all, of the others as
        many as there is time for, one of each namespace after the other. The rest is left for the rounds to come.
        """
        telling = [case for case in cases if not case.deferred]
        self._report([case for case in telling if case.on_its_way], picture)
        over = monotonic() + turn_seconds(cases)
        others = in_turns(case for case in telling if not case.on_its_way)
        while (batch := list(islice(others, BATCH))) and monotonic() < over:
            self._report(batch, picture)
        for case in (*batch, *others):
            case.behind, case.resting = True, False

    def _report(self, cases: Sequence[GangRound], picture: ClusterView) -> None:
        changes = [(case, self._change(case)) for case in cases]
        changing = [(case, change) for case, change in changes if change is not None]
        written = self._writer.all(partial(self._send, case, change) for case, change in changing)
        for (case, wanted), answer in zip(changing, written, strict=True):
            self._take(case, wanted, answer)
        telling = [(case, None if self._too_early(case) else self._untold(case, picture)) for case in cases]
        self._writer.all(write for _, writes in telling for write in writes or ())
        for (case, change), (_, writes) in zip(changes, telling, strict=True):
            case.behind = False
            case.resting = change is None and writes == [] and not case.writing

    def write_status(self, case: GangRound) -> bool:
        """Write the Gang's status where it has changed. Returns whether it stands as it should.

        There is nothing to write on while the Gang that the pods name does not exist (any more). A plan is recorded so:
        where the Gang has changed since it was looked at, nothing is, and nothing of the plan is carried out.
        """
        if not case.manifest["metadata"].get("uid"):
            return False
        change = self._change(case)
        return change is None or self._take(case, change, self._send(case, change))

    def _change(self, case: GangRound) -> _Change | None:
        """The status as it should be, and the patch that makes it so; None where nothing is to be written."""
        if not case.manifest["metadata"].get("uid"):
            return None
        status = self._status(case)
        patch = status_patch(case.status, status)
        return (status, patch) if patch else None

    def _send(self, case: GangRound, change: _Change) -> Written:
        return self._writer.merge(f"{case.path}/status", {"status": change[1]}, case.manifest)

    def _take(self, case: GangRound, change: _Change, written: Written) -> bool:
        """Go on from the status that was written; whether it was."""
        if written.done:
            before, status = case.status, change[0]
            metadata = {**case.manifest["metadata"], "resourceVersion": written.version}
            case.manifest = {**case.manifest, "metadata": metadata, "status": status}
            self._tell_change(case, before, status)
        return written.done

    def planned(self, case: GangRound) -> None:
        """A plan was found and recorded: for the gang, or for a member that was lost."""
        if case.decision:
            repair = any(member.pod.bound for member in case.gang.members)
            reason = events.MEMBER_REPLACED if repair else events.GANG_PLANNED
            self._tell(case, reason, _decided(case.gang, case.decision.message))

    def taken_over(self, case: GangRound, heirs: Mapping[str, ObjectMeta]) -> bool:
        """Record who has come for the places of a plan, by the seats that they take. Whether it stands there."""
        written = self._writer.merge(
            f"{case.path}/status", {"status": (patch := heirs_patch(case.status, heirs))}, case.manifest
        )
        if written.done:
            metadata = {**case.manifest["metadata"], "resourceVersion": written.version}
            case.manifest = {**case.manifest, "metadata": metadata, "status": {**case.status, **patch}}
        return written.done

    def nominated(self, case: GangRound, members: Sequence[Planned]) -> None:
        """Room is held for every member of the plan."""
        nodes = compressed(member.node for member in members)
        self._tell(case, events.GANG_NOMINATED, f"room is held for {pods(len(members))} on {nodes}")

    def invalidated(self, case: GangRound, step: NeedPlan) -> None:
        """A plan fell before its gang was let go. Time that is over has its own event, when the status says so."""
        if step.cause is None:
            return
        self._metrics.invalidated(step.cause)
        again = ": the room is given back and the gang is planned again" if step.stale else ""
        if step.cause is Cause.EVICTION_REFUSED or (again and step.cause is not Cause.TIMED_OUT):
            _log(case, EVENT_OF_CAUSE[step.cause], step.message + again)
            self._recorder.record(self.ref(case), EVENT_OF_CAUSE[step.cause], step.message + again)

    def unbound(self, case: GangRound, members: Sequence[Planned]) -> None:
        """Released members have lost their nomination: the scheduler found no room where the plan put them."""
        for member in members:
            note = (
                f"cannot bind on {member.node}, where its gang's plan put it; the room is held for it once it is free"
            )
            self._recorder.record(_pod_ref(member.pod), events.MEMBER_UNBOUND, note, related=self.ref(case))

    def evicted(self, case: GangRound, victim: PlannedVictim) -> None:
        """A victim was evicted: it and the gang name each other."""
        self._metrics.evicted(case.gang.key.dialect)
        pod = ObjectRef("v1", "Pod", victim.namespace, victim.name, victim.uid)
        gang = self.ref(case)
        note = f"evicted for gang {case.gang.key}, which needs its room on {victim.node}"
        self._recorder.record(pod, events.PREEMPTED, note, related=gang)
        note = f"evicted {victim.namespace}/{victim.name} from {victim.node}"
        _log(case, events.VICTIM_EVICTED, note)
        self._recorder.record(gang, events.VICTIM_EVICTED, note, related=pod)

    def set_free(self, case: GangRound, pod: Pod) -> None:
        """A gated member goes, for its controller to make it again where the gang can be placed."""
        note = (
            f"deleted to be made again: it was tied to siblings of gang {case.gang.key} that are gone, "
            "and the gang fits nowhere with it"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_SET_FREE, note, related=self.ref(case))

    def taken_back(self, case: GangRound, pod: Pod, seconds: float) -> None:
        """A member was let go, and nobody has tried it."""
        note = (
            f"{pod.spec.scheduler_name} has not tried it within {seconds:g} s of its release; "
            f"its room is given back, and the message of gang {case.gang.key} says what becomes of it"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_UNTRIED, note, related=self.ref(case))

    def withdrawn(self, case: GangRound, pods: Iterable[Pod], why: str) -> None:
        """Members of a gang that never became whole are evicted."""
        self._metrics.withdrawn.inc()
        self._tell(case, events.GANG_WITHDRAWN, why)
        for pod in pods:
            note = f"evicted: gang {case.gang.key} has begun and cannot become whole; {why}"
            self._recorder.record(_pod_ref(pod), events.MEMBER_WITHDRAWN, note, related=self.ref(case))

    def made_again(self, case: GangRound, pod: Pod) -> None:
        """A member goes, for its controller to make it again for the stock scheduler."""
        note = (
            f"deleted to be made again for {STOCK_SCHEDULER}: {pod.spec.scheduler_name}, which it names, "
            f"does not run here (gang {case.gang.key})"
        )
        self._recorder.record(_pod_ref(pod), events.MEMBER_MADE_AGAIN, note, related=self.ref(case))

    def released(self, case: GangRound, members: Sequence[Planned]) -> None:
        """The members were let go."""
        self._tell(case, events.GANG_RELEASED, f"released {len(members)} pods to their nodes")
        for member in members:
            note = f"released to {member.node} with gang {case.gang.key}"
            self._recorder.record(_pod_ref(member.pod), events.GANG_RELEASED, note, related=self.ref(case))

    def _status(self, case: GangRound) -> dict[str, Any]:
        phase = phase_of(case)
        stuck = case.step.stranded if isinstance(case.step, AwaitBinding) else ()
        over = False if case.timed_out and phase.released else case.timed_out
        return gang_status(
            case.gang,
            phase=phase,
            now=now(),
            decision=case.decision,
            plan_id=case.record.plan_id if case.record else "",
            previous=case.status,
            generation=case.manifest["metadata"].get("generation"),
            timed_out=over,
            untried=case.untried,
            withdrawn=case.withdrawn,
            reason=ROOM_TAKEN if stuck else "",
            message=wording.stranded(stuck),
            mirrors=mark_of(case.gang),
        )

    def _tell_change(self, case: GangRound, before: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        phase = Phase(status["phase"])
        if case.untried and case.untried not in before.get("message", ""):
            self._tell(case, events.GANG_UNTRIED, case.untried)
        changed = before.get("phase") != phase.value
        alike = _counted if phase is Phase.WAITING else str
        reworded = changed or alike(before.get("message", "")) != alike(status["message"])
        if phase in _REASONS and (changed if phase is Phase.PLACED else reworded):
            self._tell(case, _reason(case, phase), _decided(case.gang, status["message"]))
        elif status["reason"] == ROOM_TAKEN and reworded:
            self._tell(case, events.MEMBER_UNBOUND, status["message"])

    def _tell(self, case: GangRound, reason: Reason, note: str) -> None:
        """Record an event on the gang, and on the object that asked for it where that is another one."""
        _log(case, reason, note)
        self._recorder.record(self.ref(case), reason, note)
        if case.gang.source.kind not in (GANG_KIND, "Pod") and case.gang.source.uid:
            self._recorder.record(case.gang.source, reason, note, related=self.ref(case))

    def told(self, case: GangRound, picture: ClusterView) -> Mapping[str, Condition]:
        """What each member should say after this round's decision, by uid; empty where nothing was decided."""
        if case.decision is None:
            return {}
        return {p.metadata.uid: each for p, each in member_conditions(case.gang, case.decision, picture)}

    def _too_early(self, case: GangRound) -> bool:
        """Whether nothing is told to members, because more are just coming: each arrival would be news for all."""
        waiting = case.decision is not None and case.decision.outcome is Outcome.WAITING
        return waiting and still_coming(case.gang)

    def _untold(self, case: GangRound, picture: ClusterView) -> list[Write]:
        """The writes of conditions that differ, but of members that were nominated in this round: they have theirs."""
        planned = {member.uid for member in case.record.members} if case.record else set()
        told = self.told(case, picture) if case.decision else {}
        gated = (m.pod for m in case.gang.members if m.pod.gated_by(GATE))  # one that was let go speaks for itself
        waiting = (pod for pod in gated if not to_come(pod))
        pods = [pod for pod in waiting if pod.metadata.uid in told.keys() - planned]
        return [
            partial(self._writer.condition, pod, told[pod.metadata.uid])
            for pod in pods
            if differs(pod, told[pod.metadata.uid])
        ]


def turn_seconds(cases: Iterable[GangRound]) -> float:
    """How long a round may tell what is not urgent."""
    return HURRIED_SECONDS if any(case.on_its_way or case.deferred for case in cases) else TURN_SECONDS


def in_turns(cases: Iterable[GangRound]) -> Iterator[GangRound]:
    """One of each namespace after the other, so that nobody's many keep others waiting."""
    by_namespace: dict[str, list[GangRound]] = {}
    for case in cases:
        by_namespace.setdefault(case.gang.key.namespace, []).append(case)
    turns = zip_longest(*by_namespace.values())
    return (case for turn in turns for case in turn if case is not None)


def _log(case: GangRound, reason: Reason, note: str) -> None:
    """The same for the log, where gang, plan and reason are fields of their own (`--log-format json`)."""
    fields = {"gang": str(case.gang.key), "dialect": case.gang.key.dialect, "reason": reason.name}
    if case.record is not None:
        fields["plan"] = case.record.plan_id
    LOG.info("gang %s: %s", case.gang.key, note, extra=fields)


def _counted(message: str) -> str:
    """A message without its numbers: as members come and go, each count would else be an event of its own."""
    return re.sub(r"\d+ more pods?|\d+ of \d+", "", message)


def _reason(case: GangRound, phase: Phase) -> Reason:
    if case.expired_now:
        return events.GANG_TIMED_OUT
    if phase is Phase.UNPLACEABLE and any(member.pod.bound for member in case.gang.members):
        return events.MEMBER_IRREPLACEABLE
    return _REASONS[phase]


def _decided(gang: Gang, message: str) -> str:
    """What was decided, with the topology and the levels by which it was: people look for these among events."""
    if gang.topology is None:
        return message
    asked = (("required", gang.required), ("preferred", gang.preferred))
    levels = [f"{mode} {level}" for mode, level in asked if level is not None]
    return f"{message} (topology {', '.join([gang.topology, *levels])})"


def _pod_ref(pod: Pod) -> ObjectRef:
    meta = pod.metadata
    return ObjectRef("v1", "Pod", meta.namespace, meta.name, meta.uid)
