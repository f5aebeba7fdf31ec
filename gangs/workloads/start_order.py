"""Workloads that make their later pods only when earlier ones run: which pods they will still make.

A gang of theirs is complete as soon as the pods are there that it makes at once; the others are read from the workload,
and room is held for them until it makes them (docs/decisions/0022).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gangs.manifests import metadata_of, ref_of
from gangs.model import Manifest
from gangs.workloads import pod_templates
from gangs.workloads.pod_counts import LAUNCHER
from gangs.workloads.pod_templates import MAIN, WORKER
from gangs.workloads.pods_to_come import missing_pods
from kube.keys import GATE
from kube.objects import Pod, SchedulingGate
from kube.placeholders import matched, seat_uid

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet or of the template of its Jobs: the other pods of a Job are made when its first is bound."""
_EXCLUSIVE_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""Annotation of a LeaderWorkerSet: the workers of a group are made when its leader is bound."""


def later_roles(manifest: Manifest) -> frozenset[str]:
    """The roles of which the workload makes pods only when others run, are ready or have ended."""
    match ref_of(manifest).kind:
        case "StatefulSet" if pod_templates.at_path(manifest, "spec.podManagementPolicy") != "Parallel":
            return frozenset((MAIN,))
        case "MPIJob" if pod_templates.at_path(manifest, "spec.launcherCreationPolicy") == "WaitForWorkersReady":
            return frozenset((LAUNCHER,))
        case "JobSet":
            return frozenset(_later_jobs(manifest))
        case "LeaderWorkerSet" if _leader_first(manifest):
            return frozenset((WORKER,))
    return frozenset()


def _leader_first(manifest: Manifest) -> bool:
    ready = pod_templates.at_path(manifest, "spec.startupPolicy") == "LeaderReady"
    return ready or _EXCLUSIVE_GROUPS in metadata_of(manifest).annotations


def _later_jobs(manifest: Manifest) -> Iterator[str]:
    written = pod_templates.at_path(manifest, "spec.replicatedJobs")
    entries = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    in_order = pod_templates.at_path(manifest, "spec.startupPolicy.startupPolicyOrder") == "InOrder"
    exclusive = EXCLUSIVE in metadata_of(manifest).annotations
    for position, each in enumerate(entries):
        own = pod_templates.at_path(each, "template.metadata.annotations")
        one_by_one = exclusive or (isinstance(own, Mapping) and EXCLUSIVE in own)
        if one_by_one or each.get("dependsOn") or (in_order and position > 0):
            yield str(each.get("name") or position)


def to_come(
    manifest: Manifest,
    there: Sequence[Pod],
    ended: Sequence[Pod],
    role: Callable[[Pod], str],
    belongs: Callable[[Pod], bool],
) -> tuple[Pod, ...]:
    """The pods of a gang that such a workload will still make, each with the gate and its seat as uid.

    None before its first pod is there: what has been defaulted on that (priority, requests) holds for all of a role.
    `there`: the gang's pods that live; `ended`: those that have ended well and are not made again; `role`: their pod
    sets; `belongs`: whether a pod of the workload is the gang's. Raises `MalformedError`.
    """
    later = later_roles(manifest)
    if not later or not there:
        return ()
    declared = [pod for pod in missing_pods(manifest, ()) if belongs(pod) and role(pod) in later]

    def seat(pod: Pod) -> tuple[str, str]:
        return role(pod), pod.metadata.name

    came = set(matched(map(seat, declared), map(seat, (*there, *ended))).values())
    siblings: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in there:
        siblings[role(pod)].append(pod)
    uid = metadata_of(manifest).uid
    return tuple(
        _awaited(pod, seat_uid(uid, *seat(pod)), there[0], siblings[role(pod)])
        for pod in declared
        if pod.metadata.name not in came
    )


def _awaited(pod: Pod, uid: str, first: Pod, siblings: Sequence[Pod]) -> Pod:
    """The pod as admission will make it, as far as its siblings show."""
    changes: dict[str, Any] = {"scheduling_gates": (SchedulingGate(name=GATE),)}
    for name in ("priority", "priority_class_name", "preemption_policy", "scheduler_name"):
        changes[name] = getattr(first.spec, name)
    for name in ("containers", "init_containers", "overhead", "resources") if siblings else ():
        changes[name] = getattr(siblings[0].spec, name)
    return replace(pod, metadata=replace(pod.metadata, uid=uid), spec=replace(pod.spec, **changes))
