"""Determines the step that is due for a gang: a pure function of the cluster's state (docs/decisions/0001).

The steps of a gang: plan → nominate → evict → await victims → verify → release → watch. Every step is derived from
gates, nominations and the plan in the Gang's status. So a controller that was killed continues where it stopped.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from cluster.devices.allocation import DeviceId
from cluster.devices.holdings import NO_DEVICES, DeviceView, consumers, device_id, devices_of_claim
from cluster.node_state import Tenant
from cluster.snapshot import Snapshot
from controller.release.devices import DevicePlan, PlannedClaim, Pool, device_plan
from controller.release.records import PlannedVictim, PlanRecord
from controller.release.request_digest import asks_as_in
from controller.release.verifying import lost_room
from gangs.model import Gang, Member
from kube.devices import DeviceTaintRule, ResourceClaim
from kube.keys import GATE, PLAN, STOCK_SCHEDULER, TAKEN_BACK
from kube.objects import Pod
from kube.placeholders import HIGHEST_CLASS, is_seat, matched, role_of_seat, to_come
from kube.requests import pod_requests
from kube.scheduling import tried
from kube.scheduling_groups import group_of
from planning.framing.stranded import Stranded, stranded


@dataclass(frozen=True, slots=True)
class Planned:
    """A member that is not bound, with its planned node. `placeholder`: the placeholder that reserves its capacity;
    None if it has none.

    `ungated`: whether a placeholder without a gate must reserve the capacity while the member itself is gated. This is
    needed if the scheduler forgets the nominations of gated pods when it restarts (docs/decisions/0043).
    """

    pod: Pod
    node: str
    placeholder: Pod | None = None
    ungated: bool = False

    @property
    def gated(self) -> bool:
        """Whether the member has not been released yet."""
        return self.pod.gated_by(GATE)

    @property
    def taken_back(self) -> bool:
        """Whether Phalanx has freed the member's capacity because no scheduler had tried to bind the member, and still
        none has tried (`controller.acting.untried`).
        """
        return TAKEN_BACK in self.pod.metadata.annotations and not tried(self.pod)

    @property
    def has_lost_nomination(self) -> bool:
        """Whether the member is released and has no nomination, unless Phalanx itself has freed its capacity."""
        return not self.gated and not self.pod.status.nominated_node_name and not self.taken_back

    @property
    def needs_placeholder(self) -> bool:
        """Whether only a placeholder can reserve the member's capacity: the member is an expected pod, or a gated pod
        that needs a placeholder without a gate (`ungated`).
        """
        return to_come(self.pod) or (self.ungated and self.gated)

    @property
    def outdated(self) -> bool:
        """Whether the member's placeholder must be replaced, because it is gated though it must not be, or has another
        priority or other requests than the member. False without a placeholder.
        """
        holder = self.placeholder
        if holder is None or not self.ungated:
            return False
        differs = (holder.spec.priority or 0) != (self.pod.spec.priority or 0)
        return bool(holder.spec.scheduling_gates) or differs or pod_requests(holder) != pod_requests(self.pod)

    def nominated_by(self, plan_id: str) -> bool:
        """Return whether this plan reserves the member's capacity: it has nominated the member, or the placeholder if
        one is needed, for the planned node.
        """
        holder = self.placeholder if self.needs_placeholder else self.pod
        if holder is None or self.outdated:
            return False
        return holder.status.nominated_node_name == self.node and holder.metadata.annotations.get(PLAN) == plan_id


class Cause(Enum):
    """Why a plan was invalidated before its gang was released."""

    ROOM_LOST = "RoomLost"
    POD_OVERDUE = "PodOverdue"
    """A terminating pod outlives its grace period on a node of the plan."""
    MEMBER_GONE = "MemberGone"
    REQUEST_CHANGED = "RequestChanged"
    EVICTION_REFUSED = "EvictionRefused"
    QUOTA_SHORT = "QuotaShort"
    ROOM_UNWANTED = "RoomUnwanted"
    TIMED_OUT = "TimedOut"
    DEVICES_TAKEN = "DevicesTaken"
    """Another claim has a device of the plan, or another plan takes it."""
    DEVICES_NEEDED = "DevicesNeeded"
    """A waiting pod of higher priority needs devices of the plan."""


@dataclass(frozen=True, slots=True)
class NeedPlan:
    """The gang must be planned, because gated members have no plan, or the plan was invalidated.

    `message` and `cause`: why the plan was invalidated; empty without an earlier plan. `stale`: pods that reserve
    capacity without need. Members lose their nomination, and placeholders are deleted.
    """

    message: str = ""
    stale: tuple[Pod, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Nominate:
    """The step to reserve capacity for these members, whose nominations are missing."""

    members: tuple[Planned, ...]


@dataclass(frozen=True, slots=True)
class AwaitClaims:
    """The step to wait for ResourceClaims of members that do not exist yet. `missing`: these claims; empty if the
    controller cannot read claims.
    """

    missing: tuple[PlannedClaim, ...]


@dataclass(frozen=True, slots=True)
class Taint:
    """The step to taint these pools, so that no new claim gets a device of them. The plan has devices in these pools
    that are not yet allocated to its claims.
    """

    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The step to deallocate these claims of gated members, because they have devices other than planned."""

    claims: tuple[ResourceClaim, ...]


@dataclass(frozen=True, slots=True)
class AwaitDevices:
    """The step to wait until other claims no longer have devices of the plan. The pods of these claims are ending, or
    are gated and of lower priority.

    `holders`: each device with the other claim that has it.
    """

    holders: tuple[tuple[DeviceId, ResourceClaim], ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """The step to allocate the planned devices to these claims of gated members, as soon as the scheduler allocates
    these devices to no other claim.
    """

    devices: DevicePlan
    claims: tuple[PlannedClaim, ...]


@dataclass(frozen=True, slots=True)
class Yield:
    """The step to deallocate all claims of the plan, because other claims have devices of the plan, too. `doubled`:
    these devices.
    """

    devices: DevicePlan
    doubled: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True)
class Untaint:
    """The step to delete the plan's taint rules, as soon as the scheduler has seen that all claims of the plan have
    their devices.
    """

    devices: DevicePlan
    rules: tuple[DeviceTaintRule, ...]


@dataclass(frozen=True, slots=True)
class Evict:
    """The step to evict these victims of the plan, which still run. All members are nominated already."""

    victims: tuple[PlannedVictim, ...]


@dataclass(frozen=True, slots=True)
class AwaitVictims:
    """The step to wait until terminating pods have freed their capacity, which the nominations of gated members
    reserve.
    """

    victims: tuple[PlannedVictim, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """The step to release these members as soon as the scheduler has seen their nominations. All other preconditions
    hold.
    """

    members: tuple[Planned, ...]


class Delay(Enum):
    """Why a step that is due waits for a later reconcile."""

    DISPLACED = "Displaced"
    """Another plan, whose nominations are not written yet, takes capacity that the gang reserves."""
    HANDOVER = "Handover"
    """A new leader has not planned the waiting gangs of higher priority yet."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """A release or eviction that is due but not safe in this reconcile. The next reconcile derives the step again."""

    step: Evict | Release
    delay: Delay


@dataclass(frozen=True, slots=True)
class Renominate:
    """The step to nominate these released members again. The scheduler cleared their nominations, but the capacity is
    still free.
    """

    members: tuple[Planned, ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The step to replace members in the plan by their successors, which get the nodes of the replaced members.

    `successors`: each with the UID of the replaced member (of an expected pod: its identifier). A successor is a pod
    that has arrived for an expected pod, or an expected pod in place of a deleted gated pod.
    """

    successors: tuple[tuple[str, Planned], ...]


@dataclass(frozen=True, slots=True)
class Free:
    """The step to delete these placeholders. Their expected pods have arrived and are nominated, or will never be
    created.
    """

    placeholders: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class AwaitPods:
    """The step to wait for expected pods, whose capacity is reserved. No further member can be released before they
    arrive.

    `predecessors`: the terminating pods that must end before a gang can start, because expected pods have their names.
    """

    members: tuple[Planned, ...]
    predecessors: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class AwaitBinding:
    """The step to wait until the scheduler has bound the released members. `stranded`: the members that it cannot bind,
    because their nodes are full.
    """

    members: tuple[Planned, ...]
    stranded: tuple[Stranded, ...] = ()


@dataclass(frozen=True, slots=True)
class AllBound:
    """No step is due for the gang, because every existing member is bound."""


Step = (
    NeedPlan
    | Nominate
    | AwaitClaims
    | Taint
    | GiveUp
    | AwaitDevices
    | Hold
    | Yield
    | Untaint
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
    """The inputs of `next_step`: a gang, its plan in force if it has one, and the cluster."""

    gang: Gang
    record: PlanRecord | None
    snapshot: Snapshot
    live: Mapping[str, Pod]
    """Every pod that exists and has not finished, by UID."""
    placeholders: Mapping[str, Pod] = field(default_factory=dict)
    """The gang's placeholders, each by the identifier of its pod (`kube.placeholders.seat_of`)."""
    ungated: bool = False
    """Whether placeholders reserve the capacity of all gated members, and are not gated themselves (`Planned`)."""
    devices: DeviceView = NO_DEVICES
    predecessors: Mapping[str, Pod] = field(default_factory=dict)
    """The terminating pods that have the names of expected pods, each by the expected pod's identifier."""

    def planned(self, pods: Iterable[Pod]) -> tuple[Planned, ...]:
        """Return the pods that have a node in the plan, each with this node and its placeholder, in the given order."""
        return planned_members(pods, self.record, self.placeholders, ungated=self.ungated)

    def surplus(self) -> tuple[Pod, ...]:
        """Return the gang's obsolete placeholders. The pod of such a placeholder is not in the plan, is no member any
        more, or reserves its capacity by its own nomination.
        """
        if not self.placeholders:
            return ()
        planned = self.planned(member.pod for member in self.gang.members)
        needing = {each.pod.metadata.uid for each in planned if each.needs_placeholder}
        return tuple(pod for seat, pod in self.placeholders.items() if seat not in needing)

    def lost(self, planned: Iterable[Planned], *, gone: Iterable[str] = (), count_terminating: bool = False) -> str:
        """Return why these members do not fit on their planned nodes any more; "" if they still fit.

        Obsolete placeholders of the gang count as gone.

        :param gone: UIDs of further pods that count as gone, such as victims that are still to be evicted.
        :param count_terminating: whether the capacity of terminating pods counts as free.
        """
        return lost_room(
            ((member.pod, member.node) for member in planned),
            self.snapshot,
            priority=self.gang.priority,
            gone=(*gone, *(pod.metadata.uid for pod in self.surplus())),
            count_terminating=count_terminating,
        )


def planned_members(
    pods: Iterable[Pod], record: PlanRecord | None, placeholders: Mapping[str, Pod], *, ungated: bool
) -> tuple[Planned, ...]:
    """Return the pods that have a node in the plan, each with this node and its placeholder, in the given order. Empty
    if `record` is None.

    `placeholders`: the gang's placeholders, each by the identifier of its pod. `ungated`: whether placeholders without
    a gate reserve the capacity of gated pods.
    """
    return tuple(
        Planned(pod, node, placeholders.get(pod.metadata.uid), needs_ungated(pod, ungated=ungated))
        for pod in pods
        if record is not None and (node := record.node_of(pod.metadata.uid)) is not None
    )


def needs_ungated(pod: Pod, *, ungated: bool) -> bool:
    """Return whether a placeholder without a gate must reserve the capacity of this pod while the pod is gated.

    :param ungated: whether the stock scheduler is older than 1.37, which forgets the nominations of gated pods when it
    restarts.

    False for a pod of another scheduler, because a nomination reserves no capacity there. False as well if the pod's
    priority is higher than a user-defined PriorityClass can have.
    """
    stock = pod.spec.scheduler_name in ("", STOCK_SCHEDULER)
    return ungated and stock and (pod.spec.priority or 0) <= HIGHEST_CLASS


def next_step(situation: Situation) -> Step:
    """Return the step that is due for the gang. It depends on the situation only, not on earlier steps."""
    if successors := _successors(situation):
        return TakeOver(successors)
    step = _next_step(situation)
    surplus = situation.surplus() if not isinstance(step, Nominate) else ()
    if isinstance(step, NeedPlan):
        # Placeholders of arrived pods would take capacity from the plan for members that were lost meanwhile.
        if surplus and situation.gang.made_again and situation.record is not None and step.cause is None:
            return Free(surplus)
        return replace(step, stale=(*step.stale, *situation.placeholders.values()))
    return Free(surplus) if surplus else step


def _successors(situation: Situation) -> tuple[tuple[str, Planned], ...]:
    """Return the arrived or expected pods that take the place of other members in the plan. Each comes with the UID of
    the replaced member. Empty if there are none.
    """
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
    return (*come, *_successors_of_gone(situation.gang, record, present))


def _successors_of_gone(gang: Gang, record: PlanRecord, present: Collection[str]) -> Iterator[tuple[str, Planned]]:
    """Yield each expected pod that replaces a planned pod which is gone: the UID of the gone pod, and the expected pod
    with the planned node.

    Nothing is yielded if a member of the plan has been released, or if no member of the plan exists any more.
    """
    nodes = {each.uid: each.node for each in record.members}
    still = [each.pod for each in gang.members if each.pod.metadata.uid in nodes]
    if not still or not all(pod.gated_by(GATE) for pod in still):
        return
    gone = {each.name: each.uid for each in record.members if not is_seat(each.uid) and each.uid not in present}
    # A Job recreates a pod with another random suffix, so the name without the suffix matches, too.
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
    planned = situation.planned(unbound)
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
    # A released member of a PodGroup waits until the last gate of the PodGroup is removed. Until then, only its
    # nomination reserves its capacity.
    missing += tuple(m for m in planned if group_of(m.pod) and m.has_lost_nomination)
    if missing:
        return Nominate(missing)
    running = tuple(v for v in victims if not situation.live[v.uid].terminating)
    devices = device_plan(situation.gang, record, situation.devices)
    step = _before_devices_are_held(devices, running, _giving_way(situation, victims)) if devices.claims else None
    if step is not None or running:
        return step or Evict(running)
    let_go = (each for each in situation.gang.not_lost if not each.pod.gated_by(GATE) or _has_place(each, record))
    if not victims and not situation.gang.suffice(let_go):
        return _while_pods_come(situation, planned)
    if situation.lost(planned):
        return AwaitVictims(victims)
    too_early, predecessors = _too_early(situation.gang), _awaited_predecessors(situation)
    ready = tuple(m for m in planned if m.gated and not to_come(m.pod) and m.pod.metadata.uid not in too_early)
    return Release(ready) if ready and not predecessors else _while_pods_come(situation, planned, predecessors)


def _before_devices_are_held(
    devices: DevicePlan, running: tuple[PlannedVictim, ...], gives_way: Callable[[ResourceClaim], bool]
) -> Step | None:
    """Return the step that is due for the devices of a plan; None if all claims have their devices and no taint rule of
    the plan is left.

    :param running: the victims that are still to be evicted.
    :param gives_way: returns whether another claim will soon be without devices.
    """
    step: Step | None = None
    if not devices.view.known:
        step = AwaitClaims(())
    elif devices.missing:
        step = AwaitClaims(devices.missing)
    elif devices.doubled:
        step = Yield(devices, devices.doubled)
    elif devices.unheld and devices.untainted:
        # Before claims are given up: the plan may give their devices to other claims of the gang.
        step = Taint(devices.untainted)
    elif devices.misallocated:
        step = GiveUp(devices.misallocated)
    elif not devices.unheld:
        step = Untaint(devices, devices.rules) if devices.rules else None
    elif not running:
        holders = tuple(each for claim in devices.unheld for each in devices.rivals(claim))
        # Of the claims that share a device, only some have to give way.
        leaving = tuple({(at, one.key): (at, one) for at, one in holders if gives_way(one)}.values())
        step = AwaitDevices(leaving or holders) if holders else Hold(devices, devices.unheld)
    return step


def _devices_taken(situation: Situation, record: PlanRecord, victims: Iterable[PlannedVictim]) -> str:
    """Return the message about a device of the plan that a claim outside the plan has and keeps; "" if there is none.

    A device that a claim of the plan has already is not examined here (see `Yield`).
    """
    if not record.claims:
        return ""
    devices, gives_way = device_plan(situation.gang, record, situation.devices), _giving_way(situation, victims)
    given_up = {each.metadata.uid for each in devices.misallocated}

    def stays(holder: ResourceClaim) -> bool:
        return holder.metadata.uid not in given_up and not gives_way(holder)

    for claim in (*devices.claims, *devices.awaited):
        if claim.as_planned:
            continue
        for device, holder in devices.rivals(claim, stays):
            name = f"device {device.device} of pool {device.pool}"
            used = {device_id(each): bool(each.share_id) for each in devices_of_claim(holder)}
            if device in claim.shares and used.get(device):
                return f"{name} has too little capacity left beside ResourceClaim {holder.key}"
            what = "is allocated" if device in used else "shares counters with a device that is allocated"
            return f"{name} {what} to ResourceClaim {holder.key}"
    return ""


def _giving_way(situation: Situation, victims: Iterable[PlannedVictim]) -> Callable[[ResourceClaim], bool]:
    """Return a predicate of claims outside the plan: whether such a claim will soon be without devices.

    :param victims: the victims of the plan that are not gone yet.
    """
    going = frozenset(each.uid for each in victims)
    return lambda holder: _gives_way(holder, situation, going)


def _gives_way(holder: ResourceClaim, situation: Situation, going: Collection[str]) -> bool:
    """Return whether a claim outside the plan will soon be without devices, as far as the cluster shows.

    True if each of its pods is gone, is a victim of the plan, or is gated and of lower priority than the gang. Devices
    of gated pods become free, because the controller deallocates them itself.

    :param going: the UIDs of the plan's victims.
    """
    if not holder.status.reserved_for:
        return any(each.kind == "Pod" and each.uid not in situation.live for each in holder.metadata.owner_references)
    for uid in consumers(holder):
        pod = situation.live.get(uid)
        gated_below = pod is not None and pod.gated_by(GATE) and (pod.spec.priority or 0) < situation.gang.priority
        if pod is not None and uid not in going and not pod.terminating and not gated_below:
            return False
    return True


def _awaited_predecessors(situation: Situation) -> tuple[Pod, ...]:
    """Return the terminating pods that keep a gang without a released member from becoming whole; empty if none do.

    A workload with fixed pod names recreates a pod only when the pod of the same name has ended. A finalizer may delay
    that for any time, in which the first pods would run alone. Expected pods of higher rank count as delayed, too,
    because the workload may create pods in order.
    """
    gang, predecessors = situation.gang, situation.predecessors
    if not predecessors or not all(member.pod.gated_by(GATE) for member in gang.members):
        return ()
    delayed = [member for member in gang.members if member.pod.metadata.uid in predecessors]
    first = _first_ranks(delayed)
    in_time = (
        member
        for member in gang.members
        if member.pod.metadata.uid not in predecessors and not (to_come(member.pod) and _has_rank_above(member, first))
    )
    return () if gang.suffice(in_time) else tuple(predecessors[member.pod.metadata.uid] for member in delayed)


def _first_ranks(members: Iterable[Member]) -> Mapping[str, int]:
    """Return the lowest rank of these members in each pod set. Members without a rank are left out."""
    first = dict[str, int]()
    for member in members:
        if member.index is not None:
            first[member.pod_set] = min(member.index, first.get(member.pod_set, member.index))
    return first


def _has_rank_above(member: Member, first: Mapping[str, int]) -> bool:
    """Return whether the member's rank is higher than the rank given for its pod set."""
    return member.index is not None and member.index > first.get(member.pod_set, member.index)


def _too_early(gang: Gang) -> frozenset[str]:
    """Return the UIDs of members that must not be released yet: a pod of lower rank in their set does not exist.

    Empty if enough pods exist for the gang's minimum. A StatefulSet creates its pods in order. If a pod is deleted
    before its gang was whole, it is recreated only after it has ended, however late that is. Pods of higher rank would
    run without it meanwhile, so they wait.
    """
    if gang.suffice(member for member in gang.members if not to_come(member.pod)):
        return frozenset()
    first = _first_ranks(member for member in gang.not_lost if to_come(member.pod))
    return frozenset(member.pod.metadata.uid for member in gang.members if _has_rank_above(member, first))


def _has_place(member: Member, record: PlanRecord) -> bool:
    return record.node_of(member.pod.metadata.uid) is not None


def _while_pods_come(situation: Situation, planned: tuple[Planned, ...], predecessors: tuple[Pod, ...] = ()) -> Step:
    """Return the step of a gang whose further members cannot be released before expected pods arrive.

    :param predecessors: the terminating pods that must end first, because expected pods have their names.
    """
    let_go = tuple(member for member in planned if not member.gated)
    dropped = _dropped(let_go)
    if dropped:
        return Renominate(dropped)
    return AwaitBinding(let_go, _stranded(situation)) if let_go else AwaitPods(planned, predecessors)


def _fallen(
    situation: Situation, record: PlanRecord, planned: tuple[Planned, ...], victims: tuple[PlannedVictim, ...]
) -> tuple[Cause | None, str]:
    """Return why the plan is invalidated, as a cause and a message; (None, "") if it still holds."""
    later = situation.gang.later
    if later is not None and later.unwanted is not None and any(is_seat(each.uid) for each in record.members):
        return Cause.ROOM_UNWANTED, "no capacity is to be reserved for pods that do not exist yet"
    if vanished := _vanished(situation, record):
        return Cause.MEMBER_GONE, vanished
    if changed := _changed(situation, record):
        return Cause.REQUEST_CHANGED, changed
    # Members that arrived after planning do not count: the plan has no node for them, so they cannot replace a planned
    # member that is gone.
    if not situation.gang.suffice(_counted_on(situation.gang, record)):
        return Cause.MEMBER_GONE, "a member beside the planned ones is gone, and too few are left"
    cause, why = _capacity_lost(situation, planned, victims)
    if cause is None and (taken := _devices_taken(situation, record, victims)):
        return Cause.DEVICES_TAKEN, taken
    return cause, why


def _counted_on(gang: Gang, record: PlanRecord) -> Iterator[Member]:
    """Yield the members that the plan needs: released members, members with a node in the plan, and lost members that
    are being recreated.
    """
    for member in gang.members:
        uid = member.pod.metadata.uid
        if not member.pod.gated_by(GATE) or uid in gang.made_again or record.node_of(uid) is not None:
            yield member


def _capacity_lost(
    situation: Situation, planned: tuple[Planned, ...], victims: tuple[PlannedVictim, ...]
) -> tuple[Cause | None, str]:
    """Return why the members will not fit on their nodes when the victims are gone; (None, "") if they will."""
    if late := _overdue(situation, {victim.node for victim in victims}, {victim.uid for victim in victims}):
        return Cause.POD_OVERDUE, overdue_message(late[0].pod, late[0].node)
    lost = situation.lost(planned, gone=(v.uid for v in victims), count_terminating=True)
    if lost and (late := _overdue(situation, {member.node for member in planned})):
        return Cause.POD_OVERDUE, overdue_message(late[0].pod, late[0].node)
    return (Cause.ROOM_LOST, lost) if lost else (None, "")


def _overdue(situation: Situation, nodes: Collection[str], uids: Collection[str] | None = None) -> list[Tenant]:
    """Return the terminating pods on these nodes that have outlived their grace period.

    :param uids: consider only pods with these UIDs; None: all pods.
    """
    states = (situation.snapshot.state(node) for node in sorted(nodes))
    return [
        tenant
        for state in states
        if state is not None
        for tenant in state.departing
        if tenant.overdue and (uids is None or tenant.pod.metadata.uid in uids)
    ]


def overdue_message(pod: Pod, node: str) -> str:
    """Return the message about a terminating pod that has outlived its grace period, with what its owner can do."""
    names = ", ".join(pod.metadata.finalizers)
    held = f"its finalizers are {names}: remove them" if names else "its node may be gone: delete it with --force"
    return f"pod {pod.key} on node {node} terminates since {pod.metadata.deletion_timestamp} and does not end ({held})"


def predecessors_message(pods: Collection[Pod]) -> str:
    """Return the message about terminating pods that must end before expected pods of their names can be created.

    It names one of the pods; "" without pods.
    """
    if not pods:
        return ""
    first, more = next(iter(pods)), f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    held = f" (its finalizers are {', '.join(first.metadata.finalizers)})" if first.metadata.finalizers else ""
    return f"the gang starts when the terminating pod {first.key}{held}{more} {'have' if more else 'has'} ended"


def _vanished(situation: Situation, record: PlanRecord) -> str:
    """Return the message about a planned member that is gone; "" if none is missing.

    A gone member is not missing if it may have succeeded and the remaining planned members still reach the minimum.
    """
    gang, planned = situation.gang, {member.uid for member in record.members}
    there = {member.pod.metadata.uid: member for member in gang.members if member.pod.metadata.uid in planned}
    gone = [member for member in record.members if member.uid not in there]
    done = len(gone) <= gang.succeeded and gang.suffice(there.values()) and not any(is_seat(each.uid) for each in gone)
    return f"member {gone[0].name} is gone" if gone and not done else ""


def _changed(situation: Situation, record: PlanRecord) -> str:
    """Return a message if the gang's placement request has changed since the gang was planned; "" if it has not.

    Once a member of the plan has been released, a change is ignored, because the other members must follow it.
    """
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
    # A failed scheduling cycle of a PodGroup clears the nominations of all its pods. So the members whose nodes still
    # have capacity get theirs back, even if another member has lost its capacity.
    if kept := _with_free_capacity(situation, [m for m in dropped if group_of(m.pod)]):
        return Renominate(kept)
    return AwaitBinding(planned, _stranded(situation))


def _with_free_capacity(situation: Situation, dropped: Iterable[Planned]) -> tuple[Planned, ...]:
    """Return those of the `dropped` members that still fit on their planned nodes. A node's free capacity must suffice
    for all `dropped` members that are planned on the node.
    """
    by_node = defaultdict[str, list[Planned]](list)
    for member in dropped:
        by_node[member.node].append(member)
    return tuple(member for members in by_node.values() if not situation.lost(members) for member in members)


def _dropped(members: Iterable[Planned]) -> tuple[Planned, ...]:
    """Return the released members without a nomination, except those whose capacity Phalanx itself has freed."""
    return tuple(member for member in members if member.has_lost_nomination)


def _stranded(situation: Situation) -> tuple[Stranded, ...]:
    return stranded(situation.gang, situation.snapshot)


def _nominated(pods: list[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.status.nominated_node_name)
