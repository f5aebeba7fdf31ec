"""Kinds of workloads: where their pod templates stand, who makes their pods, and which of those belong together.

The table serves the dialects that go by workloads. What systems such as Kueue and KAI Scheduler group, and what they
take one by one, they document for each kind.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from gangs.findings import Findings
from gangs.manifests import MalformedError, decode, group_of, key_of, metadata_of, ref_of
from gangs.membership import live
from gangs.model import Fault, Manifest, ObjectRef
from gangs.sources import Kind
from gangs.workloads import JOB_GROUP, JOB_KIND, MOST_PODS, controller_of
from kube.objects import ObjectMeta, OwnerReference, Pod

REPLICA_TYPE = "training.kubeflow.org/replica-type"
"""Pod label: the key of the replica spec that the pod was made by, in lower case."""
REPLICA_INDEX = "training.kubeflow.org/replica-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
"""Pod label: the LeaderWorkerSet that made the StatefulSet that made the pod."""
JOBS_OF_JOB_SET = "jobset.sigs.k8s.io/global-replicas"
"""Label of a Job that a JobSet has made: how many it makes in all."""
TEMPLATE_HASH = "pod-template-hash"
"""Label of the pods of a Deployment: the end of the name of their ReplicaSet."""
MAIN = "main"
"""The pod set of a workload that has one pod template."""

_ANY = "*"


class Made(Enum):
    """What becomes of the pods of a workload's templates."""

    TOGETHER = "one group, of as many pods as the templates say"
    ALONE = "each pod is for itself"
    IN_JOBS = "Jobs make them, each of which is for itself"
    UNREAD = "one group, whose size is not read here"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind. `templates`: where pod templates stand, `*` for every entry of a list or mapping."""

    plural: str
    made: Made
    templates: tuple[str, ...] = ("spec.template",)
    versions: tuple[str, ...] = ()
    """Served, newest first; of kinds that are read."""


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template of a workload. `path`: its field; `role`: the pod set of its pods; `count`: how many there are."""

    path: str
    role: str
    count: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any] = field(default_factory=dict, compare=False)


def _replicas(kind: str, specs: str) -> tuple[str, Shape]:
    return kind, Shape(f"{kind.lower()}s", Made.TOGETHER, (f"spec.{specs}.*.template",), ("v1",))


_CLUSTER = ("headGroupSpec.template", "workerGroupSpecs.*.template")
_SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "": {"ReplicationController": Shape("replicationcontrollers", Made.ALONE)},
    "apps": {
        "Deployment": Shape("deployments", Made.ALONE),
        "ReplicaSet": Shape("replicasets", Made.ALONE),
        "DaemonSet": Shape("daemonsets", Made.ALONE),
        "StatefulSet": Shape("statefulsets", Made.TOGETHER, versions=("v1",)),
    },
    JOB_GROUP: {
        JOB_KIND: Shape("jobs", Made.TOGETHER, versions=("v1",)),
        "CronJob": Shape("cronjobs", Made.IN_JOBS, ("spec.jobTemplate.spec.template",)),
    },
    "jobset.x-k8s.io": {
        "JobSet": Shape("jobsets", Made.UNREAD, ("spec.replicatedJobs.*.template.spec.template",)),
    },
    "leaderworkerset.x-k8s.io": {
        "LeaderWorkerSet": Shape(
            "leaderworkersets",
            Made.UNREAD,
            ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
        )
    },
    "kubeflow.org": dict(
        (
            _replicas("PyTorchJob", "pytorchReplicaSpecs"),
            _replicas("TFJob", "tfReplicaSpecs"),
            _replicas("XGBoostJob", "xgbReplicaSpecs"),
            _replicas("PaddleJob", "paddleReplicaSpecs"),
            _replicas("JAXJob", "jaxReplicaSpecs"),
            ("MPIJob", Shape("mpijobs", Made.UNREAD, ("spec.mpiReplicaSpecs.*.template",))),
        )
    ),
    "trainer.kubeflow.org": {"TrainJob": Shape("trainjobs", Made.UNREAD, ())},
    "ray.io": {
        "RayCluster": Shape("rayclusters", Made.UNREAD, tuple(f"spec.{each}" for each in _CLUSTER)),
        "RayJob": Shape("rayjobs", Made.UNREAD, tuple(f"spec.rayClusterSpec.{each}" for each in _CLUSTER)),
        "RayService": Shape("rayservices", Made.UNREAD, tuple(f"spec.rayClusterConfig.{each}" for each in _CLUSTER)),
    },
    "sparkoperator.k8s.io": {"SparkApplication": Shape("sparkapplications", Made.UNREAD, ())},
    "workload.codeflare.dev": {"AppWrapper": Shape("appwrappers", Made.UNREAD, ())},
    "serving.knative.dev": {"Service": Shape("services", Made.ALONE)},
}
"""By API group and kind. Without templates: kinds that hand down no metadata of their own pods."""

WORKLOADS: Mapping[tuple[str, str], Shape] = {
    (group, kind): shape for group, kinds in _SHAPES.items() for kind, shape in kinds.items()
}
"""Kinds that make pods, by API group and kind."""

READ: tuple[Kind, ...] = tuple(
    Kind(group, shape.versions, kind, shape.plural)
    for (group, kind), shape in WORKLOADS.items()
    if shape.versions and kind != JOB_KIND
)
"""Kinds besides the Job of which the number of pods is read."""


def shape_of(manifest: Manifest) -> Shape | None:
    """What is known of the object's kind; None where that is no workload."""
    group, kind, _, _ = key_of(manifest)
    return WORKLOADS.get((group, kind))


def made_by(manifest: Manifest) -> Made | None:
    """What becomes of the pods of a workload, None for any other object. Raises `MalformedError`."""
    shape = shape_of(manifest)
    if shape is not None and manifest.get("kind") == "JobSet" and _jobs(manifest) == 1:
        return Made.IN_JOBS
    return None if shape is None else shape.made


def _jobs(manifest: Manifest) -> int:
    """How many Jobs a JobSet makes."""
    found = list(_walk(manifest, ("spec", "replicatedJobs", _ANY), ()))
    return sum(_count(each, ref_of(manifest), "spec.replicatedJobs.replicas") for _, _, each in found)


def is_read(manifest: Manifest) -> bool:
    """Whether the object is a workload besides the Job of which the number of pods is read."""
    shape = shape_of(manifest)
    return shape is not None and shape.made is Made.TOGETHER and manifest.get("kind") != JOB_KIND


def controlled(manifest: Manifest) -> bool:
    """Whether another object made this one (a ReplicaSet of a Deployment, say)."""
    return _owner(manifest) is not None


def _owner(manifest: Manifest) -> Mapping[str, Any] | None:
    """The reference to the object that made this one."""
    metadata = manifest.get("metadata")
    written = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    owners = written if isinstance(written, list) else ()
    return next((each for each in owners if isinstance(each, Mapping) and each.get("controller") is True), None)


def carries(manifest: Manifest, keys: Container[str]) -> bool:
    """Whether a workload itself, or a pod template of it, has one of these keys as a label or annotation."""
    shape = shape_of(manifest)
    found = (
        [written for path in shape.templates for *_, written in _walk(manifest, path.split("."), ())] if shape else []
    )
    for each in (manifest, *found):
        metadata = each.get("metadata")
        said = metadata if isinstance(metadata, Mapping) else {}
        if any(key in keys for part in ("labels", "annotations") for key in _texts(said.get(part))):
            return True
    return False


def templates(manifest: Manifest) -> tuple[Template, ...]:
    """The pod templates of a workload, in the order of their fields; what is malformed in them is left out.

    Raises `MalformedError` where a number of pods is none.
    """
    shape = shape_of(manifest)
    paths = shape.templates if shape is not None else ()
    return tuple(_template(manifest, path, *found) for path in paths for found in _walk(manifest, path.split("."), ()))


def _walk(part: Any, steps: Sequence[str], way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Way, holder and value of everything that lies at the end of the steps below `part`."""
    step, *rest = steps
    for name, below in _entries(part, step):
        if rest:
            yield from _walk(below, rest, (*way, str(name)))
        elif isinstance(below, Mapping):
            yield (*way, str(name)), part, below


def _entries(part: Any, step: str) -> Iterable[tuple[Any, Any]]:
    if step == _ANY:
        return part.items() if isinstance(part, Mapping) else enumerate(part) if isinstance(part, list) else ()
    return [(step, part[step])] if isinstance(part, Mapping) and step in part else ()


def _template(manifest: Manifest, pattern: str, way: tuple[str, ...], holder: Any, written: Any) -> Template:
    path = "".join(f"[{each}]" if each.isdigit() else f".{each}" for each in way).lstrip(".")
    entry = next((name for name, step in zip(way, pattern.split("."), strict=True) if step == _ANY), MAIN)
    count = _count(holder, ref_of(manifest), f"{path.rpartition('.')[0]}.replicas")
    metadata, spec = written.get("metadata"), written.get("spec")
    said = metadata if isinstance(metadata, Mapping) else {}
    labels, annotations = (_texts(said.get(part)) for part in ("labels", "annotations"))
    return Template(path, entry.lower(), count, labels, annotations, spec if isinstance(spec, Mapping) else {})


def _count(holder: Any, ref: ObjectRef, at: str) -> int:
    written = holder.get("replicas")
    return 1 if written is None else max(0, decode(written, int, ref, at))


def _texts(part: Any) -> dict[str, str]:
    written = part.items() if isinstance(part, Mapping) else ()
    return {key: value for key, value in written if isinstance(value, str)}


@dataclass(frozen=True, slots=True)
class Maker:
    """The workload that a pod is one of, as far as the pod itself tells."""

    api_version: str
    kind: str
    name: str
    made: Made = Made.ALONE

    def __str__(self) -> str:
        """`Kind name`."""
        return f"{self.kind} {self.name}"


def job_metadata(template: Template) -> str:
    """Where the metadata of the Job stands whose pod template this is (`Made.IN_JOBS`)."""
    return f"{template.path.removesuffix('.spec.template')}.metadata"


def texts_at(manifest: Manifest, path: str) -> Mapping[str, str]:
    """The labels or annotations at a path as `job_metadata` makes them."""
    part: Any = manifest
    for step in path.replace("[", ".").replace("]", "").split("."):
        known = isinstance(part, Mapping) or (isinstance(part, list) and step.isdigit())
        part = (part.get(step) if isinstance(part, Mapping) else part[int(step)]) if known else None
    return _texts(part)


def maker_of(pod: Pod) -> Maker | None:
    """The workload that made the pod; None for a pod that nobody controls."""
    owner = controller_of(pod)
    if owner is None:
        return None
    if name := pod.metadata.labels.get(LEADER_WORKER_SET):
        return Maker("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, Made.UNREAD)
    shape = WORKLOADS.get((group_of(owner.api_version), owner.kind))
    return Maker(owner.api_version, owner.kind, owner.name, shape.made if shape else Made.ALONE)


def shared_name(pod: Pod) -> str:
    """The name of the workload whose pods this one belongs with; "" for a pod that is for itself."""
    owner = controller_of(pod)
    if owner is not None and owner.kind == JOB_KIND:
        return owner.name
    maker = maker_of(pod)
    return maker.name if maker is not None and maker.made in (Made.TOGETHER, Made.UNREAD) else ""


def part_of(manifest: Manifest) -> str | None:
    """The workload of several Jobs that a Job is one of, as `Kind name`; None for a Job that is the whole of it."""
    owner = _owner(manifest)
    if owner is None:
        return None
    group, kind = group_of(str(owner.get("apiVersion", ""))), str(owner.get("kind", ""))
    shape = WORKLOADS.get((group, kind))
    alone = texts_at(manifest, "metadata.labels").get(JOBS_OF_JOB_SET) == "1"
    return None if alone or shape is None or shape.made is not Made.UNREAD else f"{kind} {owner.get('name', '')}"


def role_of(pod: Pod) -> str:
    """The pod set of a workload that the pod belongs to (`Template.role`)."""
    return pod.metadata.labels.get(REPLICA_TYPE, MAIN).lower()


def ended(manifest: Manifest) -> bool:
    """Whether a training job is over, well or badly: its pods may be gone, and no more come."""
    status = manifest.get("status")
    written = status.get("conditions") if isinstance(status, Mapping) else None
    conditions = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    return any(each.get("type") in ("Succeeded", "Failed") and each.get("status") == "True" for each in conditions)


def suspended(manifest: Manifest) -> bool:
    """Whether a training job is suspended: it has no pods then."""
    spec = manifest.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    return isinstance(policy, Mapping) and policy.get("suspend") is True


def check_parallel(manifest: Manifest, count: int, pods: Iterable[Pod], findings: Findings) -> None:
    """Note a StatefulSet of which `count` pods are to start together and that makes them one by one.

    One of which a pod exists is let be: its pods may all be there. `pods`: all that exist.
    """
    spec, ref = manifest.get("spec"), ref_of(manifest)
    policy = spec.get("podManagementPolicy") if isinstance(spec, Mapping) else None
    if ref.kind != "StatefulSet" or policy == "Parallel" or count <= 1:
        return
    if not any(pod.metadata.uid and made_this(pod, ref) for pod in pods):
        problem = "is not Parallel: the second pod comes when the first one runs, and none runs before all exist"
        findings.fault(ref, "spec.podManagementPolicy", problem, "write Parallel")


def made_this(pod: Pod, ref: ObjectRef) -> bool:
    """Whether the workload controls the pod: by uid where both are known, else by name."""
    owner = controller_of(pod)
    if owner is None or (owner.api_version, owner.kind) != (ref.api_version, ref.kind):
        return False
    same = owner.uid == ref.uid if owner.uid and ref.uid else owner.name == ref.name
    return same and pod.metadata.namespace == ref.namespace


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
    there = [pod for pod in live(existing) if pod.metadata.namespace == ref.namespace]
    taken = {pod.metadata.name for pod in there}
    found: list[Pod] = []
    for template in templates(manifest):
        if template.count > MOST_PODS:
            problem = f"{template.count} pods are more than can be planned ahead"
            at = f"{template.path.rpartition('.')[0]}.replicas"
            raise MalformedError(Fault(ref, at, problem, f"ask for at most {MOST_PODS}"))
        example = _example(manifest, template)
        first = sum(_in_turn(pod, ref) for pod in there)
        pods = (_numbered(example, template, number) for number in range(first, template.count))
        found += [pod for pod in pods if pod.metadata.name not in taken]
    return tuple(found)


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
    own = {REPLICA_TYPE: template.role} if template.role != MAIN else {}
    if ref.kind == "LeaderWorkerSet":
        own = {LEADER_WORKER_SET: ref.name}
    made = ObjectMeta(
        name=ref.name,
        namespace=ref.namespace,
        labels={**template.labels, **own},
        annotations=dict(template.annotations),
        owner_references=(owner,),
    )
    return msgspec.structs.replace(pod, metadata=made)


def _numbered(example: Pod, template: Template, number: int) -> Pod:
    meta = example.metadata
    role = "" if template.role == MAIN else f"-{template.role}"
    kind = meta.owner_references[0].kind
    index = {REPLICA_INDEX: str(number)} if role else {POD_INDEX: str(number)} if kind == "StatefulSet" else {}
    made = msgspec.structs.replace(meta, name=f"{meta.name}{role}-{number}", labels={**meta.labels, **index})
    return msgspec.structs.replace(example, metadata=made)
