"""How soon the next reconcile is due for a change: at once, soon, or together with later changes.

A reconcile costs as much for one change as for a hundred, so changes that no gang waits for are batched. Such changes
are new members of a gang that lacks more members, and members that are bound one after the other. The watch events of
the controller's own writes, pods of no gang, and objects of which only unread fields changed, such as the counts in a
Job's status, are batched, too. A reconcile begins at once when a gang has just become
complete, a probe was answered, or the last member was bound. Each reconcile processes all changes, so a wrong estimate
only costs a moment (docs/decisions/0025).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import News
from controller.acting.probe import is_probe, tried_probe
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import AllBound, AwaitBinding, NeedPlan, Nominate, Release
from controller.writes.read_your_writes import ReadYourWrites
from gangs.coexistence.ownership import NOTHING, CededToOthers
from gangs.dialects.claims import dialect_of
from gangs.incremental.dependencies import equal_as_read
from gangs.incremental.pods import KeptPods
from gangs.model import Gang, GangKey, Manifest
from kube.catalog import ObjectKey
from kube.keys import GROUP, SYSTEM_NAMESPACE
from kube.objects import Pod
from planning.decision import Outcome


class Urgency(IntEnum):
    """How soon a reconcile is due for a change: not at all, after `GATHER`, after `SETTLE`, or at once
    (`controller.pace`).
    """

    NEVER = 0
    LATER = 1
    SOON = 2
    NOW = 3


@dataclass(slots=True)
class _Awaited:
    """The pod changes that a gang waits for: the arrival of missing members, or else the binding of its members.

    A reconcile begins at once for the last of these changes. It is delayed for the others.
    """

    lacking: int
    """The number of members that must still arrive before the gang can be planned; 0 if the gang has a plan."""
    known: set[str]
    """The UIDs of the members that have arrived."""
    unbound: set[str]
    """The UIDs of members that the plan in force contains and that are not bound yet."""


class Urgencies:
    """Estimates the urgency of changes from what the gangs wait for since the last reconcile.

    Use an object from the thread of the reconciles only.
    """

    def __init__(self, cache: ClusterCache, read_your_writes: ReadYourWrites) -> None:
        self._cache = cache
        self._read_your_writes = read_your_writes
        self._awaited: dict[GangKey, _Awaited | None] = {}
        """The changes that a gang waits for, by each key under which pods may name the gang (`Gang.names`).

        None: any change may matter to the gang.
        """
        self._names: dict[GangKey, frozenset[GangKey]] = {}
        """By gang: its keys in `_awaited`."""
        self._room: set[GangKey] = set()
        """Gangs that may wait for capacity, so that the end of any pod may matter to them."""
        self._objects: Mapping[ObjectKey, Manifest] = {}
        """The objects that the last reconcile read."""
        self._pods: KeptPods | None = None
        self._left: CededToOthers = NOTHING

    def note(self, gang_states: Iterable[ReconcileState], gone: Collection[GangKey], cluster_view: ClusterView) -> None:
        """Update, at the end of a reconcile, the changes in the cluster after which the next reconcile is due at once.

        :param gang_states: the gangs whose state may have changed.
        :param gone: gangs that no longer exist.
        """
        self._pods, self._left = cluster_view.kept.pods, cluster_view.left
        self._objects = cluster_view.sources.objects
        for key in gone:
            self._forget(key)
        for gang_state in gang_states:
            self._forget(gang_state.gang.key)
            self._take(gang_state)

    def of(self, news: News) -> Urgency:
        """Return how soon a reconcile is due for these changes: the highest urgency of any of them.

        Changes that the journal does not list by name, such as changes of nodes, are SOON.
        """
        if news.everything or not (news.pods or news.objects):
            return Urgency.SOON
        others = Urgency.SOON if news.unnamed else Urgency.NEVER
        objects = self._cache.objects() if news.objects else {}
        changed = (self._of_object(key, objects.get(key)) for key in news.objects)
        return max(others, *map(self._of_pod, news.pods), *changed)

    def _take(self, gang_state: ReconcileState) -> None:
        gang, awaited = gang_state.gang, _awaited(gang_state)
        if isinstance(gang_state.step, AllBound) and awaited is None:
            return
        if awaited is None or not awaited.lacking:
            self._room.add(gang.key)
        self._names[gang.key] = gang.names
        for name in gang.names:
            self._awaited[name] = awaited if name not in self._awaited else None

    def _forget(self, key: GangKey) -> None:
        self._room.discard(key)
        for name in self._names.pop(key, ()):
            self._awaited.pop(name, None)

    def _of_object(self, key: ObjectKey, manifest: Manifest | None) -> Urgency:
        """Return the urgency of a changed object. `manifest`: the object now; None if it is gone.

        It is LATER for the watch events of the controller's own writes of Gang objects, and if only fields have changed
        that no dialect reads.
        """
        if equal_as_read(key[:2], self._objects.get(key), manifest):
            return Urgency.LATER
        ours = (
            key[:2] == (GROUP, "Gang")
            and manifest is not None
            and self._read_your_writes.covers("gangs", manifest["metadata"].get("resourceVersion", ""))
        )
        return Urgency.LATER if ours else Urgency.SOON

    def _of_pod(self, at: tuple[str, str]) -> Urgency:
        pod = self._cache.pod(*at)
        if at[0] == SYSTEM_NAMESPACE:
            return _of_ours(pod)
        name = self._name(f"{at[0]}/{at[1]}", pod)
        if name is None or (name not in self._awaited and pod is not None and pod.bound):
            leaves = pod is None or pod.terminating or pod.finished
            return Urgency.SOON if leaves and (name is not None or self._room) else Urgency.LATER
        awaited = self._awaited.get(name)
        if awaited is None:
            return Urgency.SOON
        if pod is None or pod.terminating or pod.finished:
            return Urgency.LATER if awaited.lacking and not self._room else Urgency.SOON
        return _of_coming(pod, awaited) if awaited.lacking else _of_planned(pod, awaited)

    def _name(self, key: str, pod: Pod | None) -> GangKey | None:
        """Return the gang that a pod names, or named while it existed; None if there is none."""
        if pod is not None and (found := dialect_of(pod, self._left)) is not None:
            return found[1]
        return self._pods.claim(key) if self._pods is not None else None


def _of_ours(pod: Pod | None) -> Urgency:
    if pod is None:
        return Urgency.LATER
    if not is_probe(pod):
        return Urgency.SOON
    return Urgency.NOW if tried_probe(pod) else Urgency.NEVER


def _of_coming(pod: Pod, awaited: _Awaited) -> Urgency:
    if pod.metadata.uid not in awaited.known:
        awaited.known.add(pod.metadata.uid)
        awaited.lacking -= 1
    return Urgency.LATER if awaited.lacking else Urgency.NOW


def _of_planned(pod: Pod, awaited: _Awaited) -> Urgency:
    """Return the urgency of a changed member whose gang has a plan. The last binding of the plan is NOW.

    Earlier bindings and the controller's own nominations are LATER; any other change is SOON.
    """
    if pod.metadata.uid not in awaited.unbound:
        return Urgency.LATER if pod.bound else Urgency.SOON
    if pod.bound:
        awaited.unbound.discard(pod.metadata.uid)
        return Urgency.LATER if awaited.unbound else Urgency.NOW
    return Urgency.LATER if pod.status.nominated_node_name else Urgency.SOON


def _awaited(gang_state: ReconcileState) -> _Awaited | None:
    gang, record = gang_state.gang, gang_state.record
    uids = {member.pod.metadata.uid for member in gang.members}
    if record is not None and isinstance(gang_state.step, NeedPlan | Nominate | Release | AwaitBinding):
        unbound = {member.pod.metadata.uid for member in gang.members if not member.pod.bound}
        return _Awaited(0, uids, unbound & {member.uid for member in record.members})
    decision = gang_state.decision
    waits = isinstance(gang_state.step, AllBound) or (decision is not None and decision.outcome is Outcome.WAITING)
    lacking = _lacking(gang) if waits else 0
    return _Awaited(lacking, uids, set()) if lacking > 0 else None


def _lacking(gang: Gang) -> int:
    """Return how many members must at least still arrive to reach the gang's minimum.

    0 if the gang also waits for other objects, or has expected pods. 0 or less if the minimum is reached.
    """
    if gang.waiting_for or gang.to_come:
        return 0
    return max(gang.min_member, sum(each.min_count for each in gang.pod_sets)) - len(gang.members) - gang.succeeded
