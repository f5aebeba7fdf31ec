"""The statuses of Koordinator's objects: of PodGroups, and of the ClusterNetworkTopology.

Koordinator's controller moves a PodGroup from phase to phase. Phalanx instead computes the phase from the existing
pods, with the same result (Koordinator's rules: pkg/scheduler/plugins/coscheduling/controller/podgroup.go).
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
    """Yield the status of each PodGroup of a gang; nothing if the gang does not exist.

    The CRD of PodGroup has no subresource `/status`, so the status is written to the object itself.
    """
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
    """Return the status of the ClusterNetworkTopology: its domains with their numbers of nodes."""
    ref = ObjectRef(f"{keys.TOPOLOGY_GROUP}/{keys.VERSION}", keys.TOPOLOGY_KIND, "", view.topology.name)
    status = {"detailStatus": detail_status(view.topology, ((path, name) for name, path in view.path_of.items()))}
    return ObjectStatus(ref, status, keys.TOPOLOGIES)


def pod_group_status(
    minimum: int, pods: Sequence[Pod], *, now: str, previous: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the status of a PodGroup. Counts of 0 are left out, as Koordinator does.

    `scheduleStartTime` is the time at which a pod first had a node.

    :param minimum: `spec.minMember`.
    :param pods: the pods of the PodGroup, finished ones included, the first pod first.
    :param now: the time (RFC 3339).
    :param previous: the current status; None or empty if there is none.
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
    """Return `status.detailStatus`: an entry for the root, and for every domain above the node level.

    An entry has the number of its nodes and the names of the domains directly inside it, in natural order.

    :param nodes: for each node in the topology, the names of its domains, the widest first, and its own name.
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
