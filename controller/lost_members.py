"""Keeps capacity for lost members of a gang until their workload has recreated them.

The input is the gang as the cluster shows it, and its state in the last reconcile. The output is the gang with an
expected pod for each lost member (docs/decisions/0034). It is planned, and its capacity is reserved, like that of any
expected pod (docs/decisions/0022). The state is in memory only: a restarted controller starts without it.
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
"""Kinds of objects that ask for a gang and create no pods, so that it is unknown whether lost pods are recreated."""

_At = tuple[str, str]
"""A member's position in its gang: its pod set and the name of its pod. A recreated pod has the position of the lost
one, so the position relates both.
"""

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Lost:
    """A lost member: the `pod` that ran, and `seat`, the expected pod that represents its successor.

    `since`: when the loss was noticed, or the pod was last seen terminating, in monotonic seconds.
    `planned`: whether a plan has assigned a node to the expected pod. `successor`: the UID of the successor that has
    arrived; "" while there is none.
    """

    pod: Pod
    seat: Member
    since: float
    planned: bool = False
    successor: str = ""

    @property
    def at(self) -> _At:
        """The position of the lost member and of its successor in the gang: pod set and pod name."""
        return self.seat.pod_set, self.seat.pod.metadata.name


class LostMembers:
    """The lost members of all gangs. Each is kept until its successor is released, or `seconds` have passed."""

    def __init__(self, seconds: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._seconds = seconds
        self._clock = clock
        self._read: dict[GangKey, Gang] = {}
        """Gangs as they were last read."""
        self._lost: dict[GangKey, dict[str, _Lost]] = {}
        """The lost members by gang, then by the UID of the pod that ran."""
        self._made: dict[GangKey, Gang] = {}
        """The gangs that `gang` returned last. An equal gang is returned as the same object, so callers can compare by
        identity.
        """
        self._refused: set[GangKey] = set()
        """Gangs that have been rejected since they last lost a member."""

    @property
    def charged(self) -> Mapping[GangKey, Gang]:
        """The gangs with lost members that are being recreated, each with a member for every lost pod.

        Quotas of queues charge these members. A gang is left out once it is rejected.
        """
        return {key: gang for key, gang in self._made.items() if key not in self._refused}

    def refuse(self, key: GangKey) -> None:
        """Record that the gang was rejected, so that its queue is not charged for its lost members any more."""
        if key in self._lost:
            self._refused.add(key)

    def gang(self, key: GangKey, before: ReconcileState | None, cluster_view: ClusterView) -> Gang | None:
        """Return the gang with a member for each lost pod that is being recreated; None if the gang does not exist.

        After an internal error the gang is returned without such members, so no other gang is affected.

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
        of_a_part = last is not None and last.part  # a part of a workload is not read while it has no pods
        base = replace(last, members=()) if last is not None and of_a_part and read is None else read
        manifest = _workload(base, cluster_view) if base is not None and key in self._lost else None
        if base is None or manifest is None:
            self._end(key, read)
            return read
        record = before.record if before is not None else None
        self._forget_replaced(key, base, record, cluster_view)
        found = _with_seats(base, self._lost[key].values(), record)
        if not self._lost[key]:
            self._end(key, read)
            return read
        if self._made.get(key) != found:
            self._made[key] = found
        return self._made[key]

    def _end(self, key: GangKey, read: Gang | None) -> None:
        """Forget the lost members of the gang. Remember the gang as it was read, to notice its next loss."""
        self.forget(key)
        if read is not None:
            self._read[key] = read

    def forget(self, key: GangKey) -> None:
        """Drop the record of the gang's lost members."""
        for memory in (self._read, self._lost, self._made):
            memory.pop(key, None)
        self._refused.discard(key)

    def _note(self, last: Gang, read: Gang | None, before: ReconcileState, cluster_view: ClusterView) -> None:
        """Record the members that ran when the gang was last read and are lost now, if the gang was whole.

        Nothing is recorded while a plan evicts victims for the gang: new members would invalidate that plan.

        :param last: the gang as it was read before.
        :param read: the gang as it is read now; None if it does not exist.
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

    def _forget_replaced(self, key: GangKey, gang: Gang, record: PlanRecord | None, cluster_view: ClusterView) -> None:
        """Drop the lost members whose successor is released, and those whose successor has not arrived in time.

        A lost member is kept while its successor is gated, because the successor may be deleted, too.
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
            if each.successor and each.successor not in gated:
                each.successor, each.planned = "", False
            taken = awaited is not None and each.planned and each.seat.pod.metadata.uid not in awaited
            each.planned = each.planned or (awaited is not None and each.seat.pod.metadata.uid in awaited)
            if (taken and not gated.get(each.successor, False)) or now - each.since > self._seconds:
                del lost[uid]


def _workload(gang: Gang, cluster_view: ClusterView) -> Manifest | None:
    """Return the object that creates the gang's pods, if it will recreate lost ones; None otherwise."""
    at = gang.source
    manifest = cluster_view.sources.get(group_of(at.api_version), at.kind, at.namespace, at.name)
    if manifest is None or gang.waiting_for or at.namespace in cluster_view.ending or not goes_on(manifest, gang.part):
        return None
    return manifest if metadata_of(manifest).uid == at.uid else None


def _is_lost(pod: Pod, now: Pod | None) -> bool:
    """Return whether a pod that ran is gone, terminating, or has failed. A succeeded pod is not lost.

    :param now: the present pod of the same name; None if there is none.
    """
    if now is None or now.metadata.uid != pod.metadata.uid:
        return True
    return now.status.phase != "Succeeded" and (now.terminating or now.finished)


def _leaving(pod: Pod, seconds: float, now: datetime) -> bool:
    """Return whether a pod is terminating and less than `seconds` past its deletion timestamp.

    A pod that is further overdue is not waited for, because its node must be gone.
    """
    late = seconds_since(pod.metadata.deletion_timestamp or "", now)
    return late is not None and late < seconds


def _with_seats(gang: Gang, lost: Collection[_Lost], record: PlanRecord | None) -> Gang:
    """Return the gang with an expected pod for each lost member that is still missing.

    A pod that has arrived replaces its expected pod only once the minimum of members exists. Until then the expected
    pod stays in the plan and its placeholder keeps the capacity, because a gated pod may be deleted again at once.

    :param record: the plan in force; None if there is none.
    """
    placed = {each.uid for each in record.members} if record is not None else set()
    seats = {each.at: each.seat for each in lost}
    came = _come_for(gang, seats, placed)
    there = {each.pod.metadata.uid for each in gang.members} & placed
    for each in lost:
        each.successor = came.get(each.at, each.successor if each.successor in there else "")
    missing = list(_missing(gang, seats, {each.at for each in lost if each.successor}))
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
    """Return the UIDs of gated pods that have arrived for these expected pods, by the position of the expected pod.

    :param placed: the UIDs of pods that the plan already contains and that therefore replace no expected pod.
    """
    new = [each for each in gang.members if each.pod.gated_by(GATE) and not to_come(each.pod)]
    arrived = {(each.pod_set, each.pod.metadata.name): each.pod.metadata.uid for each in new}
    arrived = {at: uid for at, uid in arrived.items() if uid not in placed}
    taken = matched(seats, arrived)
    return {(role, taken[name]): uid for (role, name), uid in arrived.items() if name in taken}


def _missing(gang: Gang, seats: Mapping[_At, Member], taken: Collection[_At]) -> Iterator[Member]:
    """Yield the expected pods that no pod has replaced, at most as many as each pod set lacks members.

    :param taken: the positions whose successor has arrived.
    """
    there = {(each.pod_set, each.pod.metadata.name) for each in gang.members}
    missing = Counter({each.name: each.count for each in gang.pod_sets})
    missing.subtract(each.pod_set for each in gang.members)
    for at, seat in seats.items():
        if at not in taken and at not in there and missing[seat.pod_set] > 0:
            missing[seat.pod_set] -= 1
            yield seat
