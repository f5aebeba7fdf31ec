"""Workloads that make their later pods only when earlier ones run: a gang of theirs would wait for ever."""

from collections.abc import Iterable, Mapping
from typing import Any

from gangs.findings import Findings
from gangs.manifests import metadata_of, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.workloads import pod_templates
from kube.keys import PREFERRED, REQUIRED
from kube.objects import Pod

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet or of the template of its Jobs: each Job has a domain of its own."""
_EXCLUSIVE_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""Annotation of a LeaderWorkerSet: each group has a domain of its own."""
_NONE = "and none runs before all exist"


def check(manifest: Manifest, minimum: int, pods: Iterable[Pod], findings: Findings) -> None:
    """Note where a workload of which so many pods are to start together makes them one after the other."""
    ref = ref_of(manifest)
    match ref.kind:
        case "StatefulSet":
            pod_templates.check_parallel(manifest, minimum, pods, findings)
        case "MPIJob" if pod_templates.at_path(manifest, "spec.launcherCreationPolicy") == "WaitForWorkersReady":
            problem = f"is WaitForWorkersReady: the launcher comes when the workers run, {_NONE}"
            findings.fault(ref, "spec.launcherCreationPolicy", problem, "write AtStartup")
        case "JobSet":
            _check_jobs(manifest, ref, findings)
        case "LeaderWorkerSet":
            _check_groups(manifest, ref, minimum, findings)


def _check_jobs(manifest: Manifest, ref: ObjectRef, findings: Findings) -> None:
    written = pod_templates.at_path(manifest, "spec.replicatedJobs")
    entries = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    order = "spec.startupPolicy.startupPolicyOrder"
    if pod_templates.at_path(manifest, order) == "InOrder" and len(entries) > 1:
        findings.fault(ref, order, f"is InOrder: later Jobs come when earlier ones run, {_NONE}", "write AnyOrder")
    places: list[tuple[str, Mapping[str, Any]]] = [("metadata.annotations", metadata_of(manifest).annotations)]
    for position, each in enumerate(entries):
        at = f"spec.replicatedJobs[{position}]"
        if each.get("dependsOn"):
            problem = f"names Jobs that must run or end first, {_NONE}"
            findings.fault(ref, f"{at}.dependsOn", problem, "leave it out")
        places.append((f"{at}.template.metadata.annotations", _annotations(each)))
    for at, annotations in places:
        if EXCLUSIVE in annotations:
            problem = f"has the other pods of a Job made when its first one has a node, {_NONE}"
            findings.fault(ref, f"{at}[{EXCLUSIVE}]", problem, f"write {REQUIRED} or {PREFERRED} instead")


def _check_groups(manifest: Manifest, ref: ObjectRef, minimum: int, findings: Findings) -> None:
    policy = "spec.startupPolicy"
    if pod_templates.at_path(manifest, policy) == "LeaderReady" and minimum > 1:
        findings.fault(
            ref, policy, f"is LeaderReady: workers come when their leader runs, {_NONE}", "write LeaderCreated"
        )
    if _EXCLUSIVE_GROUPS in metadata_of(manifest).annotations:
        problem = f"has the workers of a group made when their leader has a node, {_NONE}"
        at = f"metadata.annotations[{_EXCLUSIVE_GROUPS}]"
        findings.fault(ref, at, problem, f"write {REQUIRED} or {PREFERRED} instead")


def _annotations(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = pod_templates.at_path(entry, "template.metadata.annotations")
    return found if isinstance(found, Mapping) else {}
