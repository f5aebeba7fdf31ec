"""Lost members that their workload recreates. Until it has recreated them, their gang keeps capacity for them.

The input is the gang as the cluster shows it, and its state in the last reconcile. The output is the gang with a member
for each pod that will replace a lost one (docs/decisions/0034). Such a member is planned, and its capacity is reserved,
like any expected pod (docs/decisions/0022). The state is in memory only: a restarted controller starts without it.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.records import PlanRecord
from controller.release.wholeness import was_whole
from gangs.manifests import group_of, metadata_of
from gangs.membership import in_rank_order
from gangs.model import Gang, GangKey, Manifest, Member
from gangs.workloads.later_pods.made_again import goes_on, seat_again
from kube.keys import GATE
from kube.objects import Pod
from kube.placeholders import is_seat, matched, to_come
from timing.clock import SYSTEM_CLOCK, Clock, seconds_since

_MAKES_NONE = ("Pod", "Gang", "PodGroup")
"""Kinds of objects that ask for a gang and create no pods."""

_At = tuple[str, str]
"""A member's position in its gang: its pod set, and the name of its pod."""

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Lost:
    """A pod that ran, and `seat`, the member that represents its successor.

    `since`: the last time at which the pod was seen terminating, in monotonic seconds. `planned`: whether a plan has
    had a place for the successor. `heir`: the UID of the successor that has arrived; "" while there is none.
    """

    pod: Pod
    seat: Member
    since: float
    planned: bool = False
    heir: str = ""

    @property
    def at(self) -> _At:
        """The successor's position in its gang."""
        return self.seat.pod_set, self.seat.pod.metadata.name


class LostMembers:
    """The lost members of all gangs, until they are recreated or `seconds` have passed."""

    def __init__(self, seconds: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._seconds = seconds
        self._clock = clock
        self._read: dict[GangKey, Gang] = {}
        """Gangs as they were last read."""
        self._lost: dict[GangKey, dict[str, _Lost]] = {}
        """The lost members by gang, then by the UID of the pod that ran."""
        self._made: dict[GangKey, Gang] = {}
        """The gangs that `gang` returned last. An equal gang is returned as the same object."""
        self._refused: set[GangKey] = set()
        """Gangs that have been rejected since their last loss."""

    @property
    def charged(self) -> Mapping[GangKey, Gang]:
        """The gangs whose queues are charged for lost members that are being recreated, as `gang` returned them last.

        A gang is not charged any more once it is rejected.
        """
        return {key: gang for key, gang in self._made.items() if key not in self._refused}

    def refuse(self, key: GangKey) -> None:
        """Record that the gang was rejected."""
        if key in self._lost:
            self._refused.add(key)

    def gang(self, key: GangKey, before: ReconcileState | None, cluster_view: ClusterView) -> Gang | None:
        """Return the gang as it is planned now; None if it does not exist.

        After an internal error the gang is returned without members for lost pods, so no other gang is affected.

        :param before: the gang's `ReconcileState` of the last reconcile.
        """
        try:
            return self._gang(key, before, cluster_view)
        except Exception:
            LOG.exception("gang %s: no capacity is reserved for members that are recreated", key)
            self.forget(key)
            return cluster_view.kept.gang(key)

    def _gang(self, key: GangKey, before: ReconcileState | None, cluster_view: ClusterView) -> Gang | None:
        read, last = cluster_view.kept.gang(key), self._read.get(key)
        if read is not None:
            self._read[key] = read
        if last is not None and read is not last and before is not None:
            self._note(last, read, before, cluster_view)
        of_a_part = last is not None and last.part  # which is not read while it has no pods
        base = replace(last, members=()) if last is not None and of_a_part and read is None else read
        manifest = _workload(base, cluster_view) if base is not None and key in self._lost else None
        if base is None or manifest is None:
            self._end(key, read)
            return read
        record = before.record if before is not None else None
        self._let_go_of(key, base, record, cluster_view)
        found = _with_seats(base, self._lost[key].values(), record)
        if not self._lost[key]:
            self._end(key, read)
            return read
        if self._made.get(key) != found:
            self._made[key] = found
        return self._made[key]

    def _end(self, key: GangKey, read: Gang | None) -> None:
        """Forget the lost members of the gang, and remember the gang as it was read."""
        self.forget(key)
        if read is not None:
            self._read[key] = read

    def forget(self, key: GangKey) -> None:
        """Forget the gang."""
        for memory in (self._read, self._lost, self._made):
            memory.pop(key, None)
        self._refused.discard(key)

    def _note(self, last: Gang, read: Gang | None, before: ReconcileState, cluster_view: ClusterView) -> None:
        """Record members that ran when the gang was last read and are lost now, if the gang was whole.

        Nothing is recorded while a plan evicts victims for the gang, so that this plan is not invalidated.
        """
        evicting = before.record is not None and before.record.victims
        if evicting or last.source.kind in _MAKES_NONE or not was_whole(last, before.status):
            return
        manifest = _workload(last, cluster_view)
        there = {each.pod.metadata.uid for each in read.members} if read is not None else set()
        if manifest is None:
            return
        for member in last.members:
            pod = member.pod
            lost = pod.bound and pod.metadata.uid not in there and _is_lost(pod, cluster_view.kept.pods.at(pod.key))
            if lost and (seat := seat_again(manifest, member)) is not None:
                self._lost.setdefault(last.key, {})[pod.metadata.uid] = _Lost(pod, seat, self._clock.monotonic())
                self._refused.discard(last.key)

    def _let_go_of(self, key: GangKey, gang: Gang, record: PlanRecord | None, cluster_view: ClusterView) -> None:
        """Forget lost members whose successor is released, or whose successor has not arrived in time.

        A successor that is still gated does not count, because it may be deleted, too.
        """
        lost, now = self._lost[key], self._clock.monotonic()
        gated = {member.pod.metadata.uid: member.pod.gated_by(GATE) for member in gang.members}
        awaited = {each.uid for each in record.members if is_seat(each.uid)} if record is not None else None
        for uid, each in list(lost.items()):
            current = cluster_view.kept.pods.at(each.pod.key)
            if (
                current is not None
                and current.metadata.uid == uid
                and _leaving(current, self._seconds, self._clock.wall())
            ):
                each.since = now
            if each.heir and each.heir not in gated:
                each.heir, each.planned = "", False
            taken = awaited is not None and each.planned and each.seat.pod.metadata.uid not in awaited
            each.planned = each.planned or (awaited is not None and each.seat.pod.metadata.uid in awaited)
            if (taken and not gated.get(each.heir, False)) or now - each.since > self._seconds:
                del lost[uid]


def _workload(gang: Gang, cluster_view: ClusterView) -> Manifest | None:
    """Return the object that creates the gang's pods, if it will recreate lost ones; None otherwise."""
    at = gang.source
    manifest = cluster_view.sources.get(group_of(at.api_version), at.kind, at.namespace, at.name)
    if manifest is None or gang.waiting_for or at.namespace in cluster_view.ending or not goes_on(manifest, gang.part):
        return None
    return manifest if metadata_of(manifest).uid == at.uid else None


def _is_lost(pod: Pod, now: Pod | None) -> bool:
    """Return whether a pod that ran is gone, terminating, or has failed. `now`: the present pod of that name."""
    if now is None or now.metadata.uid != pod.metadata.uid:
        return True
    return now.status.phase != "Succeeded" and (now.terminating or now.finished)


def _leaving(pod: Pod, seconds: float, now: datetime) -> bool:
    """Return whether a pod is terminating, and is less than `seconds` overdue; beyond that its node must be gone."""
    late = seconds_since(pod.metadata.deletion_timestamp or "", now)
    return late is not None and late < seconds


def _with_seats(gang: Gang, lost: Collection[_Lost], record: PlanRecord | None) -> Gang:
    """Return the gang with a member for each lost one that is still missing.

    An arrived pod does not replace its planned expected pod while fewer members exist than must run together. The pod
    may be deleted again, and a gated pod is gone at once. In that case the placeholder has kept the capacity.
    """
    placed = {each.uid for each in record.members} if record is not None else set()
    seats = {each.at: each.seat for each in lost}
    came = _come_for(gang, seats, placed)
    there = {each.pod.metadata.uid for each in gang.members} & placed
    for each in lost:
        each.heir = came.get(each.at, each.heir if each.heir in there else "")
    missing = list(_missing(gang, seats, {each.at for each in lost if each.heir}))
    if not missing:
        return gang
    waiting = dict[str, str]()
    if not gang.suffice(gang.members):
        uids = ((seats[at].pod.metadata.uid, pod) for at, pod in came.items())
        waiting = {seat: pod for seat, pod in uids if seat in placed}
    members = [each for each in gang.members if each.pod.metadata.uid not in waiting.values()]
    kept = [each for each in seats.values() if each.pod.metadata.uid in waiting]
    sets = [each.name for each in gang.pod_sets]
    return replace(
        gang,
        members=in_rank_order((*members, *kept, *missing), sets),
        made_again=frozenset(each.pod.metadata.uid for each in (*kept, *missing)),
        there_again=frozenset(waiting),
    )


def _come_for(gang: Gang, seats: Iterable[_At], placed: Collection[str]) -> Mapping[_At, str]:
    """Return the UIDs of gated pods that have arrived for these expected pods, by position.

    :param placed: the UIDs of pods that already have a place and therefore replace no expected pod.
    """
    new = [each for each in gang.members if each.pod.gated_by(GATE) and not to_come(each.pod)]
    arrived = {(each.pod_set, each.pod.metadata.name): each.pod.metadata.uid for each in new}
    arrived = {at: uid for at, uid in arrived.items() if uid not in placed}
    taken = matched(seats, arrived)
    return {(role, taken[name]): uid for (role, name), uid in arrived.items() if name in taken}


def _missing(gang: Gang, seats: Mapping[_At, Member], taken: Collection[_At]) -> Iterator[Member]:
    """Yield the expected pods that no pod has replaced, at most as many as each pod set still lacks."""
    there = {(each.pod_set, each.pod.metadata.name) for each in gang.members}
    missing = Counter({each.name: each.count for each in gang.pod_sets})
    missing.subtract(each.pod_set for each in gang.members)
    for at, seat in seats.items():
        if at not in taken and at not in there and missing[seat.pod_set] > 0:
            missing[seat.pod_set] -= 1
            yield seat
