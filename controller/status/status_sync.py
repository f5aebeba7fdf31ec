"""Shows on the objects of topologies, groups and queues what there is: domains, counts of pods, use of quotas.

What that is each dialect says (`gangs.object_statuses`). Here it is compared with what is there and written, not too
often, and of groups no more at a time than others can wait for.
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
"""Groups and queues are not shown more often than this."""
TREE_SECONDS = 30.0
"""Trees neither: free room changes with every pod, and a status of 500 domains is 100 KB."""

_GROUPS = [each for each in DIALECTS if isinstance(each, ShowsGroups)]
_QUEUES = [each for each in DIALECTS if isinstance(each, ShowsQueues)]
_TOPOLOGIES = {
    kind.describes: each
    for each in DIALECTS
    if isinstance(each, ShowsTopologies)
    for kind in each.topology_kinds
    if kind.describes
}
"""By the kind of topologies: whose objects show them."""

_Change = tuple[str, dict[str, Any], Manifest]
"""Path, patch, and the object as it was seen."""


class StatusSync:
    """Writes what has changed since it last looked."""

    def __init__(self, writer: Writer, tree_seconds: float = TREE_SECONDS, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._tree_seconds = tree_seconds
        self._due = 0.0
        self._trees_due = 0.0
        self._trees_of: tuple[str, list[Topology]] | None = None
        """What trees were last made of: the snapshot's version, and the topologies. None: not written as they were."""
        self._stale: dict[GangKey, None] = {}
        """Gangs whose groups may have to show something else, those first that have waited longest."""
        self._queues_stale = True
        self.unfinished = False
        """Whether something is left to be shown in a later round."""
        self.due = 0.0
        """When trees may be shown again that show something else by now (monotonic)."""

    def show(self, picture: ClusterView, turn: Turn = LEISURELY) -> None:
        """Bring the statuses of topologies, groups and queues up to date; of groups those that `turn` has time for."""
        self._stale |= dict.fromkeys(picture.concerned)
        self._queues_stale |= _concerns_queues(picture)
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + INTERVAL_SECONDS
            self._show_groups(picture, turn)
            self._show_trees(picture)
        trees = picture.snapshot.version, list(picture.topologies)
        others = self._trees_of is None or trees[1] != self._trees_of[1]
        self.unfinished = bool(self._stale) or self._queues_stale or others
        # Trees are written with the next batch of groups at the earliest, so that no round runs in vain before that.
        self.due = max(self._trees_due, self._due) if trees != self._trees_of else inf

    def _show_groups(self, picture: ClusterView, turn: Turn) -> None:
        todo = in_turns([*self._stale], lambda key: key.namespace)
        over = self._clock.monotonic() + turn.seconds
        while (batch := list(islice(todo, turn.batch))) and self._clock.monotonic() < over:
            for key in batch:
                del self._stale[key]
            if not self._write(group_statuses(batch, picture, rfc3339(self._clock.wall())), picture):
                self._stale |= dict.fromkeys(batch)
        if self._queues_stale:
            self._queues_stale = not self._write(queue_statuses(picture, rfc3339(self._clock.wall())), picture)

    def _show_trees(self, picture: ClusterView) -> None:
        made_of = picture.snapshot.version, list(picture.topologies)
        if made_of == self._trees_of:
            return
        if self._trees_of is None or self._clock.monotonic() >= self._trees_due or self._trees_of[1] != made_of[1]:
            self._trees_due = self._clock.monotonic() + self._tree_seconds
            self._trees_of = made_of if self._write(topology_statuses(picture), picture) else None

    def _write(self, shown: Iterable[ObjectStatus], picture: ClusterView) -> bool:
        """Whether all could be written that had to be."""
        changes = [change for each in shown for change in _change(each, picture)]
        return all(each.done for each in self._writer.each(partial(self._writer.merge, *each) for each in changes))


def group_statuses(keys: Iterable[GangKey], picture: ClusterView, time: str) -> Iterator[ObjectStatus]:
    """What the objects that ask for gangs should show, of the gangs of these keys. `time`: RFC 3339, the present."""
    view = _view(picture, time)
    for dialect in _ours(_GROUPS, picture):
        for key in keys:
            if key.dialect == dialect.name:
                yield from dialect.group_statuses(key, view)


def queue_statuses(picture: ClusterView, time: str) -> Iterator[ObjectStatus]:
    """What all queues should show. `time`: RFC 3339, the present."""
    view = _view(picture, time)
    for dialect in _ours(_QUEUES, picture):
        gangs = (gang for gang in picture.charged if gang.queue_dialect == dialect.name)
        yield from dialect.queue_statuses(view, usage_of(gangs, picture.snapshot).by_gang)


def topology_statuses(picture: ClusterView) -> Iterator[ObjectStatus]:
    """What all topologies should show."""
    for topology in picture.topologies:
        dialect = _TOPOLOGIES.get(topology.kind)
        if dialect is not None and dialect.name not in picture.left.to:
            yield dialect.topology_status(topology_view(topology, picture.snapshot))


def topology_view(topology: Topology, snapshot: Snapshot) -> TopologyView:
    """What a dialect may look at to say what a topology shows."""
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


def _ours(dialects: Iterable[_Showing], picture: ClusterView) -> Iterator[_Showing]:
    """Those that are not left to their own system, which writes these itself."""
    return (each for each in dialects if each.name not in picture.left.to)


def _view(picture: ClusterView, time: str) -> StatusView:
    """What dialects may look at to say what their groups and queues show."""
    return StatusView(
        sources=picture.sources,
        now=time,
        gangs=picture.reading.gangs,
        gang=picture.kept.gang,
        finished=picture.kept.pods.finished,
        gang_object=partial(_gang_object, GangObjects(picture.sources.catalog)),
    )


def _concerns_queues(picture: ClusterView) -> bool:
    """Whether a gang that may be in a queue has changed or gone, or an object of a system that shows its queues."""
    names, groups = {OWN, *(each.name for each in _QUEUES)}, {each.queue_group for each in _QUEUES}
    gangs = any(key.dialect in names for key in picture.concerned)
    return gangs or picture.all_new or any(key[0] in groups for key in picture.objects)


def _change(shown: ObjectStatus, picture: ClusterView) -> Iterator[_Change]:
    """What has to be written to the object, nothing where it is gone or says so already."""
    ref = shown.ref
    manifest = picture.sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
    patch = status_patch(manifest.get("status"), shown.status) if manifest is not None else {}
    if manifest is not None and patch:
        yield shown.path, {"status": patch}, manifest


def _gang_object(objects: GangObjects, key: GangKey) -> GangObjectStatus:
    """What the Gang object says that mirrors a gang."""
    mirrors = (objects.at(place) for place in objects.mirroring(key))
    status = next((each.get("status") or {} for each in mirrors if each is not None), {})
    return GangObjectStatus(
        status.get("message", ""), status.get("conditions") or (), status.get("phase") == Phase.UNPLACEABLE.value
    )
