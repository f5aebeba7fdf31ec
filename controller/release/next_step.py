"""What is to be done next for one gang: a pure function of what the cluster holds (docs/decisions/0001).

The way of a gang: plan → nominate → evict → await victims → verify → release → watch. Every step is derived anew from
gates, nominations and the plan recorded in the Gang's status, so a controller that was killed goes on where it stood.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from cluster.node_state import Tenant
from cluster.snapshot import Snapshot
from controller.release.records import PlannedVictim, PlanRecord
from controller.release.request_digest import asks_as_in
from controller.release.verifying import lost_room
from gangs.model import Gang, Member
from kube.keys import GATE, PLAN, TAKEN_BACK
from kube.objects import Pod
from kube.placeholders import is_seat, matched, role_of_seat, to_come
from kube.scheduling import tried
from planning.framing.stranded import Stranded, stranded


@dataclass(frozen=True, slots=True)
class Planned:
    """A member that still has to be bound, with its node. One that is to come may have a `placeholder` there."""

    pod: Pod
    node: str
    placeholder: Pod | None = None

    @property
    def gated(self) -> bool:
        """Whether it has not been let go yet."""
        return self.pod.gated_by(GATE)

    @property
    def taken_back(self) -> bool:
        """Whether its room was given back because its scheduler lets it wait (`controller.acting.untried`)."""
        return TAKEN_BACK in self.pod.metadata.annotations and not tried(self.pod)

    def nominated_by(self, plan_id: str) -> bool:
        """Whether its nomination is this plan's and still stands."""
        holder = self.placeholder or self.pod
        return holder.status.nominated_node_name == self.node and holder.metadata.annotations.get(PLAN) == plan_id


class Cause(Enum):
    """Why a plan fell before its gang was let go."""

    ROOM_LOST = "RoomLost"
    POD_OVERDUE = "PodOverdue"
    """A terminating pod outlives its grace period on a node of the plan."""
    MEMBER_GONE = "MemberGone"
    REQUEST_CHANGED = "RequestChanged"
    EVICTION_REFUSED = "EvictionRefused"
    QUOTA_SHORT = "QuotaShort"
    ROOM_UNWANTED = "RoomUnwanted"
    TIMED_OUT = "TimedOut"


@dataclass(frozen=True, slots=True)
class NeedPlan:
    """Gated members have no plan: `message` says why an earlier one fell, `stale` are nominations to be dropped."""

    message: str = ""
    stale: tuple[Pod, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Nominate:
    """Hold the room: write nominations that are missing."""

    members: tuple[Planned, ...]


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict victims that are still running."""

    victims: tuple[PlannedVictim, ...]


@dataclass(frozen=True, slots=True)
class AwaitVictims:
    """Victims are on their way out; the gated members hold their room."""

    victims: tuple[PlannedVictim, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """All is in place: verify against what the scheduler has seen, then let these members go."""

    members: tuple[Planned, ...]


class Delay(Enum):
    """Why a step that is due waits for a later round."""

    DISPLACED = "Displaced"
    """A plan that this round accepts, or has yet to nominate, takes capacity that the gang reserves."""
    HANDOVER = "Handover"
    """A new leader has not planned the waiting gangs of higher priority yet."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """A step that is not carried out in this round. The next round derives the gang's step anew."""

    step: Evict | Release
    delay: Delay


@dataclass(frozen=True, slots=True)
class Renominate:
    """Released members lost their nomination but their room is free (again): hold it until the scheduler tries anew."""

    members: tuple[Planned, ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Pods have come for which room was held: they get it. Or gated ones are gone, and what stands for those that will
    come in their place gets it. By uid: whose places they take.
    """

    heirs: tuple[tuple[str, Planned], ...]


@dataclass(frozen=True, slots=True)
class Free:
    """Delete placeholders that nobody needs any more: their pods are nominated, or will never come."""

    placeholders: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class AwaitPods:
    """Every member that exists was let go; room is held for those that their workload has yet to make."""

    members: tuple[Planned, ...]


@dataclass(frozen=True, slots=True)
class AwaitBinding:
    """Every member was let go; the scheduler binds, but those that are `stranded`: their nodes take them no more."""

    members: tuple[Planned, ...]
    stranded: tuple[Stranded, ...] = ()


@dataclass(frozen=True, slots=True)
class AllBound:
    """Nothing to be done: every member that exists is bound."""


Step = (
    NeedPlan
    | Nominate
    | Evict
    | AwaitVictims
    | TakeOver
    | Free
    | Release
    | Postponed
    | Renominate
    | AwaitBinding
    | AwaitPods
    | AllBound
)


@dataclass(frozen=True, slots=True)
class Situation:
    """A gang, the plan in progress if there is one, and the cluster around them."""

    gang: Gang
    record: PlanRecord | None
    snapshot: Snapshot
    live: Mapping[str, Pod]
    """Every pod that exists, by uid."""
    placeholders: Mapping[str, Pod] = field(default_factory=dict)
    """The gang's own, by the seats that they are for."""

    def surplus(self) -> tuple[Pod, ...]:
        """Placeholders for seats that are in no plan, or that nobody is going to take."""
        present = {member.pod.metadata.uid for member in self.gang.members}
        planned = {member.uid for member in self.record.members} if self.record is not None else set()
        return tuple(pod for seat, pod in self.placeholders.items() if seat not in planned & present)

    def lost(self, planned: Iterable[Planned], *, gone: Iterable[str] = (), count_terminating: bool = False) -> str:
        """Why these members do not fit where they were planned any more; "" while they do."""
        return lost_room(
            ((member.pod, member.node) for member in planned),
            self.snapshot,
            priority=self.gang.priority,
            gone=(*gone, *(pod.metadata.uid for pod in self.surplus())),
            count_terminating=count_terminating,
        )


def next_step(situation: Situation) -> Step:
    """Decide what the gang needs next."""
    if heirs := _heirs(situation):
        return TakeOver(heirs)
    step = _next_step(situation)
    surplus = situation.surplus() if not isinstance(step, Nominate) else ()
    if isinstance(step, NeedPlan):
        # What is left of seats that were taken would be in the way of the plan for those that were lost meanwhile.
        if surplus and situation.gang.made_again and situation.record is not None and step.cause is None:
            return Free(surplus)
        return replace(step, stale=(*step.stale, *situation.placeholders.values()))
    return Free(surplus) if surplus else step


def _heirs(situation: Situation) -> tuple[tuple[str, Planned], ...]:
    """Gated members that came after the plan, each with the seat in it that was theirs, and its node."""
    record = situation.record
    if record is None:
        return ()
    present = {member.pod.metadata.uid for member in situation.gang.members}
    left = {(role_of_seat(m.uid), m.name): m for m in record.members if is_seat(m.uid) and m.uid not in present}
    new = {
        (member.pod_set, member.pod.metadata.name): member.pod
        for member in situation.gang.members
        if member.pod.gated_by(GATE) and not to_come(member.pod) and not record.node_of(member.pod.metadata.uid)
    }
    taken = matched(left, new)
    come = (
        (left[role, taken[name]].uid, Planned(pod, left[role, taken[name]].node))
        for (role, name), pod in new.items()
        if name in taken
    )
    return (*come, *_heirs_of_gone(situation.gang, record, present))


def _heirs_of_gone(gang: Gang, record: PlanRecord, present: Collection[str]) -> Iterator[tuple[str, Planned]]:
    """Members that stand for the pods to come in place of planned ones that are gone, while none has been let go."""
    nodes = {each.uid: each.node for each in record.members}
    still = [each.pod for each in gang.members if each.pod.metadata.uid in nodes]
    if not still or not all(pod.gated_by(GATE) for pod in still):
        return
    gone = {each.name: each.uid for each in record.members if not is_seat(each.uid) and each.uid not in present}
    # Of a Job's pods the letters at the end are others each time.
    gone |= {name.rpartition("-")[0]: uid for name, uid in gone.items()} | gone
    for each in gang.members:
        if each.pod.metadata.uid in gang.made_again.difference(nodes) and (uid := gone.get(each.pod.metadata.name)):
            yield uid, Planned(each.pod, nodes[uid])


def _next_step(situation: Situation) -> Step:
    unbound = [member.pod for member in situation.gang.members if not member.pod.bound]
    gated = [pod for pod in unbound if pod.gated_by(GATE)]
    if not unbound:
        return AllBound()
    record = situation.record
    if record is None:
        return NeedPlan(stale=_nominated(gated)) if gated else AwaitBinding((), _stranded(situation))
    planned = tuple(
        Planned(pod, node, situation.placeholders.get(pod.metadata.uid))
        for pod in unbound
        if (node := record.node_of(pod.metadata.uid)) is not None
    )
    if any(member.gated for member in planned):
        step = _before_release(situation, record, gated, planned)
        more_lost = situation.gang.made_again - {member.uid for member in record.members}
        return NeedPlan("", _nominated(gated)) if more_lost and not isinstance(step, NeedPlan | Nominate) else step
    return _after_release(situation, gated, planned)


def _before_release(situation: Situation, record: PlanRecord, gated: list[Pod], planned: tuple[Planned, ...]) -> Step:
    victims = tuple(v for v in record.victims if v.uid in situation.live)
    cause, why = _fallen(situation, record, planned, victims)
    if cause is not None:
        return NeedPlan(why, _nominated(gated), cause)
    missing = tuple(m for m in planned if m.gated and not m.nominated_by(record.plan_id))
    if missing:
        return Nominate(missing)
    running = tuple(v for v in victims if not situation.live[v.uid].terminating)
    if running:
        return Evict(running)
    let_go = (each for each in situation.gang.not_lost if not each.pod.gated_by(GATE) or _has_place(each, record))
    if not victims and not situation.gang.suffice(let_go):
        return _while_pods_come(situation, planned)
    if situation.lost(planned):
        return AwaitVictims(victims)
    ready = tuple(m for m in planned if m.gated and not to_come(m.pod))
    return Release(ready) if ready else _while_pods_come(situation, planned)


def _has_place(member: Member, record: PlanRecord) -> bool:
    return record.node_of(member.pod.metadata.uid) is not None


def _while_pods_come(situation: Situation, planned: tuple[Planned, ...]) -> Step:
    """Only members that do not exist yet are still to be let go, or too few are there again to start together."""
    let_go = tuple(member for member in planned if not member.gated)
    dropped = _dropped(let_go)
    if dropped:
        return Renominate(dropped)
    return AwaitBinding(let_go, _stranded(situation)) if let_go else AwaitPods(planned)


def _fallen(
    situation: Situation, record: PlanRecord, planned: tuple[Planned, ...], victims: tuple[PlannedVictim, ...]
) -> tuple[Cause | None, str]:
    """Why the plan does not hold any more, for counting and in words; None while it does."""
    later = situation.gang.later
    if later is not None and later.unwanted is not None and any(is_seat(each.uid) for each in record.members):
        return Cause.ROOM_UNWANTED, "no room is to be held for pods that do not exist"
    if vanished := _vanished(situation, record):
        return Cause.MEMBER_GONE, vanished
    if changed := _changed(situation, record):
        return Cause.REQUEST_CHANGED, changed
    if not situation.gang.suffice(situation.gang.members):
        return Cause.MEMBER_GONE, "a member beside the planned ones is gone, and too few are left"
    return _capacity_lost(situation, planned, victims)


def _capacity_lost(
    situation: Situation, planned: tuple[Planned, ...], victims: tuple[PlannedVictim, ...]
) -> tuple[Cause | None, str]:
    """Return why the members do not fit on their nodes any more, once the victims are gone; (None, "") if they do."""
    if late := _overdue(situation, {victim.node for victim in victims}, {victim.uid for victim in victims}):
        return Cause.POD_OVERDUE, overdue_message(late[0].pod, late[0].node)
    lost = situation.lost(planned, gone=(v.uid for v in victims), count_terminating=True)
    if lost and (late := _overdue(situation, {member.node for member in planned})):
        return Cause.POD_OVERDUE, overdue_message(late[0].pod, late[0].node)
    return (Cause.ROOM_LOST, lost) if lost else (None, "")


def _overdue(situation: Situation, nodes: Collection[str], uids: Collection[str] | None = None) -> list[Tenant]:
    """Return the terminating pods on these nodes that outlive their grace period. `uids`: only these; None: all."""
    states = (situation.snapshot.state(node) for node in sorted(nodes))
    return [
        tenant
        for state in states
        if state is not None
        for tenant in state.departing
        if tenant.overdue and (uids is None or tenant.pod.metadata.uid in uids)
    ]


def overdue_message(pod: Pod, node: str) -> str:
    """Return what is wrong with a terminating pod that outlives its grace period, and what its owner can do."""
    names = ", ".join(pod.metadata.finalizers)
    held = f"its finalizers are {names}: remove them" if names else "its node may be gone: delete it with --force"
    return f"pod {pod.key} on node {node} terminates since {pod.metadata.deletion_timestamp} and does not end ({held})"


def _vanished(situation: Situation, record: PlanRecord) -> str:
    """Which planned member is gone; "" while all are there, or have done their work before others exist and the others
    of the plan are as many as must run.
    """
    gang, planned = situation.gang, {member.uid for member in record.members}
    there = {member.pod.metadata.uid: member for member in gang.members if member.pod.metadata.uid in planned}
    gone = [member for member in record.members if member.uid not in there]
    done = len(gone) <= gang.succeeded and gang.suffice(there.values()) and not any(is_seat(each.uid) for each in gone)
    return f"member {gone[0].name} is gone" if gone and not done else ""


def _changed(situation: Situation, record: PlanRecord) -> str:
    """Whether the request was edited after it was planned. Once a member has been let go its siblings must follow."""
    if not record.request or asks_as_in(situation.gang, record.request):
        return ""
    uids = {member.uid for member in record.members}
    pods = [member.pod for member in situation.gang.members if member.pod.metadata.uid in uids]
    return "what it asks for has changed" if all(pod.gated_by(GATE) for pod in pods) else ""


def _after_release(situation: Situation, gated: list[Pod], planned: tuple[Planned, ...]) -> Step:
    if gated:
        return NeedPlan("", _nominated(gated))
    dropped = _dropped(planned)
    if dropped and not situation.lost(planned):
        return Renominate(dropped)
    return AwaitBinding(planned, _stranded(situation))


def _dropped(let_go: Iterable[Planned]) -> tuple[Planned, ...]:
    """Released members that have lost their nomination."""
    return tuple(m for m in let_go if not m.pod.status.nominated_node_name and not m.taken_back)


def _stranded(situation: Situation) -> tuple[Stranded, ...]:
    return stranded(situation.gang, situation.snapshot)


def _nominated(pods: list[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.status.nominated_node_name)
