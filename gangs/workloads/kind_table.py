"""The table of workload kinds: the fields that hold their pod templates, and which of their pods form one group.

The grouping follows the documentation of systems such as Kueue and KAI Scheduler. They state for each kind whether
they group its pods or take them one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gangs.manifests import group_of, key_of
from gangs.model import Manifest
from gangs.resource_kinds import ResourceKind
from gangs.workloads.jobs import (
    INDEX_KEY,
    JOB_API_VERSION,
    JOB_GROUP,
    JOB_KIND,
    example_pod,
    expected_of,
    missing_pods,
    size_of,
)
from gangs.workloads.start_orders import MadeLater, StartOrder
from gangs.workloads.train_jobs import NAMED_AT, job_set_of, runtime_of
from kube.catalog import ObjectKey
from kube.objects import Pod

ANY = "*"
"""A step of a path that matches every entry of a list or mapping."""
POD_INDEX = "apps.kubernetes.io/pod-index"
"""Pod label: the number of the pod in its StatefulSet."""
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""Pod label: the pod's place in its group; the leader has 0."""


class Made(Enum):
    """How the pods of a workload's templates are grouped."""

    TOGETHER = "one group, of as many pods as the templates say"
    ALONE = "each pod is for itself"
    IN_JOBS = "Jobs make them, each of which is for itself"
    UNREAD = "one group, whose size is not read here"


class Layout(Enum):
    """How an operator counts, names and labels the pods of a kind without counting `fields`."""

    REPLICAS = "of each template `replicas` pods, one by default"
    LAUNCHER_AND_WORKERS = "one launcher, and of each other template `replicas` pods, none by default"
    JOBS = "of each template `replicas` Jobs, each of `parallelism` pods"
    LEADERS_AND_WORKERS = "`replicas` groups of `size` pods, of which one is the leader"
    HEAD_AND_GROUPS = "one head, and groups of `replicas` workers on `numOfHosts` hosts each"


@dataclass(frozen=True, slots=True)
class TemplateFields:
    """The fields that count the pods of one template, for a kind that needs no rules in code.

    Each `*` in these fields means the entry at the same step of the template's own path.
    """

    template: str
    replicas: str = ""
    """The field that counts the pods; "": the template has one pod."""
    least: str = ""
    """The field that says how many of these pods must run; "": all must."""
    later: bool = False
    """Whether the workload creates these pods only when the pods of the other templates run."""
    later_if: str = ""
    """A field that, when set, makes the workload create these pods only when the others run; "": no such field."""


@dataclass(frozen=True, slots=True)
class PodRules:
    """Rules in code for a kind with one pod template whose status decides which pods it still creates.

    Each function raises `MalformedError`.
    """

    size: Callable[[Manifest], int]
    """Returns the number of pods that run at a time when the workload starts."""
    expected: Callable[[Manifest], int]
    """Returns the number of pods that should run now. Near the workload's end it is less than `size`."""
    size_fields: str
    """The fields that raise `size`, as a message names them."""
    example: Callable[[Manifest], Pod]
    """Returns a pod as the workload creates it, without an index."""
    missing: Callable[[Manifest, Sequence[Pod]], Sequence[Pod]]
    """Returns the expected pods. The second argument holds the existing pods, of any owner."""


@dataclass(frozen=True, slots=True)
class Description:
    """Rules for a child workload that another object describes, as a runtime describes the JobSet of a TrainJob.

    Both functions raise `MalformedError`.
    """

    named_at: str
    """The path at which the parent names the object."""
    key: Callable[[Manifest], ObjectKey]
    """Returns the key of the object that describes the child of a parent."""
    child: Callable[[Manifest, Manifest], dict[str, Any]]
    """Returns the child of a parent and the object, with labels and annotations."""


@dataclass(frozen=True, slots=True)
class ChildKind:
    """The child workload that is the gang in its parent's place (`gangs.workloads.child_workloads`)."""

    api_version: str
    """The apiVersion of the child; `*`: of any kind, as the parent holds the child as a whole object."""
    kind: str
    at: str = ""
    """The path of the child's spec, or of the whole child where its kind is `*`. "": another object describes it."""
    description: Description | None = None
    """The rules for a child that another object describes; None: the parent holds it."""
    annotations_at: str = ""
    """The path where admission writes the child's annotations; "": the operator copies the parent's own."""
    takes_queue: bool = False
    """Whether admission also writes the parent's queue name there. Kueue keeps the whole parent in that queue."""

    @property
    def is_whole_object(self) -> bool:
        """Whether the parent holds the child as a whole object, which can carry a placement request of its own."""
        return self.kind == ANY

    @property
    def metadata_at(self) -> str:
        """The path of the child's metadata in the parent; "": the operator copies the parent's own."""
        return self.annotations_at.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class KindRow:
    """One row of the table of kinds.

    `templates`: the paths of the pod templates, with `*` for every entry of a list or mapping.
    """

    plural: str
    made: Made
    templates: tuple[str, ...] = ("spec.template",)
    versions: tuple[str, ...] = ()
    """Served versions that Phalanx reads, newest first; empty for kinds that it does not read."""
    queued: bool = False
    """Whether a queue name on the workload reaches its pods, as in Kueue. Set for kinds whose pods are read."""
    queue_wins: bool = False
    """With `queued`: whether the workload's queue name replaces another one on its template. Otherwise the workload is
    not queued.
    """
    automatic: bool = False
    """Whether each workload of this kind with several pods is a gang in an automatic namespace."""
    fixed_template: bool = False
    """Whether the API server refuses every change of the pod template."""
    rules: PodRules | None = None
    """Rules in code for the pods, because fewer pods are expected near the workload's end. None: the other fields of
    the row describe the pods.
    """
    by_annotation: bool = False
    """Whether Phalanx's own annotations on the workload make it a gang. Set for kinds that are read."""
    minimum: str = ""
    """The workload's own field for the number of pods that must start together; "": none."""
    least_workers: str = ""
    """The field for the number of workers that must start together with all other pods; "": none."""
    minimum_of_roles: str = ""
    """The field in which each role states its minimum, for the reference of kinds; `pod_counts` reads it. "": none."""
    makers: tuple[str, ...] = ()
    """Kubernetes' own kinds that create pods for the workload, besides the pods that its operator creates itself."""
    named_by: str = ""
    """The pod label that names the workload when another object creates its pods; "": the ReplicaSet's name does."""
    child: ChildKind | None = None
    """The child workload that is the gang in the workload's place; None: the workload has none."""
    part_by: str = ""
    """The pod label that names the pod's part, where each part is a gang; "": the whole workload is one gang."""
    fields: tuple[TemplateFields, ...] = ()
    """The fields that count the pods of each of `templates`; empty where the kind has rules in code."""
    parts: str = ""
    """With `fields` and `part_by`: the field that says how many parts there are."""
    start_orders: tuple[StartOrder, ...] = ()
    """Fields that make the workload create some pods only when others run. Kinds with `fields` state this in them."""
    rank: str = ""
    """With `fields`: the label or annotation that holds a pod's rank among the pods of its template."""
    ended_at: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Fields with the values that mean that the workload has ended, besides the usual conditions."""
    counted_in_status: tuple[str, ...] = ()
    """Status fields that `rules` read. They count the pods that need not run again."""
    ending_conditions: tuple[str, ...] = ()
    """Types of conditions of a workload that has ended, or that is ending and recreates no pod. They hold besides the
    usual conditions.
    """
    suspended_at: str = ""
    """The field that is true while a workload is suspended. A queue resets it. A user-defined kind has this field
    besides the usual ones. "": the kind has none, or its field stops something else (a CronJob's next Jobs).
    """
    bare: bool = False
    """Whether `templates` are paths of objects that are not pod templates. They hold the pods' labels and annotations
    directly, and the requests in fields of their own (`gangs.workloads.spark`).
    """
    layout: Layout = Layout.REPLICAS
    """How the operator counts, names and labels the pods, for a kind with neither `fields` nor `rules`."""
    number_label: str = ""
    """With `layout`: the pod label that holds a pod's number in its set, Job or group; "": none."""
    user_defined_by: str = ""
    """The name of the WorkloadKind that describes a user-defined kind; "": this table describes the kind."""


def _replicas(kind: str, specs: str, least_workers: str = "") -> tuple[str, KindRow]:
    """Return kind and row for a kind of Kubeflow's training operator. `specs`: the field of its replica specs."""
    return kind, KindRow(
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
_MPI = KindRow(
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
    layout=Layout.LAUNCHER_AND_WORKERS,
)
"""The MPIJob of the MPI operator (v2beta1), whose launchers are Jobs, and of the training operator (v1), which creates
pods.
"""
_TASKS = "spec.tasks.*.template"
_ELASTIC = "spec.elasticPolicy.minReplicas"
_CLUSTER = ("headGroupSpec.template", "workerGroupSpecs.*.template")


def _alone_in_a_domain(annotation: str, later: MadeLater) -> StartOrder:
    """Return the start order of an annotation that gives each Job or group a domain of its own.

    The operator first creates the first pod of each Job or group. The domain of that pod decides the others' domain.
    """
    return StartOrder(annotation, later, at_once=f"remove the annotation {annotation}", annotation=True)


def _ray(plural: str, cluster: str, suspended_at: str = "") -> KindRow:
    """Return the row of a KubeRay kind that creates a RayCluster with its own annotations.

    `cluster`: the path of the RayCluster's spec.
    """
    return KindRow(
        plural,
        Made.UNREAD,
        tuple(f"{cluster}.{each}" for each in _CLUSTER),
        child=ChildKind("ray.io/v1", "RayCluster", cluster),
        suspended_at=suspended_at,
        layout=Layout.HEAD_AND_GROUPS,
    )


_ROWS: Mapping[str, Mapping[str, KindRow]] = {
    "": {"ReplicationController": KindRow("replicationcontrollers", Made.ALONE)},
    "apps": {
        "Deployment": KindRow(
            "deployments", Made.ALONE, versions=("v1",), queued=True, by_annotation=True, makers=("ReplicaSet",)
        ),
        "ReplicaSet": KindRow("replicasets", Made.ALONE, versions=("v1",), by_annotation=True),
        "DaemonSet": KindRow("daemonsets", Made.ALONE),
        "StatefulSet": KindRow(
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
            number_label=POD_INDEX,
        ),
    },
    JOB_GROUP: {
        JOB_KIND: KindRow(
            "jobs",
            Made.TOGETHER,
            versions=("v1",),
            queued=True,
            queue_wins=True,
            automatic=True,
            fixed_template=True,
            by_annotation=True,
            rules=PodRules(size_of, expected_of, "spec.parallelism and spec.completions", example_pod, missing_pods),
            counted_in_status=("succeeded", "completedIndexes"),
            ending_conditions=("Complete", "SuccessCriteriaMet", "FailureTarget"),
            suspended_at=_SUSPEND,
        ),
        "CronJob": KindRow(
            "cronjobs",
            Made.IN_JOBS,
            ("spec.jobTemplate.spec.template",),
            child=ChildKind(
                JOB_API_VERSION,
                JOB_KIND,
                "spec.jobTemplate.spec",
                annotations_at="spec.jobTemplate.metadata.annotations",
            ),
        ),
    },
    "batch.volcano.sh": {
        JOB_KIND: KindRow(
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
        "JobSet": KindRow(
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
            layout=Layout.JOBS,
            number_label=INDEX_KEY,
        ),
    },
    "leaderworkerset.x-k8s.io": {
        "LeaderWorkerSet": KindRow(
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
            layout=Layout.LEADERS_AND_WORKERS,
            number_label=WORKER_INDEX,
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
        "TrainJob": KindRow(
            "trainjobs",
            Made.UNREAD,
            (),
            child=ChildKind(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                description=Description(NAMED_AT, runtime_of, job_set_of),
                annotations_at="spec.annotations",
                takes_queue=True,
            ),
            suspended_at=_SUSPEND,
        )
    },
    "ray.io": {
        "RayCluster": KindRow(
            "rayclusters",
            Made.TOGETHER,
            tuple(f"spec.{each}" for each in _CLUSTER),
            ("v1",),
            queued=True,
            by_annotation=True,
            minimum_of_roles="spec.workerGroupSpecs.*.minReplicas",
            suspended_at=_SUSPEND,
            layout=Layout.HEAD_AND_GROUPS,
        ),
        "RayJob": _ray("rayjobs", "spec.rayClusterSpec", _SUSPEND),
        "RayService": _ray("rayservices", "spec.rayClusterConfig"),
    },
    "sparkoperator.k8s.io": {
        "SparkApplication": KindRow(
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
        "AppWrapper": KindRow(
            "appwrappers",
            Made.UNREAD,
            (),
            child=ChildKind(
                ANY,
                ANY,
                "spec.components.*.template",
                annotations_at="spec.components.*.template.metadata.annotations",
                takes_queue=True,
            ),
            suspended_at=_SUSPEND,
        )
    },
    "serving.knative.dev": {"Service": KindRow("services", Made.ALONE)},
}
"""Rows by API group and kind. A row without templates is a kind that holds no pod templates of its own."""

WORKLOADS: Mapping[tuple[str, str], KindRow] = {
    (group, kind): row for group, kinds in _ROWS.items() for kind, row in kinds.items()
}
"""The rows of all kinds that create pods, by API group and kind."""

ROW = "row of the table of kinds"
"""The key under which an object of a user-defined kind carries its row. Users cannot write it: no key of an API has
blanks, and objects from the API server hold only plain values.
"""


def row_of(manifest: Manifest) -> KindRow | None:
    """Return the row of the object's kind; None if the kind is no workload."""
    group, kind, _, _ = key_of(manifest)
    known = WORKLOADS.get((group, kind))
    if known is not None or ROW not in manifest:
        return known
    user_defined = manifest[ROW]
    return user_defined if isinstance(user_defined, KindRow) else None


def layout_of(manifest: Manifest) -> Layout:
    """Return how the operator lays out the pods of the object."""
    row = row_of(manifest)
    return Layout.REPLICAS if row is None else row.layout


def child_kind_of(manifest: Manifest) -> ChildKind | None:
    """Return the kind of the child workload that is the gang in the object's place; None if there is no such child."""
    row = row_of(manifest)
    return None if row is None else row.child


def row_of_child(child: ChildKind) -> KindRow | None:
    """Return the row of a child's kind; None if the child may be of any kind."""
    return WORKLOADS.get((group_of(child.api_version), child.kind))


def has_rules(manifest: Manifest) -> bool:
    """Whether rules in code decide the pods of the object's kind (`WorkloadKind.rules`)."""
    row = row_of(manifest)
    return row is not None and row.rules is not None


def mark_of(manifest: Manifest) -> str:
    """Return the value of the label on the pods of a workload that is a gang.

    The value is the kind. A kind with counting `fields`, such as a user-defined kind or Volcano's Job, has its API
    group added.
    """
    group, kind, _, _ = key_of(manifest)
    row = row_of(manifest)
    return f"{kind}.{group}" if row is not None and row.fields else kind


def marked_in_full(mark: str) -> tuple[str, str] | None:
    """Return API group and kind of a mark that has both; None for a mark with the kind alone or with a system."""
    kind, _, group = mark.partition(".")
    return (group, kind) if "." in group and kind[:1].isupper() else None


def says_in_full(mark: str) -> bool:
    """Whether a mark, with or without a system before it, has kind and group (`labelled_workloads.makers.mark`)."""
    return (marked_in_full(mark) or marked_in_full(mark.partition(".")[2])) is not None


WATCHED: tuple[ResourceKind, ...] = tuple(
    ResourceKind(group, row.versions, kind, row.plural)
    for (group, kind), row in WORKLOADS.items()
    if row.versions and row.rules is None
)
"""Kinds that the controller watches, except those with rules in code."""

WITH_RULES: tuple[ResourceKind, ...] = tuple(
    ResourceKind(group, row.versions, kind, row.plural)
    for (group, kind), row in WORKLOADS.items()
    if row.rules is not None
)
"""Kinds with rules in code, of which the controller watches every object."""

READ: tuple[ResourceKind, ...] = tuple(
    each for each in WATCHED if WORKLOADS[each.group, each.kind].made is Made.TOGETHER
)
"""Watched kinds whose pods every system reads as one group."""

BY_ANNOTATION: Mapping[str, tuple[str, KindRow]] = {
    kind: (group, row) for (group, kind), row in WORKLOADS.items() if row.by_annotation and not row.fields
}
"""API group and row, by kind, of the kinds that Phalanx's own annotations make gangs and whose mark is the kind alone.
"""
