"""The table of kinds that make pods: where their pod templates stand, and which of their pods belong together.

What systems such as Kueue and KAI Scheduler group, and what they take one by one, they document for each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gangs.resource_kinds import ResourceKind
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND

ANY = "*"
"""A step of a path: every entry of a list or mapping."""


class Made(Enum):
    """What becomes of the pods of a workload's templates."""

    TOGETHER = "one group, of as many pods as the templates say"
    ALONE = "each pod is for itself"
    IN_JOBS = "Jobs make them, each of which is for itself"
    UNREAD = "one group, whose size is not read here"


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One kind. `templates`: where pod templates stand, `*` for every entry of a list or mapping."""

    plural: str
    made: Made
    templates: tuple[str, ...] = ("spec.template",)
    versions: tuple[str, ...] = ()
    """Served, newest first; of kinds that are read."""
    by_annotation: bool = False
    """Whether our own annotations on it make it a gang; of kinds that are read."""
    minimum: str = ""
    """The field in which it says itself how many of its pods must start together."""
    least_workers: str = ""
    """The field in which it says how many of its workers must, beside all others."""
    minimum_of_roles: str = ""
    """The field in which each role says so (`gangs.workloads.pod_counts`)."""
    makers: tuple[str, ...] = ()
    """Kinds of the core that it has make its pods, beside those that it makes itself."""
    named_by: str = ""
    """The pod label that names it, where others make its pods; "": the name of the ReplicaSet does."""
    part_by: str = ""
    """The pod label that says of which part of it a pod is, where each part is a gang; "": the whole is one."""


def _replicas(kind: str, specs: str, least_workers: str = "") -> tuple[str, WorkloadKind]:
    """A kind of Kubeflow's training operator."""
    return kind, WorkloadKind(
        f"{kind.lower()}s",
        Made.TOGETHER,
        (f"spec.{specs}.*.template",),
        ("v1",),
        by_annotation=True,
        minimum=_MINIMUM,
        least_workers=least_workers,
    )


_MINIMUM = "spec.runPolicy.schedulingPolicy.minAvailable"
_MPI = WorkloadKind(
    "mpijobs",
    Made.UNREAD,
    ("spec.mpiReplicaSpecs.*.template",),
    ("v2beta1",),
    by_annotation=True,
    minimum=_MINIMUM,
    makers=(JOB_KIND,),
    named_by="training.kubeflow.org/job-name",
)
"""Of the MPI operator, whose launchers are Jobs. In the training operator's version it is not read."""
_ELASTIC = "spec.elasticPolicy.minReplicas"
_CLUSTER = ("headGroupSpec.template", "workerGroupSpecs.*.template")
_SHAPES: Mapping[str, Mapping[str, WorkloadKind]] = {
    "": {"ReplicationController": WorkloadKind("replicationcontrollers", Made.ALONE)},
    "apps": {
        "Deployment": WorkloadKind(
            "deployments", Made.ALONE, versions=("v1",), by_annotation=True, makers=("ReplicaSet",)
        ),
        "ReplicaSet": WorkloadKind("replicasets", Made.ALONE, versions=("v1",), by_annotation=True),
        "DaemonSet": WorkloadKind("daemonsets", Made.ALONE),
        "StatefulSet": WorkloadKind("statefulsets", Made.TOGETHER, versions=("v1",), by_annotation=True),
    },
    JOB_GROUP: {
        JOB_KIND: WorkloadKind("jobs", Made.TOGETHER, versions=("v1",), by_annotation=True),
        "CronJob": WorkloadKind("cronjobs", Made.IN_JOBS, ("spec.jobTemplate.spec.template",)),
    },
    "jobset.x-k8s.io": {
        "JobSet": WorkloadKind(
            "jobsets",
            Made.UNREAD,
            ("spec.replicatedJobs.*.template.spec.template",),
            ("v1alpha2",),
            by_annotation=True,
            makers=(JOB_KIND,),
            named_by="jobset.sigs.k8s.io/jobset-name",
        ),
    },
    "leaderworkerset.x-k8s.io": {
        "LeaderWorkerSet": WorkloadKind(
            "leaderworkersets",
            Made.UNREAD,
            ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
            ("v1",),
            by_annotation=True,
            makers=("StatefulSet",),
            named_by="leaderworkerset.sigs.k8s.io/name",
            part_by="leaderworkerset.sigs.k8s.io/group-index",
        )
    },
    "kubeflow.org": dict(
        (
            _replicas("PyTorchJob", "pytorchReplicaSpecs", _ELASTIC),
            _replicas("TFJob", "tfReplicaSpecs"),
            _replicas("XGBoostJob", "xgbReplicaSpecs"),
            _replicas("PaddleJob", "paddleReplicaSpecs", _ELASTIC),
            _replicas("JAXJob", "jaxReplicaSpecs"),
            ("MPIJob", _MPI),
        )
    ),
    "trainer.kubeflow.org": {"TrainJob": WorkloadKind("trainjobs", Made.UNREAD, ())},
    "ray.io": {
        "RayCluster": WorkloadKind(
            "rayclusters",
            Made.UNREAD,
            tuple(f"spec.{each}" for each in _CLUSTER),
            ("v1",),
            by_annotation=True,
            minimum_of_roles="spec.workerGroupSpecs.*.minReplicas",
        ),
        "RayJob": WorkloadKind("rayjobs", Made.UNREAD, tuple(f"spec.rayClusterSpec.{each}" for each in _CLUSTER)),
        "RayService": WorkloadKind(
            "rayservices", Made.UNREAD, tuple(f"spec.rayClusterConfig.{each}" for each in _CLUSTER)
        ),
    },
    "sparkoperator.k8s.io": {"SparkApplication": WorkloadKind("sparkapplications", Made.UNREAD, ())},
    "workload.codeflare.dev": {"AppWrapper": WorkloadKind("appwrappers", Made.UNREAD, ())},
    "serving.knative.dev": {"Service": WorkloadKind("services", Made.ALONE)},
}
"""By API group and kind. Without templates: kinds that hand down no metadata of their own pods."""

WORKLOADS: Mapping[tuple[str, str], WorkloadKind] = {
    (group, kind): shape for group, kinds in _SHAPES.items() for kind, shape in kinds.items()
}
"""Kinds that make pods, by API group and kind."""

WATCHED: tuple[ResourceKind, ...] = tuple(
    ResourceKind(group, shape.versions, kind, shape.plural)
    for (group, kind), shape in WORKLOADS.items()
    if shape.versions and kind != JOB_KIND
)
"""Kinds besides the Job that are watched."""

READ: tuple[ResourceKind, ...] = tuple(
    each for each in WATCHED if WORKLOADS[each.group, each.kind].made is Made.TOGETHER
)
"""Those of which every system's pods are read as one group."""

BY_ANNOTATION: Mapping[str, tuple[str, WorkloadKind]] = {
    kind: (group, shape) for (group, kind), shape in WORKLOADS.items() if shape.by_annotation and kind != JOB_KIND
}
"""Kinds besides the Job of which our own annotations make gangs: API group and shape by kind."""
