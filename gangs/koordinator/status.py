"""The statuses of Koordinator's objects: phases and counts of PodGroups, and the tree of the network topology.

Koordinator moves a PodGroup from phase to phase. Phalanx computes the phase from the existing pods. The phases are the
same, and no state is needed (Koordinator's rules: pkg/scheduler/plugins/coscheduling/controller/podgroup.go).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gangs.koordinator import NAME, keys
from gangs.manifests import group_of
from gangs.model import GangKey, ObjectRef
from gangs.object_statuses import DomainPath, ObjectStatus, StatusView, TopologyView
from kube.names import natural_key
from kube.objects import Pod
from kube.topology import Topology


def group_statuses(key: GangKey, view: StatusView) -> Iterator[ObjectStatus]:
    """The status of every PodGroup that the gang is made of. Their definition has no status apart."""
    gang = view.gang(key)
    if gang is None:
        return
    for ref, pod_set in zip(gang.groups, gang.pod_sets, strict=False):
        if (group_of(ref.api_version), ref.kind) == (keys.POD_GROUP_GROUP, keys.POD_GROUP_KIND):
            live = [member.pod for member in gang.members if member.pod_set == pod_set.name]
            pods = [*live, *view.finished(GangKey(NAME, ref.namespace, ref.name))]
            status = pod_group_status(pod_set.min_count, pods, now=view.now, previous=view.status_of(ref))
            yield ObjectStatus(ref, status, keys.POD_GROUPS, subresource=False)


def topology_status(view: TopologyView) -> ObjectStatus:
    """The status of a ClusterNetworkTopology."""
    ref = ObjectRef(f"{keys.TOPOLOGY_GROUP}/{keys.VERSION}", keys.TOPOLOGY_KIND, "", view.topology.name)
    status = {"detailStatus": detail_status(view.topology, ((path, name) for name, path in view.path_of.items()))}
    return ObjectStatus(ref, status, keys.TOPOLOGIES)


def pod_group_status(
    minimum: int, pods: Sequence[Pod], *, now: str, previous: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The status of a PodGroup with these pods, finished ones included, the first pod first.

    Counts of nothing are left out, as Koordinator does. `scheduleStartTime`: when scheduling was first seen under way.

    :param minimum: `spec.minMember`.
    :param now: RFC 3339.
    """
    before = previous or {}
    by_phase = Counter(pod.status.phase for pod in pods)
    counts = {
        "scheduled": sum(pod.bound for pod in pods),
        "running": by_phase["Running"],
        "succeeded": by_phase["Succeeded"],
        "failed": by_phase["Failed"],
    }
    phase = _phase(minimum, pods, counts)
    status: dict[str, Any] = {"phase": phase, **{name: count for name, count in counts.items() if count}}
    if phase == "Pending":
        return status
    owner = before.get("occupiedBy") or _occupied_by(pods[0])
    if owner:
        status["occupiedBy"] = owner
    if phase != "PreScheduling":
        status["scheduleStartTime"] = before.get("scheduleStartTime") or now
    return status


def _phase(minimum: int, pods: Sequence[Pod], counts: Mapping[str, int]) -> str:
    succeeded, failed, running = counts["succeeded"], counts["failed"], counts["running"]
    under_way = any(pod.bound or pod.status.nominated_node_name for pod in pods)
    if not pods or (len(pods) < minimum and not under_way):
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    if running + succeeded >= minimum:
        return "Running"
    if counts["scheduled"] >= minimum:
        return "Scheduled"
    return "Scheduling" if under_way else "PreScheduling"


def _occupied_by(pod: Pod) -> str:
    namespace = pod.metadata.namespace
    return ",".join(sorted(f"{namespace}/{owner.name}" for owner in pod.metadata.owner_references))


def detail_status(topology: Topology, nodes: Iterable[tuple[Sequence[str], str]]) -> list[dict[str, Any]]:
    """`status.detailStatus`. `nodes`: for each node inside the topology the path of its domains and its name.

    An entry for the root and for every domain above the node; children by natural name. Nodes are only counted.
    """
    counts: dict[DomainPath, int] = {(): 0}
    children: dict[DomainPath, set[str]] = {}
    for names, _ in nodes:
        path = tuple(names)
        counts[()] += 1
        for depth, name in enumerate(path, start=1):
            counts[path[:depth]] = counts.get(path[:depth], 0) + 1
            children.setdefault(path[: depth - 1], set()).add(name)
    layers = (keys.ROOT_LAYER, *(level.name for level in topology.levels))
    return _entries((), layers, counts, children)


def _entries(
    path: DomainPath, layers: Sequence[str], counts: dict[DomainPath, int], children: dict[DomainPath, set[str]]
) -> list[dict[str, Any]]:
    names = sorted(children.get(path, ()), key=natural_key)
    entry: dict[str, Any] = {"childTopologyLayer": layers[len(path) + 1]}
    if names:
        entry["childTopologyNames"] = names
    entry["nodeNum"] = counts[path]
    if path:
        entry["parentTopologyInfo"] = _info(path[:-1], layers)
    entry["topologyInfo"] = _info(path, layers)
    entries = [entry]
    for name in names:
        entries += _entries((*path, name), layers, counts, children)
    return entries


def _info(path: DomainPath, layers: Sequence[str]) -> dict[str, str]:
    return {"topologyLayer": layers[len(path)], "topologyName": path[-1] if path else ""}
