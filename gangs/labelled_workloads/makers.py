"""The workload of a marked pod: the workload whose gang the pod belongs to, and the part of it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gangs.manifests import group_of, ref_of
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.jobs import controller_of, job_of
from gangs.workloads.kind_table import BY_ANNOTATION, POD_INDEX, KindRow, has_rules, marked_in_full
from gangs.workloads.pod_templates import TEMPLATE_HASH
from kube import keys
from kube.catalog import ObjectKey
from kube.objects import OwnerReference, Pod


def mark(kind: str, system: str = "") -> str:
    """Return the mark of a kind's pods in the dialect of a system; "" means Phalanx's own dialect."""
    return f"{system}.{kind}" if system else kind


def owner_of(pod: Pod, system: str = "") -> ObjectRef | None:
    """Return the workload whose gang the pod belongs to by its mark. Most pods of a cluster have none."""
    written, owner = pod.metadata.labels.get(keys.WORKLOAD), controller_of(pod)
    if written is None or owner is None:
        return None
    namespace = pod.metadata.namespace
    kind = written.removeprefix(mark("", system))
    if written != mark(kind, system):
        return None
    if (at := marked_in_full(kind)) is not None:
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
    """Return the marked pods of a system by the key of their workload. Pods without a mark are left out."""
    found: defaultdict[ObjectKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        if (ref := owner_of(pod, system)) is not None:
            found[group_of(ref.api_version), ref.kind, ref.namespace, ref.name].append(pod)
    return dict(found)


def _described(pod: Pod, owner: OwnerReference, at: tuple[str, str]) -> ObjectRef | None:
    """Return the workload of a pod whose mark has group and kind. `at`: group and kind."""
    (group, kind), namespace = at, pod.metadata.namespace
    if (group_of(owner.api_version), owner.kind) == at:
        return ObjectRef(owner.api_version, kind, namespace, owner.name, owner.uid)
    name = pod.metadata.labels.get(pod.metadata.annotations.get(keys.NAMED_BY, ""), "")
    return ObjectRef(f"{group}/", kind, namespace, name) if name else None


def _named(pod: Pod, owner: str, row: KindRow) -> str:
    """The workload that had another object make the pod."""
    labels = pod.metadata.labels
    if row.named_by:
        return labels.get(row.named_by, "")
    end = f"-{labels.get(TEMPLATE_HASH, '')}"
    return owner.removesuffix(end) if owner.endswith(end) else ""


def part_of(pod: Pod, system: str = "") -> str:
    """Return the part of its workload that the pod belongs to, if each part is a gang; "" if the whole workload is one.

    A leader without the label of its part is identified by its pod index.
    """
    labels = pod.metadata.labels
    kind = labels.get(keys.WORKLOAD, "").removeprefix(mark("", system))
    if marked_in_full(kind) is not None:
        return labels.get(pod.metadata.annotations.get(keys.PART_BY, ""), "")
    _, row = BY_ANNOTATION.get(kind, ("", None))
    if row is None or not row.part_by:
        return ""
    return labels.get(row.part_by) or labels.get(POD_INDEX, "")


def named(workload: str, part: str) -> str:
    """The name of the gang of a workload, or of a part of it."""
    return f"{workload}-{part}" if part else workload


def of_kind(group: str, kind: str, row: KindRow, sources: Sources, about: GangKey | None) -> Iterator[Manifest]:
    """Yield the workloads of a kind, which need not be in the table of kinds; with `about`, only those of its gang."""
    yield from sources.of_kind(group, kind, about)
    if about is not None and row.part_by:
        workload_name, _, part = about.name.rpartition("-")
        if workload_name and part.isdecimal():
            yield from sources.of_kind(group, kind, about._replace(name=workload_name))


def pods_of(manifest: Manifest, marked: Sequence[Pod], sources: Sources) -> list[Pod]:
    """Return the pods of a workload. Pods of a kind with rules in code are found by their owner, not by a mark.

    :param marked: pods whose mark names a workload of this kind and name.
    """
    if has_rules(manifest):
        return sources.pods_of(job_of(manifest))
    ref = ref_of(manifest)
    return [pod for pod in marked if made_by(pod, ref, sources)]


def made_by(pod: Pod, ref: ObjectRef, sources: Sources) -> bool:
    """Whether a workload, or a Job of it, created the pod, and not an earlier workload of the same name."""
    owner = controller_of(pod)
    if owner is None:
        return True
    uid = owner.uid
    if (group_of(owner.api_version), owner.kind) != (group_of(ref.api_version), ref.kind):
        maker = sources.get(group_of(owner.api_version), owner.kind, ref.namespace, owner.name)
        uid = pod_templates.maker_uid(maker, ref.kind) if maker is not None else ""
    return not uid or not ref.uid or uid == ref.uid
