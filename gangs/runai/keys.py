"""The keys and fields of Run:ai that Phalanx reads, refuses or ignores.

Sources: Run:ai's guide on topology-aware scheduling, and the API package and the pod grouper of KAI Scheduler (v0.17),
on which Run:ai is built.
"""

GROUP = "kai.scheduler"
VERSIONS = ("v1alpha1",)
TOPOLOGY_OBJECT = "Topology"
TOPOLOGY_KIND = f"{TOPOLOGY_OBJECT}.{GROUP}"
"""The value of `kube.topology.Topology.kind` for these topologies. Other systems have a kind Topology, too."""

PREFIX = f"{GROUP}/"
TOPOLOGY = f"{PREFIX}topology"
REQUIRED = f"{PREFIX}topology-required-placement"
PREFERRED = f"{PREFIX}topology-preferred-placement"
MIN_MEMBER = f"{PREFIX}batch-min-member"
SKIP = f"{PREFIX}skip-podgrouper"

WISHES = (TOPOLOGY, REQUIRED, PREFERRED, MIN_MEMBER)
"""The annotations that make a workload, or the pods of a template, a gang. A single annotation is enough."""

PROPAGATED = (*WISHES, SKIP)
"""Annotations that are copied from a workload to its child workload, which is the gang."""

GROUPED = ("pod-group-name", "scheduling.run.ai/pod-group")
"""Annotations by which pods name a PodGroup of KAI Scheduler, which is then their gang."""

SEGMENT_SIZE = f"{PREFIX}segment-size"
SEGMENT_REQUIRED = f"{PREFIX}segment-topology-required-placement"
SEGMENTS = (SEGMENT_SIZE, SEGMENT_REQUIRED, f"{PREFIX}segment-topology-preferred-placement")
"""Annotations by which consecutive pods of a PyTorchJob or LeaderWorkerSet, a segment, share one domain."""

WITHOUT_EFFECT = (f"{PREFIX}preemption-delay", f"{PREFIX}staleness-grace-period")
"""Annotations that have no effect in Phalanx. A warning reports them."""

NODE_POOL = f"{PREFIX}node-pool"
"""Label of a workload or of its pods: the node pool that they must use. Label of a node: its node pool."""
QUEUE = f"{PREFIX}queue"
PREEMPTIBILITY = f"{PREFIX}preemptibility"
TASK_PRIORITY = f"{PREFIX}task-priority"

SCHEDULERS = ("kai-scheduler", "runai-scheduler")
"""Scheduler names in manifests of Run:ai's users. Phalanx replaces them by the stock scheduler."""

KEYS: tuple[str, ...] = (
    *(f"spec.levels[].{field}" for field in ("nodeLabel", "alias")),
    *WISHES,
    SKIP,
    *SEGMENTS,
    *WITHOUT_EFFECT,
    NODE_POOL,
    QUEUE,
    PREEMPTIBILITY,
    TASK_PRIORITY,
    "priorityClassName",
    *(f"spec.schedulerName: {name}" for name in SCHEDULERS),
)
"""Every key and field of the dialect, as docs/reference/keys/runai.md lists them."""
