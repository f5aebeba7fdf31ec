"""The table of kinds that make pods: where their pod templates stand, and which of their pods belong together.

What systems such as Kueue and KAI Scheduler group, and what they take one by one, they document for each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gangs.manifests import key_of
from gangs.model import Manifest
from gangs.resource_kinds import ResourceKind
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND
from gangs.workloads.start_orders import MadeLater, StartOrder

ANY = "*"
"""A step of a path: every entry of a list or mapping."""


class Made(Enum):
    """What becomes of the pods of a workload's templates."""

    TOGETHER = "one group, of as many pods as the templates say"
    ALONE = "each pod is for itself"
    IN_JOBS = "Jobs make them, each of which is for itself"
    UNREAD = "one group, whose size is not read here"


@dataclass(frozen=True, slots=True)
class TemplateFields:
    """Where a kind that needs no rules of its own says how many pods there are of a template. The `*` in these fields
    are those of the template's own path, from the first on.
    """

    template: str
    replicas: str = ""
    """"": one pod."""
    least: str = ""
    """How many of them must run; "": all."""
    later: bool = False
    """Whether its pods are made only when those of the other templates run."""
    later_if: str = ""
    """The same where this field says anything."""


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One kind. `templates`: where pod templates stand, `*` for every entry of a list or mapping."""

    plural: str
    made: Made
    templates: tuple[str, ...] = ("spec.template",)
    versions: tuple[str, ...] = ()
    """Served, newest first; of kinds that are read."""
    queued: bool = False
    """Whether a queue's name on it reaches its pods, as Kueue has it; besides Jobs, of kinds whose pods are read."""
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
    heir: tuple[str, str] = ("", "")
    """apiVersion and kind of the object made of it that is the gang in its place (`gangs.workloads.handed_down`)."""
    heir_at: str = ""
    """Where the spec of that stands, or the whole object where its kind is `*`; "": in another object
    (`gangs.workloads.train_jobs`).
    """
    hands_at: str = ""
    """Where admission writes down the annotations for it; "": its operator copies those of the workload itself."""
    hands_queue: bool = False
    """Whether it writes a queue's name on the workload down there, too, as Kueue has all of it in that queue."""
    part_by: str = ""
    """The pod label that says of which part of it a pod is, where each part is a gang; "": the whole is one."""
    fields: tuple[TemplateFields, ...] = ()
    """For each of `templates`, the fields that count its pods; none where the kind has rules of its own."""
    parts: str = ""
    """With `fields` and `part_by`: the field that says how many parts there are."""
    start_orders: tuple[StartOrder, ...] = ()
    """Without `fields`: how it says that it makes some of its pods when others run; those of `fields` say it there."""
    rank: str = ""
    """With `fields`: the label or annotation of a pod that is its rank among those of its template."""
    ended_at: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Besides the usual conditions: fields, and what stands there when it is over."""
    suspended_at: str = ""
    """The field that is true while it is suspended, which a queue lifts; of a kind that is described, besides the usual
    ones. "": it has none, or one that stops something else (a CronJob's next Jobs).
    """
    bare: bool = False
    """Whether `templates` are no pod templates: labels and annotations of the pods stand right there, and what they ask
    for is written in other words (`gangs.workloads.spark`).
    """
    taught_by: str = ""
    """The object that describes it (`gangs.workloads.taught_kinds`); "": this table does."""


def _replicas(kind: str, specs: str, least_workers: str = "") -> tuple[str, WorkloadKind]:
    """A kind of Kubeflow's training operator."""
    return kind, WorkloadKind(
        f"{kind.lower()}s",
        Made.TOGETHER,
        (f"spec.{specs}.*.template",),
        ("v1",),
        queued=True,
        by_annotation=True,
        minimum=_MINIMUM,
        least_workers=least_workers,
        suspended_at=_RUN_POLICY,
    )


_MINIMUM = "spec.runPolicy.schedulingPolicy.minAvailable"
_SUSPEND, _RUN_POLICY = "spec.suspend", "spec.runPolicy.suspend"
_MPI = WorkloadKind(
    "mpijobs",
    Made.UNREAD,
    ("spec.mpiReplicaSpecs.*.template",),
    ("v2beta1", "v1"),
    queued=True,
    by_annotation=True,
    minimum=_MINIMUM,
    makers=(JOB_KIND,),
    named_by="training.kubeflow.org/job-name",
    start_orders=(
        StartOrder(
            "spec.launcherCreationPolicy",
            MadeLater.LAUNCHER,
            says="WaitForWorkersReady",
            at_once="set spec.launcherCreationPolicy: AtStartup",
        ),
    ),
    suspended_at=_RUN_POLICY,
)
"""Of the MPI operator (v2beta1), whose launchers are Jobs, and of the training operator (v1), which makes pods."""
_TASKS = "spec.tasks.*.template"
_ELASTIC = "spec.elasticPolicy.minReplicas"
_CLUSTER = ("headGroupSpec.template", "workerGroupSpecs.*.template")


def _alone_in_a_domain(annotation: str, later: MadeLater) -> StartOrder:
    """The operator has each of its Jobs or groups alone in a domain, which their first pods find out."""
    return StartOrder(annotation, later, at_once=f"remove the annotation {annotation}", annotation=True)


def _ray(plural: str, cluster: str, suspended_at: str = "") -> WorkloadKind:
    """A kind of KubeRay that has a RayCluster made, with its own annotations. `cluster`: where that stands."""
    return WorkloadKind(
        plural,
        Made.UNREAD,
        tuple(f"{cluster}.{each}" for each in _CLUSTER),
        heir=("ray.io/v1", "RayCluster"),
        heir_at=cluster,
        suspended_at=suspended_at,
    )


_SHAPES: Mapping[str, Mapping[str, WorkloadKind]] = {
    "": {"ReplicationController": WorkloadKind("replicationcontrollers", Made.ALONE)},
    "apps": {
        "Deployment": WorkloadKind(
            "deployments", Made.ALONE, versions=("v1",), queued=True, by_annotation=True, makers=("ReplicaSet",)
        ),
        "ReplicaSet": WorkloadKind("replicasets", Made.ALONE, versions=("v1",), by_annotation=True),
        "DaemonSet": WorkloadKind("daemonsets", Made.ALONE),
        "StatefulSet": WorkloadKind(
            "statefulsets",
            Made.TOGETHER,
            versions=("v1",),
            queued=True,
            by_annotation=True,
            start_orders=(
                StartOrder(
                    "spec.podManagementPolicy",
                    MadeLater.REST,
                    unless="Parallel",
                    at_once="set spec.podManagementPolicy: Parallel",
                ),
            ),
        ),
    },
    JOB_GROUP: {
        JOB_KIND: WorkloadKind("jobs", Made.TOGETHER, versions=("v1",), by_annotation=True, suspended_at=_SUSPEND),
        "CronJob": WorkloadKind(
            "cronjobs",
            Made.IN_JOBS,
            ("spec.jobTemplate.spec.template",),
            heir=("batch/v1", JOB_KIND),
            heir_at="spec.jobTemplate.spec",
            hands_at="spec.jobTemplate.metadata.annotations",
        ),
    },
    "batch.volcano.sh": {
        JOB_KIND: WorkloadKind(
            "jobs",
            Made.ALONE,
            (_TASKS,),
            ("v1alpha1",),
            by_annotation=True,
            minimum="spec.minAvailable",
            fields=(
                TemplateFields(
                    _TASKS, "spec.tasks.*.replicas", "spec.tasks.*.minAvailable", later_if="spec.tasks.*.dependsOn"
                ),
            ),
            rank="volcano.sh/task-index",
            ended_at=(("status.state.phase", ("Completed", "Failed", "Aborted", "Terminated")),),
        )
    },
    "jobset.x-k8s.io": {
        "JobSet": WorkloadKind(
            "jobsets",
            Made.UNREAD,
            ("spec.replicatedJobs.*.template.spec.template",),
            ("v1alpha2",),
            queued=True,
            by_annotation=True,
            makers=(JOB_KIND,),
            named_by="jobset.sigs.k8s.io/jobset-name",
            start_orders=(
                StartOrder(
                    "spec.startupPolicy.startupPolicyOrder",
                    MadeLater.OTHER_JOBS,
                    says="InOrder",
                    at_once="set spec.startupPolicy.startupPolicyOrder: AnyOrder",
                ),
                StartOrder("spec.replicatedJobs.*.dependsOn", MadeLater.ITS_JOBS, at_once="leave out dependsOn"),
                _alone_in_a_domain("alpha.jobset.sigs.k8s.io/exclusive-topology", MadeLater.REST_OF_JOBS),
            ),
            suspended_at=_SUSPEND,
        ),
    },
    "leaderworkerset.x-k8s.io": {
        "LeaderWorkerSet": WorkloadKind(
            "leaderworkersets",
            Made.UNREAD,
            ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
            ("v1",),
            queued=True,
            by_annotation=True,
            makers=("StatefulSet",),
            named_by="leaderworkerset.sigs.k8s.io/name",
            part_by="leaderworkerset.sigs.k8s.io/group-index",
            start_orders=(
                StartOrder(
                    "spec.startupPolicy",
                    MadeLater.WORKERS,
                    says="LeaderReady",
                    at_once="set spec.startupPolicy: LeaderCreated",
                ),
                _alone_in_a_domain("leaderworkerset.sigs.k8s.io/exclusive-topology", MadeLater.WORKERS),
            ),
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
    "trainer.kubeflow.org": {
        "TrainJob": WorkloadKind(
            "trainjobs",
            Made.UNREAD,
            (),
            heir=("jobset.x-k8s.io/v1alpha2", "JobSet"),
            hands_at="spec.annotations",
            hands_queue=True,
            suspended_at=_SUSPEND,
        )
    },
    "ray.io": {
        "RayCluster": WorkloadKind(
            "rayclusters",
            Made.TOGETHER,
            tuple(f"spec.{each}" for each in _CLUSTER),
            ("v1",),
            queued=True,
            by_annotation=True,
            minimum_of_roles="spec.workerGroupSpecs.*.minReplicas",
            suspended_at=_SUSPEND,
        ),
        "RayJob": _ray("rayjobs", "spec.rayClusterSpec", _SUSPEND),
        "RayService": _ray("rayservices", "spec.rayClusterConfig"),
    },
    "sparkoperator.k8s.io": {
        "SparkApplication": WorkloadKind(
            "sparkapplications",
            Made.UNREAD,
            ("spec.driver", "spec.executor"),
            ("v1beta2",),
            queued=True,
            by_annotation=True,
            minimum_of_roles="spec.dynamicAllocation.minExecutors",
            named_by="sparkoperator.k8s.io/app-name",
            fields=(TemplateFields("spec.driver"), TemplateFields("spec.executor", later=True)),
            ended_at=(("status.applicationState.state", ("COMPLETED", "FAILED")),),
            bare=True,
        )
    },
    "workload.codeflare.dev": {
        "AppWrapper": WorkloadKind(
            "appwrappers",
            Made.UNREAD,
            (),
            heir=(ANY, ANY),
            heir_at="spec.components.*.template",
            hands_at="spec.components.*.template.metadata.annotations",
            hands_queue=True,
            suspended_at=_SUSPEND,
        )
    },
    "serving.knative.dev": {"Service": WorkloadKind("services", Made.ALONE)},
}
"""By API group and kind. Without templates: kinds that hand down no metadata of their own pods."""

WORKLOADS: Mapping[tuple[str, str], WorkloadKind] = {
    (group, kind): shape for group, kinds in _SHAPES.items() for kind, shape in kinds.items()
}
"""Kinds that make pods, by API group and kind."""

ROW = "row of the table of kinds"
"""Where an object of a kind that a WorkloadKind describes has its row with it. No key of an API has blanks, and what
comes from the API server has only plain values, so nobody else can write one.
"""


def shape_of(manifest: Manifest) -> WorkloadKind | None:
    """What is known of the object's kind; None where that is no workload."""
    group, kind, _, _ = key_of(manifest)
    known = WORKLOADS.get((group, kind))
    if known is not None or ROW not in manifest:
        return known
    taught = manifest[ROW]
    return taught if isinstance(taught, WorkloadKind) else None


def mark_of(manifest: Manifest) -> str:
    """The value of the label by which the pods of a workload that is a gang are known: its kind; with its group, where
    that is not in the table or has a name that another kind has.
    """
    group, kind, _, _ = key_of(manifest)
    shape = shape_of(manifest)
    return f"{kind}.{group}" if shape is not None and shape.fields else kind


def marked_in_full(mark: str) -> tuple[str, str] | None:
    """Group and kind of a mark that has both; None for one with the kind alone, and for one with another's system."""
    kind, _, group = mark.partition(".")
    return (group, kind) if "." in group and kind[:1].isupper() else None


def says_in_full(mark: str) -> bool:
    """Whether a mark, in whichever system's words, has kind and group (`gangs.marked.makers.mark`)."""
    return (marked_in_full(mark) or marked_in_full(mark.partition(".")[2])) is not None


WATCHED: tuple[ResourceKind, ...] = tuple(
    ResourceKind(group, shape.versions, kind, shape.plural)
    for (group, kind), shape in WORKLOADS.items()
    if shape.versions and (group, kind) != (JOB_GROUP, JOB_KIND)
)
"""Kinds besides the Job that are watched."""

READ: tuple[ResourceKind, ...] = tuple(
    each for each in WATCHED if WORKLOADS[each.group, each.kind].made is Made.TOGETHER
)
"""Those of which every system's pods are read as one group."""

BY_ANNOTATION: Mapping[str, tuple[str, WorkloadKind]] = {
    kind: (group, shape)
    for (group, kind), shape in WORKLOADS.items()
    if shape.by_annotation and kind != JOB_KIND and not shape.fields
}
"""Kinds besides the Job of which our own annotations make gangs, and that are known by their name alone: API group and
shape by kind.
"""
