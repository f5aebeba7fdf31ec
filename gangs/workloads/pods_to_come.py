"""The pods that workloads other than Jobs have not made yet, as their operators would make them."""

from collections.abc import Sequence

import msgspec

from gangs.manifests import MalformedError, decode, metadata_of, ref_of
from gangs.membership import live
from gangs.model import Fault, Manifest, ObjectRef
from gangs.workloads.jobs import INDEX_KEY, MOST_PODS, controller_of
from gangs.workloads.pod_counts import LAUNCHER
from gangs.workloads.pod_templates import (
    GROUP_INDEX,
    HEAD,
    LEADER_WORKER_SET,
    MAIN,
    POD_INDEX,
    RAY_GROUP,
    RAY_NODE,
    REPLICA_INDEX,
    REPLICA_TYPE,
    REPLICATED_JOB,
    TEMPLATE_HASH,
    WORKER_INDEX,
    Template,
    ended,
    suspended,
    templates,
)
from kube.objects import ObjectMeta, OwnerReference, Pod


def example_pods(manifest: Manifest) -> tuple[Pod, ...]:
    """One pod for each pod template, as the workload makes them, without a number. Raises `MalformedError`."""
    return tuple(_example(manifest, each) for each in templates(manifest))


def missing_pods(manifest: Manifest, existing: Sequence[Pod]) -> tuple[Pod, ...]:
    """The pods that a workload (not a Job) would still make, `<workload>-<role>-<index>` or `<workload>-<index>`.

    `existing` may hold pods of other owners. Raises `MalformedError`, also for more pods than anybody can look at.
    """
    ref = ref_of(manifest)
    if ended(manifest) or suspended(manifest):
        return ()
    said = templates(manifest)
    _check_number(ref, said)
    there = [pod for pod in live(existing) if pod.metadata.namespace == ref.namespace]
    taken = {pod.metadata.name for pod in there}
    found: list[Pod] = []
    for template in said:
        example = _example(manifest, template)
        first = sum(_in_turn(pod, ref) for pod in there)
        pods = (_numbered(example, template, number) for number in range(first, template.count))
        found += [pod for pod in pods if pod.metadata.name not in taken]
    return tuple(found)


def _check_number(ref: ObjectRef, said: Sequence[Template]) -> None:
    """Raises `MalformedError` for more pods, of all templates together, than anybody can look at."""
    total = sum(each.count for each in said)
    if total > MOST_PODS:
        most = max(said, key=lambda each: each.count)
        at = most.path if ref.kind == "JobSet" else f"{most.path.rpartition('.')[0]}.replicas"
        problem = f"{total} pods are more than can be planned ahead"
        raise MalformedError(Fault(ref, at, problem, f"ask for at most {MOST_PODS}"))


def _in_turn(pod: Pod, ref: ObjectRef) -> bool:
    """Whether a ReplicaSet of the Deployment has made the pod, which has a name that nobody foresees."""
    owner, part = controller_of(pod), pod.metadata.labels.get(TEMPLATE_HASH)
    if owner is None or owner.kind != "ReplicaSet":
        return False
    return owner.name == (f"{ref.name}-{part}" if ref.kind == "Deployment" else ref.name)


def _example(manifest: Manifest, template: Template) -> Pod:
    ref, metadata = ref_of(manifest), metadata_of(manifest)
    pod = decode({"spec": {**template.spec}}, Pod, ref, template.path)
    owner = OwnerReference(api_version=ref.api_version, kind=ref.kind, name=ref.name, uid=metadata.uid, controller=True)
    own = _labels(ref, template)
    made = ObjectMeta(
        name=ref.name,
        namespace=ref.namespace,
        labels={**template.labels, **own},
        annotations=dict(template.annotations),
        owner_references=(owner,),
    )
    return msgspec.structs.replace(pod, metadata=made)


def _labels(ref: ObjectRef, template: Template) -> dict[str, str]:
    """What the operator says on its pods of whose they are."""
    match ref.kind:
        case "LeaderWorkerSet":
            return {LEADER_WORKER_SET: ref.name}
        case "JobSet":
            return {REPLICATED_JOB: template.role}
        case "RayCluster":
            return {RAY_NODE: HEAD if template.role == HEAD else "worker", RAY_GROUP: template.role}
    return {REPLICA_TYPE: template.role} if template.role != MAIN else {}


def _numbered(example: Pod, template: Template, number: int) -> Pod:
    meta = example.metadata
    stem, index = meta.name if template.role == MAIN else f"{meta.name}-{template.role}", dict[str, str]()
    name = f"{stem}-{number}"
    match meta.owner_references[0].kind:
        case "JobSet":
            job, within = divmod(number, template.in_each)
            name, index = f"{stem}-{job}-{within}", {INDEX_KEY: str(within)}
        case "LeaderWorkerSet":
            name, index = _in_group(meta.name, template, number)
        case "RayCluster":
            name = stem if template.role == HEAD else f"{stem}-worker-{number}"
        case "StatefulSet":
            index = {POD_INDEX: str(number)}
        case "MPIJob" if template.role == LAUNCHER:
            pass
        case _ if template.role != MAIN:
            index = {REPLICA_INDEX: str(number)}
    made = msgspec.structs.replace(meta, name=name, labels={**meta.labels, **index})
    return msgspec.structs.replace(example, metadata=made)


def _in_group(stem: str, template: Template, number: int) -> tuple[str, dict[str, str]]:
    """The name of a pod of a LeaderWorkerSet, and the labels that say where it belongs."""
    group, within = divmod(number, template.in_each)
    place = within + template.first
    name = f"{stem}-{group}-{place}" if place else f"{stem}-{group}"
    return name, {WORKER_INDEX: str(place), GROUP_INDEX: str(group)}
