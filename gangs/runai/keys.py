"""Every key string of Run:ai that is read or knowingly not honoured, once. Sources: its guide on topology-aware
scheduling, and the API package and the pod grouper of KAI Scheduler (v0.17), on which it rests.
"""

GROUP = "kai.scheduler"
VERSIONS = ("v1alpha1",)
TOPOLOGY_OBJECT = "Topology"
TOPOLOGY_KIND = f"{TOPOLOGY_OBJECT}.{GROUP}"
"""The kind with its group. It distinguishes these topologies from other systems' objects of the kind Topology."""

PREFIX = f"{GROUP}/"
TOPOLOGY = f"{PREFIX}topology"
REQUIRED = f"{PREFIX}topology-required-placement"
PREFERRED = f"{PREFIX}topology-preferred-placement"
MIN_MEMBER = f"{PREFIX}batch-min-member"
SKIP = f"{PREFIX}skip-podgrouper"

WISHES = (TOPOLOGY, REQUIRED, PREFERRED, MIN_MEMBER)
"""Annotations by which a Job opts in, on itself or on its pod template. A single annotation suffices."""

PROPAGATED = (*WISHES, SKIP)
"""Annotations that a workload propagates to its child workload, which is the gang."""

GROUPED = ("pod-group-name", "scheduling.run.ai/pod-group")
"""Annotations of pods in a PodGroup of KAI Scheduler. The PodGroup then is their gang."""

SEGMENT_SIZE = f"{PREFIX}segment-size"
SEGMENT_REQUIRED = f"{PREFIX}segment-topology-required-placement"
SEGMENTS = (SEGMENT_SIZE, SEGMENT_REQUIRED, f"{PREFIX}segment-topology-preferred-placement")
"""Parts of a PyTorchJob or LeaderWorkerSet that are placed together; no Job has them."""

WITHOUT_EFFECT = (f"{PREFIX}preemption-delay", f"{PREFIX}staleness-grace-period")
"""Annotations that are admitted with a warning."""

NODE_POOL = f"{PREFIX}node-pool"
"""Label of a Job or of its pods: the node pool that they may use. Label of nodes: the pool they are in."""
QUEUE = f"{PREFIX}queue"
PREEMPTIBILITY = f"{PREFIX}preemptibility"
TASK_PRIORITY = f"{PREFIX}task-priority"

SCHEDULERS = ("kai-scheduler", "runai-scheduler")
"""Scheduler names that Run:ai's users write. Phalanx replaces them by the stock scheduler."""

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
