"""Withdraws gangs that run in part: some members run, the gang never became whole, and the other members cannot start.

There are two causes. A controller may die between two patches of a release, and other pods take the remaining capacity
before another controller leads. Or another pod takes the capacity of a released member before that member is bound.
A gang runs as a whole or not at all. So the released members are evicted, which frees their capacity, and the gang
waits for new members. A gang that was whole before is not withdrawn, and neither is one without the all-or-none
guarantee (docs/decisions/0015). This module also evicts the members of a gang that is restarted
(`controller.acting.restarting`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import MappingProxyType

from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.error_backoff import ErrorBackoff
from controller.reconcile_state import NO_EFFECTS, Effects, ReconcileState
from controller.release.next_step import NeedPlan, predecessors_message
from controller.release.wholeness import (
    Withdrawal,
    WithdrawalReason,
    release_begun,
    release_is_marked,
    started_members,
    still_withdrawn,
    was_whole,
)
from controller.status.reporting import Reporter
from controller.writes.writer import Result, Writer, Written
from gangs.model import Gang, GangKey, Member
from gangs.workloads.jobs import controller_of
from kube.keys import GATE, WHOLE_MARK
from kube.objects import Pod
from kube.topology import Topology
from planning.framing.stranded import stranded
from planning.messages.wording import pods as counted
from planning.planner import waiting
from timing.clock import SYSTEM_CLOCK, Clock, is_time, seconds_since

SEEN_SECONDS = 0.25
"""Seconds for which this leader itself must have seen the gang run in part before it withdraws the gang.

The time of the release on the pods comes from another machine's clock, which may be ahead.
"""
CLOCK_SECONDS = 1.0
"""The allowed difference of two clocks, in seconds. A member created up to this long after the release began counts as
created before it.
"""
VICTIMS_SECONDS = 60.0
"""Seconds from the gang's first release for which the other members may wait until victims are gone. The other
members may wait equally long for terminating pods whose names they get.
"""
AGAIN_SECONDS = 2.0
"""Seconds between two tries of an eviction that a disruption budget refuses."""


class PartialGangRollback:
    """Withdraws gangs that run in part and cannot become whole: it evicts their released members.

    :param seconds: how long after the start of its release a gang may run in part before it is withdrawn.
    """

    def __init__(
        self,
        writer: Writer,
        reporter: Reporter,
        error_backoff: ErrorBackoff,
        *,
        seconds: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._reporter = reporter
        self._error_backoff = error_backoff
        self._seconds = seconds
        self._seen: dict[GangKey, float] = {}
        """By gang: the monotonic time since which this leader sees that the gang cannot become whole."""
        self._now_seen: dict[GangKey, float] = {}
        """The entries of `_seen` that this reconcile has confirmed so far."""
        self._refused: dict[GangKey, tuple[float, str]] = {}
        """By gang of which an eviction was refused: when it is retried (monotonic seconds), and the refusal's text."""

    def withdraw(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> Mapping[GangKey, Effects]:
        """Withdraw the gangs that run in part and can no longer become whole. Return the effects by gang."""
        self._now_seen = {}
        effects = self._error_backoff.run_steps(gang_states, lambda each: self._withdraw_if_due(each, cluster_view))
        self._seen = self._now_seen
        return effects

    def _withdraw_if_due(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects:
        since = begun(gang_state)
        if since is None:
            return NO_EFFECTS
        waited = seconds_since(since, self._clock.wall()) or 0.0
        patient = waited < VICTIMS_SECONDS
        delayed = {} if patient else cluster_view.predecessors(gang_state.gang)
        why = why_not(gang_state, cluster_view.snapshot, cluster_view.topologies, patient=patient, delayed=delayed)
        watched = Effects(watched=True)
        if why:
            key, now = gang_state.gang.key, self._clock.monotonic()
            self._now_seen[key] = seen = self._seen.get(key, now)
            shown = still_withdrawn(gang_state.status, released=False)
            again, refusal = self._refused.get(key, (0.0, ""))
            if waited >= self._seconds and now >= max(seen + SEEN_SECONDS, again):
                return watched.then(self.take_back(gang_state, shown or self._new(gang_state, why)))
            if shown is not None and now < again:
                return replace(watched, withdrawal=replace(shown, refusal=refusal))
        return watched

    def take_back(self, gang_state: ReconcileState, withdrawal: Withdrawal) -> Effects:
        """Evict all released members of a gang that is withdrawn or restarted.

        Unbound members are evicted, too, because the pin in their affinity fits no other nodes. They are evicted first.
        If one of them may have been bound since the snapshot, no bound member is evicted in this reconcile, because the
        gang may be whole. An eviction fails if the pod has changed since the snapshot.

        Before the first eviction, the marks that the gang was whole are removed, and the status reports the reason. So
        if this controller dies half-way, the next leader sees a gang that runs in part and never was whole, and goes
        on.
        """
        versions = self._unmarked(gang_state)
        if versions is None:
            return Effects(written=True)
        gang_state = gang_state.after(Effects(withdrawal=withdrawal))
        recorded, status_written = self._reporter.write_status(gang_state)
        if not recorded:
            return NO_EFFECTS
        released = [member.pod for member in gang_state.gang.members if not member.pod.gated_by(GATE)]
        unbound = [pod for pod in released if not pod.bound]
        answers = self._evicted(unbound, versions)
        evicted = [pod for pod, answer in zip(unbound, answers, strict=True) if answer.done]
        if all(answer.over for answer in answers):
            bound = [pod for pod in released if pod.bound]
            of_bound = self._evicted(bound, versions)
            evicted += [pod for pod, answer in zip(bound, of_bound, strict=True) if answer.done]
            answers += of_bound
        refusal = next((each.message for each in answers if each.result in (Result.REFUSED, Result.FAILED)), "")
        if refusal:
            self._refused[gang_state.gang.key] = self._clock.monotonic() + AGAIN_SECONDS, refusal
            withdrawal = replace(withdrawal, refusal=refusal)
        if evicted:
            self._reporter.withdrawn(gang_state, evicted, withdrawal)
        # No step of the gang waits for these evictions, so they make no reconcile due.
        return replace(status_written, written=True, moved=False, withdrawal=withdrawal)

    def _unmarked(self, gang_state: ReconcileState) -> Mapping[str, str] | None:
        """Remove the marks `phalanx.dev/whole` from the gang's members.

        Return the resourceVersion of each changed pod after the write, by UID; None if a mark could not be removed.
        """
        pods = [member.pod for member in gang_state.gang.members if WHOLE_MARK in member.pod.metadata.annotations]
        answers = self._writer.all(partial(self._writer.annotate, pod, {WHOLE_MARK: None}) for pod in pods)
        if not all(answer.over for answer in answers):
            return None
        return {pod.metadata.uid: answer.version for pod, answer in zip(pods, answers, strict=True)}

    def _evicted(self, pods: Sequence[Pod], versions: Mapping[str, str]) -> list[Written]:
        """Evict pods, each only if it has not changed since the snapshot.

        :param versions: by UID, the resourceVersions of pods that this reconcile has written since the snapshot.
        """
        seen = ((pod.metadata, versions.get(pod.metadata.uid) or pod.metadata.resource_version) for pod in pods)
        evict = self._writer.evict
        return self._writer.all(
            partial(evict, meta.namespace, meta.name, meta.uid, version=version) for meta, version in seen
        )

    def _new(self, gang_state: ReconcileState, why: str) -> Withdrawal:
        let_go = [member.pod for member in gang_state.gang.members if not member.pod.gated_by(GATE)]
        bound = sum(pod.bound for pod in let_go)
        needed = counted(gang_state.gang.still_needed)
        text = (
            f"withdrawn: {bound} of {needed} that must run together had started, and the rest could not within "
            f"{self._seconds:g} s ({why}), so those were evicted"
        )
        bare = any(controller_of(pod) is None for pod in let_go)
        text += "; pods that no controller makes again have to be created again" if bare else ""
        return Withdrawal(WithdrawalReason.WITHDRAWN, text)


def begun(gang_state: ReconcileState) -> str | None:
    """Return when the release of the gang began (RFC 3339). None unless the gang runs in part and never was whole.

    None as well if the gang has no all-or-none guarantee, or if the time is not known. A gang none of whose members is
    bound counts as well, if released members wait for their PodGroup: each of them is pinned to its node.
    """
    gang, status = gang_state.gang, gang_state.status
    started = started_members(gang)
    if not gang.all_or_none or not started or was_whole(gang, status):
        return None
    since = release_begun(started)
    if not is_time(since):
        return None  # Phalanx did not release a member, or another client has overwritten the time
    if release_is_marked(started):
        return since  # had a leader seen the gang whole, a member would have the annotation `WHOLE_MARK`
    return since if still_withdrawn(status, released=False) is not None or _never_whole(gang, since) else None


def _never_whole(gang: Gang, since: str) -> bool:
    """Return whether the gang cannot have been whole at any time since its release began.

    That is proven if too many members that existed then are still unbound, because a bound pod never becomes unbound.
    Used for gangs that an older version of Phalanx released: their pods have no marks that say whether they were whole.

    :param since: when the release began, RFC 3339.
    """
    begun_at = datetime.fromisoformat(since)
    waiting_since = Counter(
        member.pod_set
        for member in gang.members
        if not member.pod.bound and _age_at(member, begun_at) >= -CLOCK_SECONDS
    )
    most = max(gang.expected, gang.min_member, len(gang.members)) - waiting_since.total()
    return most < gang.still_needed or any(
        each.count - waiting_since[each.name] < each.min_count for each in gang.pod_sets if not gang.succeeded
    )


def _age_at(member: Member, time: datetime) -> float:
    """Return the member's age in seconds at this time; negative if the member was created later."""
    return seconds_since(member.pod.metadata.creation_timestamp or "", time) or 0.0


def why_not(
    gang_state: ReconcileState,
    snapshot: Snapshot,
    topologies: Sequence[Topology],
    *,
    patient: bool,
    delayed: Mapping[str, Pod] = MappingProxyType({}),
) -> str:
    """Return why a gang that runs in part cannot become whole now; "" if it still can, or if that is not known yet.

    :param patient: whether members whose plan evicts victims may still wait until the victims are gone.
    :param delayed: the terminating pods that delay expected pods for too long, each by the identifier of the expected
        pod that has its name.
    """
    gang = gang_state.gang
    stuck = stranded(gang, snapshot)
    lost = {each.member.pod.metadata.uid for each in stuck}
    in_time = patient or not _victims_left(gang_state, snapshot)
    in_plan = (member for member in gang.members if member.pod.metadata.uid not in delayed)
    able = [member for member in in_plan if _planned(member, gang_state, in_time=in_time)]
    able += [m for m in gang.members if not m.pod.gated_by(GATE) and m.pod.metadata.uid not in lost]
    if gang.suffice(able) or (gang.to_come and isinstance(gang_state.step, NeedPlan) and gang_state.decision is None):
        return ""  # not known yet: planning has no result for the expected pods
    if delayed:
        return predecessors_message(delayed.values())
    if stuck:
        first = stuck[0]
        return f"{first.member.pod.metadata.name} was released to {first.node}, which cannot take it: {first.why}"
    answer = waiting(gang, snapshot, topologies) or gang_state.decision
    if answer is not None and answer.message:
        return answer.message
    return "the rest has no place" if patient else "victims have not gone in time"


def _planned(member: Member, gang_state: ReconcileState, *, in_time: bool) -> bool:
    """Return whether a gated member has a node in a plan that is being carried out, and may still wait for it.

    :param in_time: False if the plan's victims have taken too long to go; then the result is False.
    """
    record = gang_state.record
    if (
        record is None
        or (gang_state.deferred and isinstance(gang_state.step, NeedPlan))
        or not member.pod.gated_by(GATE)
    ):
        return False
    return record.node_of(member.pod.metadata.uid) is not None and in_time


def _victims_left(gang_state: ReconcileState, snapshot: Snapshot) -> bool:
    """Return whether pods that the plan evicts still exist in the snapshot."""
    victims = {victim.uid for victim in gang_state.record.victims} if gang_state.record is not None else set()
    return any(True for _ in snapshot.holding_any(victims))
