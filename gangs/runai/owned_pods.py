"""Gangs of pods that have Run:ai's annotations themselves, and whose workload is not a Job.

The pods of one controller are one gang. They get the annotations from their pod templates, such as the replica specs of
a PyTorchJob. The annotation `batch-min-member` has the number of pods that start together. Without it, the number comes
from the workload, if Phalanx can count the pods of its kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gangs.assembling import GangWorkload, assemble, of_one_set
from gangs.findings import Findings
from gangs.manifests import MalformedError, group_of, integer, pod_ref
from gangs.membership import Seat, age, check_priorities, live, seated
from gangs.model import Gang, GangKey, Manifest, ObjectRef
from gangs.pod_consensus import check_alike, decisive_pods
from gangs.runai import NAME, keys, wishes
from gangs.runai.role_levels import RAY_CLUSTER
from gangs.runai.wishes import Wishes
from gangs.sources import Sources
from gangs.topology.levels import settle
from gangs.workloads import minimum_pods, pod_templates
from gangs.workloads.annotations import annotation
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, controller_of
from gangs.workloads.kind_table import Made, row_of, row_of_child
from gangs.workloads.pod_templates import Template
from kube.objects import Pod
from kube.topology import Topology

SET = "main"
_NOT_HERE = "is read where the workload itself carries the annotations of kai.scheduler"
_INSTEAD = "write those on it, or make a Gang object with slices for these pods"


def owner_of(pod: Pod) -> str | None:
    """Return the name of the gang of a pod with Run:ai's annotations. It is the name of the pod's controller or, if the
    pod has none, the pod's own name.

    None for a pod without Run:ai's annotations. None also for a pod of a Job, because a label names its gang, and for a
    pod that names a PodGroup, because the PodGroup is its gang.
    """
    annotations = pod.metadata.annotations
    if not annotations or not wishes.opted_in(wishes.of_pod(pod)) or any(annotations.get(key) for key in keys.GROUPED):
        return None
    owner = controller_of(pod)
    if owner is None:
        return pod.metadata.name or pod.metadata.generate_name
    of_a_job = owner.kind == JOB_KIND and group_of(owner.api_version) in ("", JOB_GROUP)
    return None if of_a_job else owner.name


def counted(manifest: Manifest) -> bool:
    """Whether Phalanx can count the pods of the workload's kind, so that they need not state a minimum."""
    row = row_of(manifest)
    if row is not None and row.child is not None:
        row = row_of_child(row.child)
    return row is not None and row.made is Made.TOGETHER


def asking(manifest: Manifest) -> list[Template]:
    """Return the pod templates of a workload that have Run:ai's annotations (`asks`). Raises `MalformedError`."""
    return [each for each in pod_templates.templates(manifest) if asks(each)]


def asks(template: Template) -> bool:
    """Whether a pod template has annotations of Run:ai that ask for a gang, and names no PodGroup."""
    return wishes.opted_in(wishes.of(template.annotations)) and not any(
        template.annotations.get(key) for key in keys.GROUPED
    )


def read_pods(
    name: str, pods: Sequence[Pod], sources: Sources, topologies: Sequence[Topology], findings: Findings, *, taken: bool
) -> Gang | None:
    """Return the gang of the pods of one controller; None if no pod is live, or if there are faults.

    :param name: the name of the controller.
    :param taken: whether another workload with this name is a gang, which is a fault.
    """
    own_pods = sorted(live(pods), key=lambda pod: age(pod.metadata))
    if not own_pods:
        return None
    first, says, own = own_pods[0], decisive_pods(own_pods)[0], Findings()
    ref, asked = pod_ref(says), wishes.of_pod(says)
    if taken:
        problem = f"Job {first.metadata.namespace}/{name}, which is a gang, has the same name"
        own.fault(ref, "metadata.ownerReferences", problem, "rename one of the two workloads")
    workload, awaited = _workload_of(says, sources)
    counts = _counts(workload, own)
    minimum = _minimum(says, asked, counts, own)
    for pod in own_pods:
        wishes.check_keys(pod_ref(pod), wishes.of_pod(pod), _NOT_HERE, _INSTEAD, own)
    _check_owners(own_pods, own)
    check_alike(own_pods, keys.WISHES, _same(says), own)
    pool = says.metadata.labels.get(keys.NODE_POOL)
    settled = settle(wishes.request_of(ref, asked, wishes.in_pool(says, pool)), topologies, own)
    if settled.topology is not None:
        wishes.check_order(ref, asked, settled.topology, own)
    check_priorities(own_pods, ref, own)
    members = seated([Seat(pod, SET) for pod in own_pods], (SET,), own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    sets = of_one_set(members, SET, max(minimum, counts.total if counts else 0), minimum)
    created, exact_nodes = first.metadata.creation_timestamp or "", True if pool is not None else None
    return assemble(
        GangKey(NAME, first.metadata.namespace, name),
        GangWorkload(ref, members, sets, minimum, created, exact_nodes=exact_nodes),
        wishes.placement(asked, settled, pool),
        settled.waiting_for + (awaited if keys.MIN_MEMBER not in asked else ()),
    )


def _same(pod: Pod) -> str:
    """Return the remedy for pod templates of one workload that have different annotations: write the same on all.

    :param pod: a pod of the workload. If it belongs to a RayCluster, the remedy mentions levels of single groups.
    """
    same, owner = "write the same on all pod templates", controller_of(pod)
    if owner is None or (group_of(owner.api_version), owner.kind) != RAY_CLUSTER:
        return same
    return f"{same}; where the {owner.kind} itself carries {keys.TOPOLOGY}, each may name levels of its own"


def _workload_of(pod: Pod, sources: Sources) -> tuple[Manifest | None, tuple[str, ...]]:
    """Return a pod's workload, and what the pod's gang waits for.

    The workload is None if it does not exist, or if Phalanx cannot count the pods of its kind. The gang waits for the
    workload if it does not exist (an entry of `Gang.waiting_for`).
    """
    maker = pod_templates.maker_of(pod)
    if maker is None or maker.made is not Made.TOGETHER:
        return None, ()
    ref = ObjectRef(maker.api_version, maker.kind, pod.metadata.namespace, maker.name)
    found = sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)
    return found, () if found is not None else (str(ref),)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Numbers of the pods of a workload whose templates have Run:ai's annotations.

    `least`: how many of them must start together. `total`: how many there should be.
    """

    least: int = 0
    total: int = 0


def _counts(workload: Manifest | None, findings: Findings) -> _Counts | None:
    if workload is None:
        return None
    try:
        templates = asking(workload)
        return _Counts(minimum_pods.of_kind(workload, templates, findings), sum(each.count for each in templates))
    except MalformedError as error:
        findings.take([error.fault])
        return _Counts()


def _minimum(pod: Pod, asked: Wishes, counts: _Counts | None, findings: Findings) -> int:
    """Return the number of pods that must start together: the annotation `batch-min-member`, else the workload's
    minimum.

    A pod without a controller is a gang of one. If Phalanx cannot count the controller's pods, a missing annotation is
    a fault.

    :param counts: the numbers of the workload's pods; None if they are unknown.
    """
    written, owner = wishes.value_of(asked, keys.MIN_MEMBER), controller_of(pod)
    at, ref = annotation(keys.MIN_MEMBER), pod_ref(pod)
    if written is None and counts is not None:
        return max(1, counts.least)
    if written is None:
        maker = pod_templates.maker_of(pod)
        if owner is not None and (maker is None or maker.made is not Made.TOGETHER):
            problem = f"is missing: how many pods {owner.kind} {owner.name} runs is not read here"
            findings.fault(ref, at, problem, "write on its pod template how many pods must start together")
        return 1
    minimum = integer(written)
    if minimum is None or minimum < 1:
        findings.fault(ref, at, f'"{written}" is not a number from 1 up', "correct it")
    elif owner is None and minimum > 1:
        problem = f"is {minimum}, and the pod has no controller whose pods would be the others"
        findings.fault(ref, at, problem, "make a Gang object and label the pods phalanx.dev/gang: <its name>")
    return max(1, minimum or 1)


def _check_owners(pods: Sequence[Pod], findings: Findings) -> None:
    """Report pods whose controller is of another kind than that of the oldest pod.

    Two controllers of different kinds then have the same name, and their pods would be in one gang.

    :param pods: the pods of a gang, the oldest first.
    """
    first = pods[0]
    for pod in pods[1:]:
        if _owner(pod) != _owner(first):
            problem = f"is {_owner(pod)}, and {_owner(first)} of Pod {first.key} has the same name"
            findings.fault(pod_ref(pod), "metadata.ownerReferences", problem, "rename one of the two workloads")


def _owner(pod: Pod) -> str:
    owner = controller_of(pod)
    return "nobody" if owner is None else owner.kind
