"""The pod templates of a workload, and the workload, pod set and group of a pod."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any

from gangs.findings import Findings
from gangs.manifests import MalformedError, decode, group_of, ref_of
from gangs.model import Fault, Manifest, ObjectRef
from gangs.workloads import spark
from gangs.workloads.jobs import TemplateMeta, controller_of, job_owner
from gangs.workloads.kind_table import ANY, WORKER_INDEX, WORKLOADS, Layout, Made, layout_of, names_a_group, row_of
from gangs.workloads.pod_counts import LEADER_TEMPLATE, by_fields, counted, field_of, number
from kube import keys
from kube.kept_objects import computed_once
from kube.objects import Pod

REPLICA_TYPE = "training.kubeflow.org/replica-type"
"""Pod label: the key, in lower case, of the replica spec that the pod was created from."""
REPLICA_INDEX = "training.kubeflow.org/replica-index"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
"""Pod label: the number of the pod's group in its LeaderWorkerSet."""
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
"""Pod label: the LeaderWorkerSet that created the pod's StatefulSet."""
JOBS_OF_JOB_SET = "jobset.sigs.k8s.io/global-replicas"
"""Label of a Job of a JobSet: the number of Jobs that the JobSet creates in total."""
TEMPLATE_HASH = "pod-template-hash"
"""Label of a Deployment's pods: the last part of their ReplicaSet's name."""
JOB_ROLE = "training.kubeflow.org/job-role"
"""Pod label of the MPI operator: the role of the pod, launcher or worker."""
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
"""Pod label: the replicated job of the JobSet from which the pod's Job was created."""
RAY_GROUP, RAY_NODE = "ray.io/group", "ray.io/node-type"
"""Pod labels: the group of a RayCluster, and whether the pod is its head or a worker."""
HEAD, HEAD_GROUP = "head", "headGroupSpec"
"""The pod set of a RayCluster's head, and the field of the head's template."""
LEADER, WORKER = "leader", "worker"
"""The pod sets of a LeaderWorkerSet's group. If it has no leader template, the leader is in the pod set of workers."""
MAIN = "main"
"""The pod set of a workload that has one pod template."""
MOST = 256
"""The most pod templates that one workload may have. Thousands take seconds, and no gang has so many pod sets."""

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_ENDS = ("Succeeded", "Completed", "Failed")
"""Types of conditions by which workloads of most kinds report their end."""


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template of a workload.

    `path`: its path, such as `spec.tasks[0].template`. `role`: the name of the pod set of its pods. `count`: the number
    of its pods. `way`: the path as a tuple of keys and list positions, such as ("spec", "tasks", "0", "template").
    """

    path: str
    role: str
    count: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any] = field(default_factory=dict, compare=False)
    way: tuple[str, ...] = ()
    in_each: int = 1
    """The number of pods in each Job of a JobSet, in each group of a LeaderWorkerSet, or in each replica of a worker
    group of a RayCluster. For most other kinds it is 1."""
    least: int | None = None
    """The number of pods that must run, by the fields of the workload's kind; None: they state no number."""
    first: int = 0
    """The index in its group of the first pod of this template: 1 for the workers of a group with a leader."""
    pattern: str = ""
    """The path of the template in the table of kinds, such as `spec.tasks.*.template`."""
    metadata: tuple[str, ...] = ("metadata",)
    """The path from the template to its labels and annotations, as a tuple of keys."""
    entry: str = ""
    """The name of the pod set by the present description of the kind.

    `role` has another name if the pods were labelled when another WorkloadKind described the kind.
    """

    @property
    def metadata_at(self) -> str:
        """The path in the workload of the template's metadata (labels and annotations)."""
        return field_of((*self.way, *self.metadata))

    def annotation(self, key: str) -> str:
        """Return the path in the workload of an annotation of the template."""
        return f"{self.metadata_at}.annotations[{key}]"


def gang_by_annotation(manifest: Manifest) -> bool:
    """Whether Phalanx's own annotations on the object can make it a gang, by its kind and API version.

    The result is False for an object of the group `apps` that a controller created, such as a Deployment's ReplicaSet.
    Its annotations are copied from the parent.
    """
    row = row_of(manifest)
    if row is None or not row.by_annotation:
        return False
    return str(manifest.get("apiVersion", "")).rpartition("/")[2] in row.versions and not copied(manifest)


def copied(manifest: Manifest) -> bool:
    """Whether the object is of the API group `apps` and has a controller, which copied its own annotations to it."""
    return group_of(str(manifest.get("apiVersion", ""))) == "apps" and controlled(manifest)


def first_gang(manifest: Manifest) -> str:
    """Return the name of the workload's gang; if each part of the workload is a gang, `<workload>-0`."""
    row, name = row_of(manifest), ref_of(manifest).name
    return f"{name}-0" if row is not None and row.part_by else name


def made_by(manifest: Manifest) -> Made | None:
    """Return whether and how the pods of a workload form groups; None for any other object.

    A JobSet with a single Job is treated as this Job. Raises `MalformedError`.
    """
    row = row_of(manifest)
    if row is not None and row.layout is Layout.JOBS and _jobs(manifest) == 1:
        return Made.IN_JOBS
    return None if row is None else row.made


def _jobs(manifest: Manifest) -> int:
    """Return the number of Jobs that a JobSet creates."""
    found = list(_walk(manifest, ("spec", "replicatedJobs", ANY), ()))
    counts = (number(each.get("replicas"), ref_of(manifest), "spec.replicatedJobs.replicas") for _, _, each in found)
    return sum(1 if each is None else each for each in counts)


def controlled(manifest: Manifest) -> bool:
    """Whether a controller owns the object, as a Deployment owns its ReplicaSets."""
    return _owner(manifest) is not None


def maker_kind(manifest: Manifest) -> tuple[str, str, str]:
    """Return (API group, kind, name) of the owner that controls the object; ("", "", "") if there is none."""
    owner = _owner(manifest) or {}
    return group_of(str(owner.get("apiVersion") or "")), str(owner.get("kind") or ""), str(owner.get("name") or "")


def maker_uid(manifest: Manifest, kind: str) -> str:
    """Return the uid of the owner that controls the object if it has this kind; "" otherwise, or if it is unknown."""
    owner = _owner(manifest) or {}
    return str(owner.get("uid") or "") if owner.get("kind") == kind else ""


def _owner(manifest: Manifest) -> Mapping[str, Any] | None:
    """Return the reference to the owner that controls the object; None if there is none."""
    metadata = manifest.get("metadata")
    written = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    owners = written if isinstance(written, list) else ()
    return next((each for each in owners if isinstance(each, Mapping) and each.get("controller") is True), None)


def carries(manifest: Manifest, keys: Container[str]) -> bool:
    """Whether a workload, or a pod template of it, has a label or annotation with one of these keys."""
    row = row_of(manifest)
    found = [written for path in row.templates for *_, written in _walk(manifest, path.split("."), ())] if row else []
    for each in (manifest, *found):
        metadata = each if row is not None and row.bare and each is not manifest else each.get("metadata")
        fields = metadata if isinstance(metadata, Mapping) else {}
        if any(key in keys for part in ("labels", "annotations") for key in _texts(fields.get(part))):
            return True
    return False


@computed_once
def templates(manifest: Manifest) -> tuple[Template, ...]:
    """Return the pod templates of a workload, in the order of the table of kinds and of the manifest.

    Malformed labels, annotations and specs are left out. Raises `MalformedError` if a number of pods is malformed, or
    if there are more than `MOST` templates.
    """
    row = row_of(manifest)
    paths = row.templates if row is not None else ()
    found = list(islice(((path, *each) for path in paths for each in _walk(manifest, path.split("."), ())), MOST + 1))
    if len(found) > MOST:
        above = ".".join(takewhile(lambda step: step != ANY, found[-1][0].split(".")))
        problem, remedy = f"has more than {MOST} pod templates", "make several workloads of it"
        raise MalformedError(Fault(ref_of(manifest), above, problem, remedy))
    return tuple(_template(manifest, path, way, written) for path, way, _, written in found)


@computed_once
def of_a_part(manifest: Manifest) -> tuple[Template, ...]:
    """Return the pod templates of a workload. If each part of the workload is a gang, `count` is that of one part."""
    row, every = row_of(manifest), templates(manifest)
    return tuple(replace(each, count=each.in_each) for each in every) if row and row.part_by else every


def _walk(part: Any, steps: Sequence[str], way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield each mapping at a path below `part`, as (path as a tuple of keys, the container that has it, the mapping).

    :param steps: the remaining steps of the path; `*` means every entry of a list or mapping.
    :param way: the path of `part` itself.
    """
    step, *rest = steps
    for name, below in _entries(part, step):
        if rest:
            yield from _walk(below, rest, (*way, str(name)))
        elif isinstance(below, Mapping):
            yield (*way, str(name)), part, below


def _entries(part: Any, step: str) -> Iterable[tuple[Any, Any]]:
    if step == ANY:
        return part.items() if isinstance(part, Mapping) else enumerate(part) if isinstance(part, list) else ()
    return [(step, part[step])] if isinstance(part, Mapping) and step in part else ()


def _template(manifest: Manifest, pattern: str, way: tuple[str, ...], written: Any) -> Template:
    row = row_of(manifest)
    if bare := row is not None and row.bare:
        metadata, spec, counts = written, spark.pod_spec(manifest, way[-1]), spark.counted(manifest, way[-1])
    else:
        metadata, spec = written.get("metadata"), written.get("spec")
        counts = by_fields(manifest, row, pattern, way) if row and row.fields else counted(manifest, way)
    found = metadata if isinstance(metadata, Mapping) else {}
    labels, annotations = (_texts(found.get(part)) for part in ("labels", "annotations"))
    entry = way[-1] if bare else _entry(manifest, pattern, way)
    return Template(
        path=field_of(way),
        role=labels.get(keys.POD_SET, entry) if names_a_group(labels.get(keys.WORKLOAD, "")) else entry,
        count=counts.count,
        labels=labels,
        annotations=annotations,
        spec=spec if isinstance(spec, Mapping) else {},
        way=way,
        in_each=counts.in_each,
        least=counts.least,
        first=counts.first,
        pattern=pattern,
        metadata=() if bare else ("metadata",),
        entry=entry,
    )


def _entry(manifest: Manifest, pattern: str, way: tuple[str, ...]) -> str:
    """Return the name of a template's pod set.

    It is the key, or the field `name`, of the entry at the `*` of `pattern`, such as `worker`. Without `*` it is fixed
    by the kind, or `MAIN`.
    """
    row = row_of(manifest)
    if row is not None and row.fields and ANY not in pattern:
        return role_at(pattern) if len(row.templates) > 1 else MAIN
    if HEAD_GROUP in way:
        return HEAD
    if layout_of(manifest) is Layout.LEADERS_AND_WORKERS:
        return LEADER if LEADER_TEMPLATE in way else WORKER
    part: Any = manifest
    for step, name in zip(pattern.split("."), way, strict=True):
        part = part[int(name)] if isinstance(part, list) else part[name]
        if step == ANY and name.isdigit() and isinstance(part, Mapping):
            return str(part.get("name") or part.get("groupName") or name)
        if step == ANY:
            return name.lower()
    return MAIN


def role_at(path: str) -> str:
    """Return the name of the pod set of a template at a path without `*`: the field above the template, in lower case.

    Example: `spec.master.template` has the pod set `master`; `spec.template` has `spec`.
    """
    return (path.split(".")[-2:-1] or [MAIN])[0].lower()


def at_path(manifest: Manifest, path: str) -> Any:
    """Return the value at a path of mapping keys; None if there is none."""
    part: Any = manifest
    for step in path.split("."):
        part = part.get(step) if isinstance(part, Mapping) else None
    return part


def check_templates(manifest: Manifest) -> None:
    """Check the metadata of a workload's pod templates. Raises `MalformedError` if a label or annotation is malformed.

    For a kind with `KindRow.fields`, it also raises if a pod set's name is no valid label value, because admission
    writes this name as a label.
    """
    row = row_of(manifest)
    for each in templates(manifest):
        if row is not None and row.fields and not LABEL_VALUE.fullmatch(each.role):
            steps = each.pattern.split(".")
            entry = field_of(each.way[: steps.index(ANY) + 1]) if ANY in steps else each.path
            problem = f'"{each.role}" is the pod set of its pods, and a label with it would not be valid'
            remedy = "call it by up to 63 letters, digits, - . and _ with a letter or digit at both ends"
            raise MalformedError(Fault(ref_of(manifest), entry, problem, remedy))
        written: Any = manifest
        for step in each.way:
            written = written[int(step)] if isinstance(written, list) else written[step]
        for step in each.metadata:
            written = written.get(step)
        if written is not None:
            decode(written, TemplateMeta, ref_of(manifest), each.metadata_at)


def _texts(part: Any) -> dict[str, str]:
    written = part.items() if isinstance(part, Mapping) else ()
    return {key: value for key, value in written if isinstance(value, str)}


@dataclass(frozen=True, slots=True)
class Maker:
    """The workload that a pod belongs to, derived from the pod alone, and whether its pods form one group (`made`)."""

    api_version: str
    kind: str
    name: str
    made: Made = Made.ALONE

    def __str__(self) -> str:
        """`Kind name`."""
        return f"{self.kind} {self.name}"


def job_metadata(template: Template) -> str:
    """Return the path of the metadata of a Job template, given the pod template in it.

    Example: `spec.jobTemplate.metadata` for a CronJob's pod template `spec.jobTemplate.spec.template`.
    """
    return f"{template.path.removesuffix('.spec.template')}.metadata"


def texts_at(manifest: Manifest, path: str) -> Mapping[str, str]:
    """Return the labels or annotations at a path, such as `spec.replicatedJobs[0].template.metadata.labels`.

    Malformed values are left out. The result is empty if there is nothing at the path.
    """
    part: Any = manifest
    for step in path.replace("[", ".").replace("]", "").split("."):
        known = isinstance(part, Mapping) or (isinstance(part, list) and step.isdigit())
        part = (part.get(step) if isinstance(part, Mapping) else part[int(step)]) if known else None
    return _texts(part)


def maker_of(pod: Pod) -> Maker | None:
    """Return the workload that created the pod, from its controlling owner; None for a pod without one.

    For a pod of a LeaderWorkerSet, it is the LeaderWorkerSet, not the StatefulSet that controls the pod.
    """
    owner = controller_of(pod)
    if owner is None:
        return None
    if name := pod.metadata.labels.get(LEADER_WORKER_SET):
        return Maker("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, Made.UNREAD)
    row = WORKLOADS.get((group_of(owner.api_version), owner.kind))
    return Maker(owner.api_version, owner.kind, owner.name, row.made if row else Made.ALONE)


def shared_name(pod: Pod) -> str:
    """Return the name of the workload whose pods form one group with this pod, by the workload's kind; "" if they form
    none.

    Systems in which pods need not name their group use this name.
    """
    if (owner := job_owner(pod)) is not None:
        return owner.name
    maker = maker_of(pod)
    return maker.name if maker is not None and maker.made in (Made.TOGETHER, Made.UNREAD) else ""


def part_of(manifest: Manifest) -> str | None:
    """Return the workload that a Job belongs to together with other Jobs, as `Kind name`, such as a JobSet.

    Return None for a Job without such a workload, and for the only Job of a JobSet.
    """
    group, kind, name = maker_kind(manifest)
    row = WORKLOADS.get((group, kind))
    alone = texts_at(manifest, "metadata.labels").get(JOBS_OF_JOB_SET) == "1"
    return None if alone or row is None or row.made is not Made.UNREAD else f"{kind} {name}"


def role_of(pod: Pod) -> str:
    """Return the name of the pod's pod set in its workload, by the labels that operators write (`Template.role`)."""
    labels = pod.metadata.labels
    if names_a_group(labels.get(keys.WORKLOAD, "")):
        return labels.get(keys.POD_SET, MAIN)
    if labels.get(RAY_NODE) == HEAD:
        return HEAD
    if WORKER_INDEX in labels:
        return LEADER if labels[WORKER_INDEX] == "0" else WORKER
    found = next((labels[key] for key in (REPLICATED_JOB, RAY_GROUP) if key in labels), None)
    return found or labels.get(REPLICA_TYPE, labels.get(JOB_ROLE, MAIN)).lower()


def ended(manifest: Manifest) -> bool:
    """Whether a workload reports in its status that it has succeeded or failed, so that it creates no more pods."""
    status = manifest.get("status")
    written = status.get("conditions") if isinstance(status, Mapping) else None
    conditions = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    row = row_of(manifest)
    if row is not None and any(_text(at_path(manifest, path)) in values for path, values in row.ended_at):
        return True
    return any(each.get("type") in _ENDS and each.get("status") == "True" for each in conditions)


def _text(written: Any) -> str:
    """Return a value as text, a boolean as YAML writes it: true, not True."""
    return str(written).lower() if isinstance(written, bool) else str(written)


def check_parallel(manifest: Manifest, count: int, pods: Iterable[Pod], findings: Findings) -> None:
    """Report a StatefulSet that creates its pods one by one although several must start together.

    Such a gang would wait forever. A StatefulSet of which a pod exists is not reported, because all its pods may exist.

    :param count: the number of pods that must start together.
    :param pods: existing pods, possibly of other owners, too.
    """
    spec, ref = manifest.get("spec"), ref_of(manifest)
    policy = spec.get("podManagementPolicy") if isinstance(spec, Mapping) else None
    if ref.kind != "StatefulSet" or policy == "Parallel" or count <= 1:
        return
    if not any(pod.metadata.uid and made_this(pod, ref) for pod in pods):
        problem = "is not Parallel: the second pod comes when the first one runs, and none runs before all exist"
        findings.fault(ref, "spec.podManagementPolicy", problem, "write Parallel")


def made_this(pod: Pod, ref: ObjectRef) -> bool:
    """Whether the workload controls the pod. The uid decides; if one of the two uids is unknown, the name."""
    owner = controller_of(pod)
    if owner is None or (owner.api_version, owner.kind) != (ref.api_version, ref.kind):
        return False
    same = owner.uid == ref.uid if owner.uid and ref.uid else owner.name == ref.name
    return same and pod.metadata.namespace == ref.namespace
