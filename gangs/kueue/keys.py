"""The keys and fields of Kueue that Phalanx reads, refuses or ignores. Source: Kueue's API types and documentation."""

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
"""The API versions of Topology that are read. Queues and flavors have no v1alpha1."""

TOPOLOGY = "Topology"
FLAVOR = "ResourceFlavor"
CLUSTER_QUEUE = "ClusterQueue"
LOCAL_QUEUE = "LocalQueue"
CLUSTER_QUEUES = "clusterqueues"
LOCAL_QUEUES = "localqueues"
COHORT = "Cohort"
TOPOLOGY_KIND = f"{TOPOLOGY}.{GROUP}"
"""The value of `kube.topology.Topology.kind` for Kueue's topologies. Other systems have a kind Topology, too."""

CONFIG_KIND = "ConfigMap"
CONFIG_NAMESPACE = "kueue-system"
CONFIG_NAME = "kueue-manager-config"
CONFIG_FILE = "controller_manager_config.yaml"
"""The ConfigMap with Kueue's Configuration, as Kueue's manifests and its chart name it, and its key."""

QUEUE_NAME = f"{GROUP}/queue-name"
"""Label of a Job, and of the pods of a gang: the LocalQueue in their namespace."""
MIN_PARALLELISM = f"{GROUP}/job-min-parallelism"
PRIORITY_CLASS = f"{GROUP}/priority-class"
MAX_EXEC_TIME = f"{GROUP}/max-exec-time-seconds"
PREBUILT = f"{GROUP}/prebuilt-workload-name"
ELASTIC = f"{GROUP}/elastic-job"
"""Annotation of a Job whose parallelism may change while it runs.

It has no effect in Phalanx, where the parallelism of every Job may change.
"""
COMPLETIONS_FOLLOW = f"{GROUP}/job-completions-equal-parallelism"

POD_GROUP = f"{GROUP}/pod-group-name"
POD_GROUP_TOTAL = f"{GROUP}/pod-group-total-count"
POD_GROUP_FAST = f"{GROUP}/pod-group-fast-admission"
POD_GROUP_SERVING = f"{GROUP}/pod-group-serving"
RETRIABLE = f"{GROUP}/retriable-in-group"
POD_INDEX = f"{GROUP}/pod-group-pod-index"
POD_INDEX_LABEL = f"{GROUP}/pod-group-pod-index-label"

REQUIRED = f"{GROUP}/podset-required-topology"
PREFERRED = f"{GROUP}/podset-preferred-topology"
UNCONSTRAINED = f"{GROUP}/podset-unconstrained-topology"
SLICE_LEVEL = f"{GROUP}/podset-slice-required-topology"
SLICE_SIZE = f"{GROUP}/podset-slice-size"
SLICE_CONSTRAINTS = f"{GROUP}/podset-slice-required-topology-constraints"
SET_GROUP = f"{GROUP}/podset-group-name"
SPREADING = f"{GROUP}/podset-topology-spreading"

WISHES = (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_LEVEL, SLICE_SIZE, SLICE_CONSTRAINTS, SET_GROUP)
"""Annotations of a pod template by which users request levels and slices. Each of them makes the pods a gang."""

OF_JOBS = (MIN_PARALLELISM, ELASTIC)
"""Annotations that have an effect only on Jobs."""
REFUSED = (PREBUILT,)
"""Labels or annotations of a Job whose meaning Phalanx does not implement. They are a fault."""
IGNORED = (PRIORITY_CLASS, MAX_EXEC_TIME, COMPLETIONS_FOLLOW)
"""Labels or annotations of a Job that have no effect in Phalanx. A warning reports them."""
WRITTEN_BY_KUEUE = (
    f"{GROUP}/workload",
    f"{GROUP}/podset",
    f"{GROUP}/pod-index-offset",
    f"{GROUP}/workload-slice-name",
    f"{GROUP}/managed",
    f"{GROUP}/tas",
)
"""Keys that Kueue's own controllers write. They have no meaning outside Kueue."""

LABELS_AND_ANNOTATIONS: tuple[str, ...] = (
    QUEUE_NAME,
    MIN_PARALLELISM,
    POD_GROUP,
    POD_GROUP_TOTAL,
    POD_GROUP_FAST,
    POD_GROUP_SERVING,
    RETRIABLE,
    POD_INDEX,
    POD_INDEX_LABEL,
    *WISHES,
    SPREADING,
    *REFUSED,
    ELASTIC,
    *IGNORED,
    *WRITTEN_BY_KUEUE,
)
"""All keys of labels and annotations that this dialect knows."""

_GROUPS = "spec.resourceGroups[]"
_QUOTAS = f"{_GROUPS}.flavors[].resources[]"
FIELDS: tuple[str, ...] = (
    "spec.suspend",
    "spec.levels[].nodeLabel",
    *(f"spec.{name}" for name in ("nodeLabels", "nodeTaints", "tolerations", "topologyName")),
    *(f"{_GROUPS}.{name}" for name in ("coveredResources", "flavors[].name")),
    *(f"{_QUOTAS}.{name}" for name in ("nominalQuota", "borrowingLimit", "lendingLimit")),
    *(
        f"spec.{name}"
        for name in ("cohort", "cohortName", "parentName", "namespaceSelector", "stopPolicy", "queueingStrategy")
    ),
    *(f"spec.{name}" for name in ("preemption", "flavorFungibility", "fairSharing", "admissionScope")),
    *(f"spec.{name}" for name in ("admissionChecks", "admissionChecksStrategy", "clusterQueue")),
)
"""Fields of Kueue's objects that this dialect reads, or of which it reports that they have no effect."""

KEYS = (*LABELS_AND_ANNOTATIONS, *FIELDS)
"""Every key and field of the dialect, as docs/reference/keys/kueue.md lists them."""
