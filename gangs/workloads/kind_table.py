"""The table of workload kinds: for each kind, where its pod templates are, and whether its pods form one group.

Systems such as Kueue and KAI Scheduler document for each kind whether they schedule its pods as one group or one by
one. The table follows their documentation.
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
from kube.kept_objects import computed_once
from kube.objects import Pod

ANY = "*"
"""A step of a path that means every entry of a list or mapping, as in `spec.tasks.*.template`."""
POD_INDEX = "apps.kubernetes.io/pod-index"
"""Pod label: the number of the pod in its StatefulSet."""
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""Pod label: the pod's index in its group; the leader has 0."""


class Made(Enum):
    """Whether the pods of a workload form one group, in systems in which pods need not name their group.

    UNREAD: the pods form one group in these systems, but Phalanx cannot count them, so it refuses such a workload as a
    gang.
    """

    TOGETHER = "one group, of as many pods as the templates say"
    ALONE = "each pod is for itself"
    IN_JOBS = "Jobs make them, each of which is for itself"
    UNREAD = "one group, whose size is not read here"


class Layout(Enum):
    """How the operator of a kind counts, names and labels the pods. It is read for kinds whose row has no `fields`."""

    REPLICAS = "of each template `replicas` pods, one by default"
    LAUNCHER_AND_WORKERS = "one launcher, and of each other template `replicas` pods, none by default"
    JOBS = "of each template `replicas` Jobs, each of `parallelism` pods"
    LEADERS_AND_WORKERS = "`replicas` groups of `size` pods, of which one is the leader"
    HEAD_AND_GROUPS = "one head, and groups of `replicas` workers on `numOfHosts` hosts each"


@dataclass(frozen=True, slots=True)
class TemplateFields:
    """The paths of the fields that state how many pods one pod template has.

    Each `*` in these paths means the same entry as the `*` at the same position in `template`.
    """

    template: str
    replicas: str = ""
    """The field with the number of pods; "": the template has one pod."""
    least: str = ""
    """The field with the number of these pods that must run; "": all must."""
    later: bool = False
    """Whether the workload creates these pods only after the pods of the other templates run."""
    later_if: str = ""
    """A field; if it is set, the workload creates these pods only after others run. "": no such field."""


@dataclass(frozen=True, slots=True)
class PodRules:
    """The functions by which Phalanx computes how many pods a Job runs, and which pods it will still create.

    A Job needs functions, because its status decides which pods it still creates. For other kinds, fields of `KindRow`
    state the pods. Each function raises `MalformedError`.
    """

    size: Callable[[Manifest], int]
    """Returns the number of pods that run at the same time when the workload starts."""
    expected: Callable[[Manifest], int]
    """Returns the number of pods that should run now. Near the workload's end it is less than `size`."""
    size_fields: str
    """The fields that determine `size`, for messages."""
    example: Callable[[Manifest], Pod]
    """Returns a pod as the workload creates it, without an index."""
    missing: Callable[[Manifest, Sequence[Pod]], Sequence[Pod]]
    """Returns the expected pods. The second argument has existing pods, possibly of other owners, too."""


@dataclass(frozen=True, slots=True)
class Description:
    """The functions by which Phalanx derives a child workload from its parent and from a second object that describes
    the child.

    Example: the JobSet of a TrainJob is derived from the TrainJob and from the runtime that the TrainJob names. `key`
    and `child` raise `MalformedError`.
    """

    named_at: str
    """The path at which the parent names the object that describes the child."""
    key: Callable[[Manifest], ObjectKey]
    """A function from a parent to the key of the object that describes the parent's child."""
    child: Callable[[Manifest, Manifest], dict[str, Any]]
    """A function from a parent and the object that describes its child to the child, with labels and annotations."""


@dataclass(frozen=True, slots=True)
class ChildKind:
    """How workloads of one kind contain the child workload that is the gang (`gangs.workloads.child_workloads`)."""

    api_version: str
    """The apiVersion of the child; `*`: any, because the parent contains the child as a whole object."""
    kind: str
    """The kind of the child; `*`: any."""
    at: str = ""
    """The path in the parent of the child's spec; if `kind` is `*`, of the whole child. "": another object has it."""
    description: Description | None = None
    """How the child is derived if an object other than the parent describes it; None: the parent contains the child."""
    annotations_at: str = ""
    """The path in the parent at which admission writes the child's annotations.

    "": the operator copies the annotations of the parent itself.
    """
    takes_queue: bool = False
    """Whether admission also copies the parent's queue name to the child, because the parent's queue is the child's."""

    @property
    def is_whole_object(self) -> bool:
        """Whether the parent contains the child as a whole object, of any kind, which may itself ask for a gang."""
        return self.kind == ANY

    @property
    def metadata_at(self) -> str:
        """The path of the child's metadata in the parent; "": the operator copies the metadata of the parent itself."""
        return self.annotations_at.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class KindRow:
    """The description of one kind of workload: one row of the table of kinds, or of a WorkloadKind object.

    `plural`: the resource name in the API path. `templates`: the paths of the pod templates, with `*` for every entry
    of a list or mapping.
    """

    plural: str
    made: Made
    templates: tuple[str, ...] = ("spec.template",)
    versions: tuple[str, ...] = ()
    """The API versions that Phalanx reads, the newest first; empty for kinds whose objects it does not watch."""
    queued: bool = False
    """Whether the label with a queue's name on the workload puts its pods into the queue, as in Kueue."""
    queue_wins: bool = False
    """Which queue counts if the workload and its pod template name different queues, for kinds with `queued`.

    True: the workload's. False: the workload is then not in a queue.
    """
    automatic: bool = False
    """Whether each workload of this kind with several pods is a gang in a namespace with `phalanx.dev/automatic`."""
    fixed_template: bool = False
    """Whether the API server refuses every change of the pod template."""
    rules: PodRules | None = None
    """For the Job: the functions that compute its pods, because a Job needs fewer pods near its end.

    None: the other fields of the row describe the pods.
    """
    by_annotation: bool = False
    """Whether Phalanx's own annotations on the workload make it a gang."""
    minimum: str = ""
    """The workload's own field for the number of pods that must start together; "": none."""
    least_workers: str = ""
    """The field with the number of workers that must start together with all other pods; "": none."""
    minimum_of_roles: str = ""
    """The field in which each role states its minimum; "": none. Only the generated reference of kinds uses it."""
    makers: tuple[str, ...] = ()
    """Kubernetes' own kinds whose objects create pods for the workload, such as the Jobs of a JobSet."""
    named_by: str = ""
    """The pod label with the workload's name, for pods that an object of `makers` creates.

    "": the name is that of the pod's ReplicaSet, without its last part.
    """
    child: ChildKind | None = None
    """The child workload that is the gang instead of this workload; None: this workload is the gang."""
    part_by: str = ""
    """The pod label with the part of the workload to which the pod belongs, if each part is a gang of its own.

    Example: the group of a LeaderWorkerSet. "": the whole workload is one gang.
    """
    fields: tuple[TemplateFields, ...] = ()
    """For each of `templates`, the fields with its number of pods.

    Empty: `rules` or `gangs.workloads.pod_counts` compute the numbers.
    """
    parts: str = ""
    """The field with the number of parts, for kinds with `fields` and `part_by`."""
    start_orders: tuple[StartOrder, ...] = ()
    """Settings by which the workload creates some pods only after others run. For kinds with `fields`, `TemplateFields`
    has such settings.
    """
    rank: str = ""
    """The key of the pod label or annotation with the pod's rank in its template, for kinds with `fields`; "": none."""
    ended_at: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Fields by which a workload reports its end, in addition to the usual conditions, each with the values that mean
    an end.
    """
    counted_in_status: tuple[str, ...] = ()
    """The status fields that the functions in `rules` read: the numbers of pods that have completed."""
    ending_conditions: tuple[str, ...] = ()
    """Types of conditions by which a workload reports that it has ended or is ending, so that it recreates no pod.

    They add to the conditions Succeeded, Completed and Failed, which are read for every kind.
    """
    suspended_at: str = ""
    """The field that is true while the workload is suspended, and that a queue sets to false.

    A user-defined kind has this field besides the usual ones. "": the kind has none. A CronJob's `spec.suspend` is not
    listed, because it stops only the creation of further Jobs.
    """
    bare: bool = False
    """Whether the objects at `templates` are no pod templates, as in a SparkApplication (`gangs.workloads.spark`).

    They have the pods' labels and annotations directly, without `metadata`, and resource requests in special fields.
    """
    layout: Layout = Layout.REPLICAS
    """How the operator counts, names and labels the pods, for a kind with neither `fields` nor `rules`."""
    number_label: str = ""
    """With `layout`: the pod label that holds a pod's number in its set, Job or group; "": none."""
    user_defined_by: str = ""
    """The name of the WorkloadKind that describes a user-defined kind; "" for the kinds of this table."""


def _replicas(kind: str, specs: str, least_workers: str = "") -> tuple[str, KindRow]:
    """Return a kind of Kubeflow's training operator with its row of the table.

    :param specs: the field of `spec` that has the replica specs, such as `pytorchReplicaSpecs`.
    """
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
"""The row of MPIJobs: of the MPI operator (v2beta1), whose launchers are Jobs, and of the training operator (v1)."""
_TASKS = "spec.tasks.*.template"
_ELASTIC = "spec.elasticPolicy.minReplicas"
_CLUSTER = ("headGroupSpec.template", "workerGroupSpecs.*.template")


def _alone_in_a_domain(annotation: str, later: MadeLater) -> StartOrder:
    """Return the start order for an annotation by which an operator gives each Job or group a domain of its own.

    The operator first creates one pod of each Job or group. When this pod runs, it creates the others for its domain.
    """
    return StartOrder(annotation, later, at_once=f"remove the annotation {annotation}", annotation=True)


def _ray(plural: str, cluster: str, suspended_at: str = "") -> KindRow:
    """Return the row of a KubeRay kind that creates a RayCluster. KubeRay copies the annotations of its objects to the
    RayCluster.

    :param cluster: the path of the RayCluster's spec.
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
"""By API group and by kind: the row of the table. A kind whose row has no templates contains no pod templates."""

WORKLOADS: Mapping[tuple[str, str], KindRow] = {
    (group, kind): row for group, kinds in _ROWS.items() for kind, row in kinds.items()
}
"""The rows of all kinds that create pods, by API group and kind."""

ROW = "row of the table of kinds"
"""The key under which an object of a user-defined kind has its `KindRow`, added when the object is read (`with_row`).

Users cannot write such an entry, because objects from the API server have only plain values.
"""


@computed_once
def row_of(manifest: Manifest) -> KindRow | None:
    """Return the description of the object's kind; None if the kind creates no pods or is unknown."""
    known = WORKLOADS.get((group_of(manifest.get("apiVersion", "")), manifest.get("kind", "")))
    if known is not None or ROW not in manifest:
        return known
    user_defined = manifest[ROW]
    return user_defined if isinstance(user_defined, KindRow) else None


def layout_of(manifest: Manifest) -> Layout:
    """Return how the object's operator counts, names and labels its pods; REPLICAS for an object of an unknown kind."""
    row = row_of(manifest)
    return Layout.REPLICAS if row is None else row.layout


def child_kind_of(manifest: Manifest) -> ChildKind | None:
    """Return the kind of the child workload that is the gang instead of the object; None if there is no such child."""
    row = row_of(manifest)
    return None if row is None else row.child


def row_of_child(child: ChildKind) -> KindRow | None:
    """Return the description of a child's kind; None if the child may be of any kind."""
    return WORKLOADS.get((group_of(child.api_version), child.kind))


def has_rules(manifest: Manifest) -> bool:
    """Whether functions compute the pods of the object's kind (`KindRow.rules`), which is so for Jobs only."""
    row = row_of(manifest)
    return row is not None and row.rules is not None


def mark_of(manifest: Manifest) -> str:
    """Return the value of the label `phalanx.dev/workload` on the pods of a workload that is a gang.

    The value is the kind. For a kind with `KindRow.fields`, such as a user-defined kind or Volcano's Job, it is
    `<kind>.<group>`.
    """
    group, kind, _, _ = key_of(manifest)
    row = row_of(manifest)
    return f"{kind}.{group}" if row is not None and row.fields else kind


def group_and_kind_in(mark: str) -> tuple[str, str] | None:
    """Return API group and kind in a value `<kind>.<group>` of the label `phalanx.dev/workload`.

    Return None for a value without group: `<kind>` or `<dialect>.<kind>`.
    """
    kind, _, group = mark.partition(".")
    return (group, kind) if "." in group and kind[:1].isupper() else None


def names_a_group(mark: str) -> bool:
    """Whether a value of the label `phalanx.dev/workload` has an API group: `[<dialect>.]<kind>.<group>`."""
    return (group_and_kind_in(mark) or group_and_kind_in(mark.partition(".")[2])) is not None


WATCHED: tuple[ResourceKind, ...] = tuple(
    ResourceKind(group, row.versions, kind, row.plural)
    for (group, kind), row in WORKLOADS.items()
    if row.versions and row.rules is None
)
"""Workload kinds that the controller watches, without the Job."""

WITH_RULES: tuple[ResourceKind, ...] = tuple(
    ResourceKind(group, row.versions, kind, row.plural)
    for (group, kind), row in WORKLOADS.items()
    if row.rules is not None
)
"""Kinds with functions in `KindRow.rules`: the Job. The controller watches all their objects."""

READ: tuple[ResourceKind, ...] = tuple(
    each for each in WATCHED if WORKLOADS[each.group, each.kind].made is Made.TOGETHER
)
"""Watched kinds, without the Job, whose pods form one group in systems in which pods need not name it."""

BY_ANNOTATION: Mapping[str, tuple[str, KindRow]] = {
    kind: (group, row) for (group, kind), row in WORKLOADS.items() if row.by_annotation and not row.fields
}
"""By kind: API group and row of the kinds that Phalanx's annotations make gangs and whose label has no API group."""
