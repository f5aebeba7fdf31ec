"""Expected pods of workloads, as their operators would create them."""

from collections.abc import Sequence

import msgspec

from gangs.manifests import MalformedError, decode, metadata_of, ref_of
from gangs.membership import live
from gangs.model import Fault, Manifest, ObjectRef
from gangs.workloads.jobs import MOST_PODS, controller_of
from gangs.workloads.kind_table import KindRow, Layout, layout_of, row_of
from gangs.workloads.pod_counts import LAUNCHER
from gangs.workloads.pod_templates import (
    GROUP_INDEX,
    HEAD,
    LEADER_WORKER_SET,
    MAIN,
    RAY_GROUP,
    RAY_NODE,
    REPLICA_INDEX,
    REPLICA_TYPE,
    REPLICATED_JOB,
    TEMPLATE_HASH,
    Template,
    ended,
    templates,
)
from gangs.workloads.spark import DRIVER
from gangs.workloads.suspension import suspended
from kube.objects import ObjectMeta, OwnerReference, Pod

_DIGITS = 20
"""The most digits of a group's number in a pod's label. A longer number is no group's."""


def example_pods(manifest: Manifest) -> tuple[Pod, ...]:
    """Return one pod for each pod template of a workload, as it would create the pod, but without an index.

    Raises `MalformedError`.
    """
    row, declared = row_of(manifest), templates(manifest)
    if row is not None and row.rules is not None:
        return tuple(row.rules.example(manifest) for _ in declared)
    return tuple(_example(manifest, each) for each in declared)


def missing_pods(manifest: Manifest, existing: Sequence[Pod], part: str = "") -> tuple[Pod, ...]:
    """Return the expected pods of a workload: those that it would create and that do not exist.

    Their names are `<workload>-<role>-<index>` or `<workload>-<index>`. Raises `MalformedError`, also for more than
    `MOST_PODS` pods.

    :param existing: existing pods, possibly of other owners, too.
    :param part: the number of one group, if each group of the workload is a gang; "" for the whole workload.
    """
    return tuple(pod for _, pod in missing_by_role(manifest, existing, part))


def missing_by_role(manifest: Manifest, existing: Sequence[Pod], part: str = "") -> list[tuple[str, Pod]]:
    """Return the expected pods of a workload (`missing_pods`) as (role of the pod template, pod).

    Callers cannot find the role in the pod, because pods of some kinds have no label with it.
    """
    ref, row = ref_of(manifest), row_of(manifest)
    if row is not None and row.rules is not None:
        return [(MAIN, pod) for pod in row.rules.missing(manifest, existing)]
    if ended(manifest) or suspended(manifest):
        return []
    declared = templates(manifest)
    check_number(manifest, declared, part)
    there = [pod for pod in live(existing) if pod.metadata.namespace == ref.namespace]
    taken = {pod.metadata.name for pod in there}
    found = list[tuple[str, Pod]]()
    for template in declared:
        example = _example(manifest, template)
        first = sum(_in_turn(pod, ref) for pod in there)
        pods = (_numbered(example, template, number, row) for number in _numbers(template, part)[first:])
        found += [(template.role, pod) for pod in pods if pod.metadata.name not in taken]
    return found


def check_number(manifest: Manifest, declared: Sequence[Template], part: str = "", most: int = MOST_PODS) -> None:
    """Check that pod templates have at most `most` pods together. Raises `MalformedError` if they have more.

    :param part: the number of one group, whose pods alone are counted; "" for all pods.
    """
    numbers = [_numbers(each, part) for each in declared]
    # Not `len`: it fails above sys.maxsize, which a user's number can exceed.
    total = sum(max(0, each.stop - each.start) for each in numbers)
    if total > most:
        largest = max(declared, key=lambda each: each.count)
        field = "size" if part else "replicas"
        at = largest.path if layout_of(manifest) is Layout.JOBS else f"{largest.path.rpartition('.')[0]}.{field}"
        problem = f"{total} pods are more than can be planned ahead"
        raise MalformedError(Fault(ref_of(manifest), at, problem, f"ask for at most {most}"))


def _numbers(template: Template, part: str) -> range:
    """Return the numbers of the pods of a template, counted from 0.

    :param part: the number of one group, whose pods alone are returned; "" for all pods.
    """
    if not part:
        return range(template.count)
    group = int(part) if part.isdecimal() and len(part) < _DIGITS else template.count
    return range(template.count)[group * template.in_each : (group + 1) * template.in_each]


def _in_turn(pod: Pod, ref: ObjectRef) -> bool:
    """Whether a pod belongs to the workload `ref`, which is a ReplicaSet, or a Deployment that owns the pod's
    ReplicaSet.

    Such pods have random names, so expected pods cannot be matched with existing pods by name. The existing pods are
    only counted.
    """
    owner, part = controller_of(pod), pod.metadata.labels.get(TEMPLATE_HASH)
    if owner is None or owner.kind != "ReplicaSet":
        return False
    return owner.name == (f"{ref.name}-{part}" if ref.kind == "Deployment" else ref.name)


def _example(manifest: Manifest, template: Template) -> Pod:
    ref, metadata = ref_of(manifest), metadata_of(manifest)
    pod = decode({"spec": {**template.spec}}, Pod, ref, template.path)
    owner = OwnerReference(api_version=ref.api_version, kind=ref.kind, name=ref.name, uid=metadata.uid, controller=True)
    own = _labels(manifest, template)
    made = ObjectMeta(
        name=ref.name,
        namespace=ref.namespace,
        labels={**template.labels, **own},
        annotations=dict(template.annotations),
        owner_references=(owner,),
    )
    return msgspec.structs.replace(pod, metadata=made)


def _labels(manifest: Manifest, template: Template) -> dict[str, str]:
    """Return the labels with the workload's name or the pod's role that the operator adds to a pod of a template."""
    row, name = row_of(manifest), ref_of(manifest).name
    if row is not None and row.fields:
        return {row.named_by: name} if row.named_by else {}
    match layout_of(manifest):
        case Layout.LEADERS_AND_WORKERS:
            return {LEADER_WORKER_SET: name}
        case Layout.JOBS:
            return {REPLICATED_JOB: template.role}
        case Layout.HEAD_AND_GROUPS:
            return {RAY_NODE: HEAD if template.role == HEAD else "worker", RAY_GROUP: template.role}
    return {REPLICA_TYPE: template.role} if template.role != MAIN else {}


def _numbered(example: Pod, template: Template, number: int, row: KindRow | None) -> Pod:
    meta = example.metadata
    stem, index = meta.name.rstrip("-"), dict[str, str]()  # a generateName ends with a dash
    stem = stem if template.role == MAIN else f"{stem}-{template.role}"
    name = f"{stem}-{number}"
    if row is not None and row.bare:
        name = f"{meta.name.rstrip('-')}-{DRIVER}"
        name = name if template.role == DRIVER else f"{meta.name.rstrip('-')}-exec-{number + 1}"
        return msgspec.structs.replace(example, metadata=msgspec.structs.replace(meta, name=name))
    if row is not None and row.fields:
        name, index = _by_fields(meta.name.rstrip("-"), template, number, row)
        made = msgspec.structs.replace(meta, name=name, labels={**meta.labels, **index})
        return msgspec.structs.replace(example, metadata=made)
    within = number
    match row.layout if row is not None else Layout.REPLICAS:
        case Layout.JOBS:
            job, within = divmod(number, template.in_each)
            name = f"{stem}-{job}-{within}"
        case Layout.LEADERS_AND_WORKERS:
            name, within, index = _in_group(meta.name.rstrip("-"), template, number)
        case Layout.HEAD_AND_GROUPS:
            name = stem if template.role == HEAD else f"{stem}-worker-{number}"
        case Layout.LAUNCHER_AND_WORKERS if template.role == LAUNCHER:
            pass
        case _ if template.role != MAIN:
            index = {REPLICA_INDEX: str(number)}
    if row is not None and row.number_label:
        index[row.number_label] = str(within)
    made = msgspec.structs.replace(meta, name=name, labels={**meta.labels, **index})
    return msgspec.structs.replace(example, metadata=made)


def _by_fields(stem: str, template: Template, number: int, row: KindRow) -> tuple[str, dict[str, str]]:
    """Return a pod's name, and the labels with its part and rank, for a kind with `KindRow.fields`.

    :param stem: the beginning of the name, which is the workload's name.
    :param number: the number of the pod in its template.
    """
    part, within = divmod(number, template.in_each) if row.part_by else (0, number)
    role = "" if template.role == MAIN else f"-{template.role}"
    labels = {row.part_by: str(part)} if row.part_by else {}
    labels |= {row.rank: str(within)} if row.rank else {}
    return f"{stem}{f'-{part}' if row.part_by else ''}{role}-{within}", labels


def _in_group(stem: str, template: Template, number: int) -> tuple[str, int, dict[str, str]]:
    """Return the name of a LeaderWorkerSet's pod, its index in its group, and the label with its group.

    :param stem: the beginning of the name, which is the workload's name.
    :param number: the number of the pod in its template.
    """
    group, within = divmod(number, template.in_each)
    place = within + template.first
    name = f"{stem}-{group}-{place}" if place else f"{stem}-{group}"
    return name, place, {GROUP_INDEX: str(group)}
