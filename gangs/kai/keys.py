"""The keys and fields of KAI Scheduler. Source: its guide (examples/kai), and its API package (v0.17)."""

GROUP = "scheduling.run.ai"
VERSIONS = ("v2", "v2alpha2")
POD_GROUP_KIND = "PodGroup"
POD_GROUPS = "podgroups"

POD_GROUP = "scheduling.run.ai/pod-group"
"""Pod annotation: name of a PodGroup in the pod's namespace."""
POD_GROUP_NAME = "pod-group-name"
"""Pod annotation that KAI Scheduler itself writes: name of a PodGroup in the pod's namespace."""
POLICY = "scheduling.run.ai/topology-policy"
"""Pod annotation: the name of a topology policy in the ConfigMap. It makes a gang even without a PodGroup."""
ROLE = "scheduling.run.ai/topology-role"
"""Pod annotation: the role of the pod, such as `prefill`. The pods of one role are one pod set."""
SUB_GROUP = "kai.scheduler/subgroup-name"
"""Pod label: the subgroup of its PodGroup to which the pod belongs."""
PREFIX = "scheduling.run.ai/"
ON_PODS = (POD_GROUP, POLICY, ROLE)

ROLES = ("prefill", "decode")

CONFIG_KIND = "ConfigMap"
CONFIG_NAMESPACE = "kai-scheduler"
CONFIG_NAME = "kai-scheduler-config"
CONFIG_FILE = "config.yaml"
CONFIG_SECTION = "topologyAwareScheduling"

GPU_SCOPE = "gpu"
NVLINK_LEVEL = "nvlink-domain"
NUMA_LEVEL = "numa-node"
NUMA_SCOPE = "numa"
"""Another word for the scope `NUMA_LEVEL`: the word of topology policies."""
NODE_LEVEL = "node"
RACK_LEVEL = "rack"
ZONE_LEVEL = "zone"

NVLINK_DOMAIN = "gpu.topology/nvlink-domain"
NVLINK_DOMAIN_SIZE = "gpu.topology/nvlink-domain-size"
INTERCONNECT = "gpu.topology/interconnect"
NVLINK_VERSION = "nvidia.com/nvlink.version"
NVSWITCH_PRESENT = "nvidia.com/nvswitch.present"
GPU_CLIQUE = "nvidia.com/gpu.clique"
ZONE_LABEL = "topology.kubernetes.io/zone"
RACK_LABELS = ("topology.kubernetes.io/rack", "cloud.provider.com/topology-rack")

DEVICE_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    NUMA_LEVEL: ("resource.kubernetes.io/numaNode", "dra.net/numaNode"),
    NVLINK_LEVEL: ("gpu.nvidia.com/nvlinkDomain",),
    GPU_SCOPE: ("resource.kubernetes.io/pciBusID", "gpu.nvidia.com/parentUUID", "gpu.nvidia.com/uuid"),
}
"""The levels below the node, the widest first, with the attributes by which drivers publish them.

The domain `resource.kubernetes.io` is that of Kubernetes' standard attributes; `parentUUID` is the GPU of a partition.
"""

GPU = "nvidia.com/gpu"
"""The name of the GPU resource."""
SCHEDULER = "kai-scheduler"

SPEC_FIELDS = ("minMember", "queue", "topologyPolicy", "topologyConstraint", "minSubGroup", "subGroups")
"""Fields of a PodGroup's spec that have an effect."""
WITHOUT_EFFECT = (
    "priorityClassName",
    "preemptibility",
    "markUnschedulable",
    "schedulingBackoff",
    "preemptionDelay",
    "stalenessGracePeriod",
)
"""Fields of a PodGroup's spec (v2alpha2) that have no effect in Phalanx. A warning reports them."""

_SECTION = f"{CONFIG_FILE} {CONFIG_SECTION}"
KEYS: tuple[str, ...] = (
    POD_GROUP,
    POD_GROUP_NAME,
    POLICY,
    ROLE,
    *(f"spec.{name}" for name in ("minMember", "queue", "topologyPolicy.scope", "topologyPolicy.affinity.required")),
    "spec.affinity.required",
    *(f"spec.topologyConstraint.{name}" for name in ("topology", "requiredTopologyLevel", "preferredTopologyLevel")),
    SUB_GROUP,
    "spec.minSubGroup",
    *(f"spec.subGroups[].{name}" for name in ("name", "minMember", "minSubGroup", "parent", "topologyConstraint")),
    *(f"spec.{name}" for name in WITHOUT_EFFECT),
    *(f"{_SECTION}.{name}" for name in ("enabled", "policies[].name", "policies[].weight", "policies[].topology")),
    *(f"{_SECTION}.{name}" for name in ("policies[].strategy", "levels[].name", "levels[].label")),
    NVLINK_DOMAIN,
    NVLINK_DOMAIN_SIZE,
    INTERCONNECT,
    NVLINK_VERSION,
    NVSWITCH_PRESENT,
    GPU_CLIQUE,
    ZONE_LABEL,
    *RACK_LABELS,
    f"spec.schedulerName: {SCHEDULER}",
)
"""Every key and field of the dialect, as docs/reference/keys/kai.md lists them."""
