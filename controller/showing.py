"""Shows on the objects of topologies and groups what there is: trees of domains, counts of pods."""

from collections.abc import Iterator
from time import monotonic
from typing import Any

from cluster.snapshot import Snapshot
from cluster.tree import domains
from controller.picture import Picture
from controller.podgroups import pod_group_status
from controller.reporting import now
from controller.statuses import status_patch
from controller.topologies import topology_status
from controller.writes import Writer
from gangs.koordinator.keys import POD_GROUP_GROUP, TOPOLOGY_GROUP, TOPOLOGY_KIND
from gangs.koordinator.status import detail_status
from gangs.model import Manifest
from kube.keys import GROUP
from kube.topology import Topology

INTERVAL_SECONDS = 1.0
"""Trees are not shown more often than this: free room changes with every pod."""

_Change = tuple[str, dict[str, Any]]
"""Path and patch."""


class Shower:
    """Writes what has changed since it last looked."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._due = 0.0

    def show(self, picture: Picture) -> None:
        """Bring the statuses of topologies and PodGroups up to date."""
        if monotonic() < self._due:
            return
        self._due = monotonic() + INTERVAL_SECONDS
        for path, patch in (*_trees(picture), *_pod_groups(picture)):
            self._writer.merge(path, patch)


def _trees(picture: Picture) -> Iterator[_Change]:
    for topology in picture.topologies:
        manifest, path = _object_of(topology, picture)
        if manifest is None:
            continue
        patch = status_patch(manifest.get("status"), _tree_status(topology, picture.snapshot))
        if patch:
            yield f"{path}/{topology.name}/status", {"status": patch}


def _object_of(topology: Topology, picture: Picture) -> tuple[Manifest | None, str]:
    if topology.kind == TOPOLOGY_KIND:
        path = f"/apis/{TOPOLOGY_GROUP}/v1alpha1/clusternetworktopologies"
        return picture.sources.get(TOPOLOGY_GROUP, TOPOLOGY_KIND, "", topology.name), path
    return picture.sources.get(GROUP, topology.kind, "", topology.name), f"/apis/{GROUP}/v1alpha1/topologies"


def _tree_status(topology: Topology, snapshot: Snapshot) -> dict[str, Any]:
    if topology.kind != TOPOLOGY_KIND:
        return topology_status(topology, snapshot)
    tree = domains(topology, (state.node for state in snapshot.nodes))
    return {"detailStatus": detail_status(topology, ((path, name) for name, path in tree.path_of.items()))}


def _pod_groups(picture: Picture) -> Iterator[_Change]:
    members = {
        (ref.namespace, ref.name): [m.pod for m in gang.members if len(gang.groups) == 1 or m.pod_set == ref.name]
        for gang in picture.reading.gangs
        for ref in gang.groups
        if ref.kind == "PodGroup"
    }
    for (namespace, name), pods in members.items():
        manifest = picture.sources.get(POD_GROUP_GROUP, "PodGroup", namespace, name)
        if manifest is None:
            continue
        minimum = int((manifest.get("spec") or {}).get("minMember") or 1)
        wanted = pod_group_status(minimum, pods, now=now(), previous=manifest.get("status"))
        patch = status_patch(manifest.get("status"), wanted)
        if patch:
            path = f"/apis/{POD_GROUP_GROUP}/v1alpha1/namespaces/{namespace}/podgroups/{name}"
            yield path, {"status": patch}
