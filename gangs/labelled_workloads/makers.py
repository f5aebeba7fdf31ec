"""The look-up of a pod's workload by the pod's label `phalanx.dev/workload` (the mark).

If each part of a workload is a gang, such as each group of a LeaderWorkerSet, the part is found, too.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gangs.manifests import group_of, ref_of
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.jobs import controller_of, job_of
from gangs.workloads.kind_table import BY_ANNOTATION, POD_INDEX, KindRow, group_and_kind_in, has_rules
from gangs.workloads.pod_templates import TEMPLATE_HASH
from kube import keys
from kube.catalog import ObjectKey
from kube.objects import OwnerReference, Pod


def mark(kind: str, system: str = "") -> str:
    """Return the value of the label `phalanx.dev/workload` for pods of a kind: `JobSet`, or `kueue.JobSet`.

    :param system: the dialect; "" for Phalanx's own.
    """
    return f"{system}.{kind}" if system else kind


def owner_of(pod: Pod, system: str = "") -> ObjectRef | None:
    """Return the workload that is the pod's gang, by the label `phalanx.dev/workload` and the pod's controller.

    Return None for a pod without the label, or with the label of another dialect.

    :param system: the dialect; "" for Phalanx's own.
    """
    written, owner = pod.metadata.labels.get(keys.WORKLOAD), controller_of(pod)
    if written is None or owner is None:
        return None
    namespace = pod.metadata.namespace
    kind = written.removeprefix(f"{system}.") if system else written
    if system and kind == written:
        return None
    if (at := group_and_kind_in(kind)) is not None:
        return _described(pod, owner, at)
    group, row = BY_ANNOTATION.get(kind, ("", None))
    if row is None:
        return None
    api_version = f"{group}/{row.versions[0]}"
    if owner.kind == kind and (owner_group := group_of(owner.api_version)) in ("", group):
        # The Gang that shows a Job's gang outlives a deleted Job, so it gets no owner before the Job itself is read.
        uid = owner.uid if row.rules is None else ""
        return ObjectRef(owner.api_version if owner_group else api_version, kind, namespace, owner.name, uid)
    name = _named(pod, owner.name, row) if owner.kind in row.makers else ""
    return ObjectRef(api_version, kind, namespace, name) if name else None


def by_workload(pods: Sequence[Pod], system: str = "") -> dict[ObjectKey, list[Pod]]:
    """Return the pods with the label `phalanx.dev/workload` by the key of their workload. Pods without the label are
    left out.

    :param system: the dialect whose labels are read; "" for Phalanx's own.
    """
    found: defaultdict[ObjectKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        if (ref := owner_of(pod, system)) is not None:
            found[group_of(ref.api_version), ref.kind, ref.namespace, ref.name].append(pod)
    return dict(found)


def _described(pod: Pod, owner: OwnerReference, at: tuple[str, str]) -> ObjectRef | None:
    """Return the workload of a pod whose label has both API group and kind (a user-defined kind, for example).

    Return None if the pod does not name its workload.

    :param owner: the pod's controller.
    :param at: API group and kind in the label.
    """
    (group, kind), namespace = at, pod.metadata.namespace
    if (group_of(owner.api_version), owner.kind) == at:
        return ObjectRef(owner.api_version, kind, namespace, owner.name, owner.uid)
    name = pod.metadata.labels.get(pod.metadata.annotations.get(keys.NAMED_BY, ""), "")
    return ObjectRef(f"{group}/", kind, namespace, name) if name else None


def _named(pod: Pod, owner: str, row: KindRow) -> str:
    """Return the name of the workload of a pod that another object controls, such as a Job of a JobSet; "" if unknown.

    :param owner: the name of the pod's controller.
    """
    labels = pod.metadata.labels
    if row.named_by:
        return labels.get(row.named_by, "")
    end = f"-{labels.get(TEMPLATE_HASH, '')}"
    return owner.removesuffix(end) if owner.endswith(end) else ""


def part_of(pod: Pod, system: str = "") -> str:
    """Return the part of its workload to which a pod belongs, such as the number of its group in a LeaderWorkerSet.

    Return "" if the whole workload is one gang. The leader of a group may lack the label with the group's number; its
    pod index in the leaders' StatefulSet is the same number.
    """
    labels = pod.metadata.labels
    kind = labels.get(keys.WORKLOAD, "").removeprefix(mark("", system))
    if group_and_kind_in(kind) is not None:
        return labels.get(pod.metadata.annotations.get(keys.PART_BY, ""), "")
    _, row = BY_ANNOTATION.get(kind, ("", None))
    if row is None or not row.part_by:
        return ""
    return labels.get(row.part_by) or labels.get(POD_INDEX, "")


def gang_name(workload: str, part: str) -> str:
    """Return the name of a workload's gang: the workload's name, with the part appended if each part is a gang."""
    return f"{workload}-{part}" if part else workload


def of_kind(group: str, kind: str, row: KindRow, sources: Sources, about: GangKey | None) -> Iterator[Manifest]:
    """Yield the workloads of a kind.

    :param row: the description of the kind, which may be a user-defined one.
    :param about: if given, only workloads are yielded whose gang, or a part of which, may have this key.
    """
    yield from sources.of_kind(group, kind, about)
    if about is not None and row.part_by:
        workload_name, _, part = about.name.rpartition("-")
        if workload_name and part.isdecimal():
            yield from sources.of_kind(group, kind, about._replace(name=workload_name))


def pods_of(manifest: Manifest, marked: Sequence[Pod], sources: Sources) -> list[Pod]:
    """Return the existing pods of a workload. A Job's pods are found by their owner reference, not by their label.

    :param marked: pods that belong to a workload of this kind and name, by their label `phalanx.dev/workload` and their
        controller. Pods of an earlier workload of the same name are left out.
    """
    if has_rules(manifest):
        return sources.pods_of(job_of(manifest))
    ref = ref_of(manifest)
    return [pod for pod in marked if made_by(pod, ref, sources)]


def made_by(pod: Pod, ref: ObjectRef, sources: Sources) -> bool:
    """Whether a pod belongs to the workload `ref`, and not to an earlier workload of the same name.

    The uids decide. If they are unknown, or the pod has no controller, the result is True.
    """
    owner = controller_of(pod)
    if owner is None:
        return True
    uid = owner.uid
    if (group_of(owner.api_version), owner.kind) != (group_of(ref.api_version), ref.kind):
        maker = sources.get(group_of(owner.api_version), owner.kind, ref.namespace, owner.name)
        uid = pod_templates.maker_uid(maker, ref.kind) if maker is not None else ""
    return not uid or not ref.uid or uid == ref.uid
