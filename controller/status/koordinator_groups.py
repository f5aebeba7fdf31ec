"""The status of a Koordinator PodGroup, as its users know it: phases and counts, no conditions.

Koordinator moves from phase to phase; here the phase follows from what is there, which comes to the same phases and
needs no memory (its rules: pkg/scheduler/plugins/coscheduling/controller/podgroup.go).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gangs.koordinator.keys import POD_GROUP_GROUP, POD_GROUP_KIND
from gangs.manifests import group_of
from gangs.model import Gang, ObjectRef
from kube.objects import Pod


def pod_group_statuses(
    gang: Gang,
    previous: Mapping[ObjectRef, Mapping[str, Any]],
    *,
    now: str,
    finished: Mapping[ObjectRef, Sequence[Pod]] | None = None,
) -> dict[ObjectRef, dict[str, Any]]:
    """The status of every PodGroup that the gang is made of.

    :param previous: their statuses as they are.
    :param finished: pods of each that have ended; they are no members any more.
    """
    statuses = {}
    for ref, pod_set in zip(gang.groups, gang.pod_sets, strict=False):
        if (group_of(ref.api_version), ref.kind) == (POD_GROUP_GROUP, POD_GROUP_KIND):
            live = [member.pod for member in gang.members if member.pod_set == pod_set.name]
            pods = [*live, *(finished or {}).get(ref, ())]
            statuses[ref] = pod_group_status(pod_set.min_count, pods, now=now, previous=previous.get(ref))
    return statuses


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
