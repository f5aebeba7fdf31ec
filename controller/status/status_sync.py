"""Keeps the statuses of topologies, groups and queues up to date: domains, counts of pods, use of quotas.

A group is an object of a dialect by which users define a gang, such as a PodGroup. Each dialect defines the statuses of
its objects (`gangs.object_statuses`). This module compares them with the present ones and writes the differences at a
limited rate. The number of groups per reconcile is limited, too, so that a reconcile stays short.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from math import inf
from typing import Any, TypeVar

from cluster.snapshot import Snapshot
from cluster.topology.domain_room import free_on, free_under
from cluster.topology.tree import domains
from controller.cluster_view import ClusterView
from controller.gang_status import Phase, status_patch
from controller.status.fair_turns import LEISURELY, Turn, in_turns
from controller.status.mirrors import GangObjects
from controller.writes.writer import Writer
from gangs.dialects.protocol import ShowsGroups, ShowsQueues, ShowsTopologies
from gangs.dialects.table import DIALECTS, OWN
from gangs.manifests import group_of
from gangs.model import GangKey, Manifest
from gangs.object_statuses import GangObjectStatus, ObjectStatus, StatusView, TopologyView
from kube.topology import Topology
from planning.quota.usage import usage_of
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339

INTERVAL_SECONDS = 1.0
"""The least seconds between two updates of the statuses of groups and queues."""
TREE_SECONDS = 30.0
"""The least seconds between two updates of the statuses of topologies.

Free capacity changes with every pod, and a status of 500 domains is 100 KB.
"""

_GROUPS = [each for each in DIALECTS if isinstance(each, ShowsGroups)]
_QUEUES = [each for each in DIALECTS if isinstance(each, ShowsQueues)]
_TOPOLOGIES = {
    kind.describes: each
    for each in DIALECTS
    if isinstance(each, ShowsTopologies)
    for kind in each.topology_kinds
    if kind.describes
}
"""By kind of topology: the dialect that defines the status of its objects."""

_Change = tuple[str, dict[str, Any], Manifest]
"""The arguments of a status write: the API path, the merge patch, and the object as read."""


class StatusSync:
    """Writes the statuses of topologies, groups and queues that have changed since the last call."""

    def __init__(self, writer: Writer, tree_seconds: float = TREE_SECONDS, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._tree_seconds = tree_seconds
        self._due = 0.0
        self._trees_due = 0.0
        self._trees_of: tuple[str, list[Topology]] | None = None
        """The inputs of the topology statuses written last: the snapshot's version and the topologies.

        None if there are none, or if a write failed, so that all are written again.
        """
        self._stale: dict[GangKey, None] = {}
        """Gangs whose group objects may need another status. The gang that has waited longest comes first."""
        self._queues_stale = True
        self.unfinished = False
        """Whether some statuses could not be written in the last call, so that another reconcile is needed soon."""
        self.due = 0.0
        """When changed topology statuses may be written again, in monotonic seconds; infinity if none has changed."""

    def show(self, cluster_view: ClusterView, turn: Turn = LEISURELY) -> None:
        """Write the statuses of topologies, groups and queues that have changed.

        :param turn: the limits of this reconcile. Groups beyond them are left for later reconciles.
        """
        self._stale |= dict.fromkeys(cluster_view.concerned)
        self._queues_stale |= _concerns_queues(cluster_view)
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + INTERVAL_SECONDS
            self._show_groups(cluster_view, turn)
            self._show_trees(cluster_view)
        trees = cluster_view.snapshot.version, list(cluster_view.topologies)
        others = self._trees_of is None or trees[1] != self._trees_of[1]
        self.unfinished = bool(self._stale) or self._queues_stale or others
        # Statuses of topologies are written with the next batch of groups at the earliest, so an earlier reconcile
        # would write nothing.
        self.due = max(self._trees_due, self._due) if trees != self._trees_of else inf

    def _show_groups(self, cluster_view: ClusterView, turn: Turn) -> None:
        todo = in_turns([*self._stale], lambda key: key.namespace)
        over = self._clock.monotonic() + turn.seconds
        while (batch := list(islice(todo, turn.batch))) and self._clock.monotonic() < over:
            for key in batch:
                del self._stale[key]
            if not self._write(group_statuses(batch, cluster_view, rfc3339(self._clock.wall())), cluster_view):
                self._stale |= dict.fromkeys(batch)
        if self._queues_stale:
            self._queues_stale = not self._write(
                queue_statuses(cluster_view, rfc3339(self._clock.wall())), cluster_view
            )

    def _show_trees(self, cluster_view: ClusterView) -> None:
        made_of = cluster_view.snapshot.version, list(cluster_view.topologies)
        if made_of == self._trees_of:
            return
        if self._trees_of is None or self._clock.monotonic() >= self._trees_due or self._trees_of[1] != made_of[1]:
            self._trees_due = self._clock.monotonic() + self._tree_seconds
            self._trees_of = made_of if self._write(topology_statuses(cluster_view), cluster_view) else None

    def _write(self, shown: Iterable[ObjectStatus], cluster_view: ClusterView) -> bool:
        """Write the statuses that differ. Return whether all writes succeeded."""
        changes = [change for each in shown for change in _change(each, cluster_view)]
        return all(each.done for each in self._writer.each(partial(self._writer.merge, *each) for each in changes))


def group_statuses(keys: Iterable[GangKey], cluster_view: ClusterView, time: str) -> Iterator[ObjectStatus]:
    """Yield the wanted statuses of the group objects that define these gangs.

    :param time: the present time, RFC 3339.
    """
    view = _view(cluster_view, time)
    for dialect in _ours(_GROUPS, cluster_view):
        for key in keys:
            if key.dialect == dialect.name:
                yield from dialect.group_statuses(key, view)


def queue_statuses(cluster_view: ClusterView, time: str) -> Iterator[ObjectStatus]:
    """Yield the wanted statuses of all queue objects. `time`: the present time, RFC 3339."""
    view = _view(cluster_view, time)
    for dialect in _ours(_QUEUES, cluster_view):
        gangs = (gang for gang in cluster_view.charged if gang.queue_dialect == dialect.name)
        yield from dialect.queue_statuses(view, usage_of(gangs, cluster_view.snapshot).by_gang)


def topology_statuses(cluster_view: ClusterView) -> Iterator[ObjectStatus]:
    """Yield the wanted statuses of all topology objects. Objects of ceded dialects are left out."""
    for topology in cluster_view.topologies:
        dialect = _TOPOLOGIES.get(topology.kind)
        if dialect is not None and dialect.name not in cluster_view.left.to:
            yield dialect.topology_status(topology_view(topology, cluster_view.snapshot))


def topology_view(topology: Topology, snapshot: Snapshot) -> TopologyView:
    """Return the inputs from which a dialect computes the status of a topology."""
    tree = domains(topology, snapshot.node_objects)
    states = {state.name: state for state in snapshot.nodes}
    return TopologyView(
        topology=topology,
        path_of=tree.path_of,
        outside=tree.outside,
        counts=tree.counts,
        free_under=lambda: free_under(tree, snapshot.nodes),
        free_on=lambda name: free_on(states[name]),
    )


_Showing = TypeVar("_Showing", ShowsGroups, ShowsQueues)


def _ours(dialects: Iterable[_Showing], cluster_view: ClusterView) -> Iterator[_Showing]:
    """Yield the dialects that are not ceded. The system to which a dialect is ceded writes the statuses itself."""
    return (each for each in dialects if each.name not in cluster_view.left.to)


def _view(cluster_view: ClusterView, time: str) -> StatusView:
    """Return the inputs from which dialects compute the statuses of their groups and queues."""
    return StatusView(
        sources=cluster_view.sources,
        now=time,
        gangs=cluster_view.reading.gangs,
        gang=cluster_view.kept.gang,
        finished=cluster_view.kept.pods.finished,
        gang_object=partial(_gang_object, GangObjects(cluster_view.sources.catalog)),
    )


def _concerns_queues(cluster_view: ClusterView) -> bool:
    """Return whether the statuses of queues may have changed since the last read.

    True if a gang of a dialect with queues has changed, or an object of a queue's API group, or everything was read
    again.
    """
    names, groups = {OWN, *(each.name for each in _QUEUES)}, {each.queue_group for each in _QUEUES}
    gangs = any(key.dialect in names for key in cluster_view.concerned)
    return gangs or cluster_view.all_new or any(key[0] in groups for key in cluster_view.objects)


def _change(shown: ObjectStatus, cluster_view: ClusterView) -> Iterator[_Change]:
    """Yield the write that gives the object its wanted status. Empty if the object is gone or has that status."""
    ref = shown.ref
    manifest = cluster_view.sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
    patch = status_patch(manifest.get("status"), shown.status) if manifest is not None else {}
    if manifest is not None and patch:
        yield shown.path, {"status": patch}, manifest


def _gang_object(objects: GangObjects, key: GangKey) -> GangObjectStatus:
    """Return the parts of the status of the gang's mirror that dialects copy; empty parts without a mirror."""
    mirrors = (objects.at(place) for place in objects.mirroring(key))
    status = next((each.get("status") or {} for each in mirrors if each is not None), {})
    return GangObjectStatus(
        status.get("message", ""), status.get("conditions") or (), status.get("phase") == Phase.UNPLACEABLE.value
    )
