"""Every field of scheduling.k8s.io that Phalanx reads or refuses, each written in one place only. Source: k8s.io/api
v0.37.1, scheduling.
"""

GROUP = "scheduling.k8s.io"
POD_GROUP_KIND = "PodGroup"
POD_GROUPS = "podgroups"
POD_GROUP_VERSIONS = ("v1", "v1beta1", "v1alpha3")
"""The API versions of PodGroup that Phalanx reads. Kubernetes 1.37 serves v1beta1 and v1alpha3. v1 is announced."""
COMPOSITE_KIND = "CompositePodGroup"
COMPOSITES = "compositepodgroups"
COMPOSITE_VERSIONS = ("v1", "v1beta1", "v1alpha3")
"""The API versions of CompositePodGroup that Phalanx reads. Kubernetes 1.37 serves only v1alpha3."""

POD_FIELD = "spec.schedulingGroup.podGroupName"
"""Pod field: the PodGroup that the pod belongs to. It is immutable and set at CREATE only."""
POLICY = "spec.schedulingPolicy"
MIN_COUNT = f"{POLICY}.gang.minCount"
MIN_GROUP_COUNT = f"{POLICY}.gang.minGroupCount"
TOPOLOGY = "spec.schedulingConstraints.topology"
ALL_TOGETHER = "spec.disruptionMode.all"
PARENT = "spec.parentCompositePodGroupName"

KEYS = (
    POD_FIELD,
    f"{POLICY}.basic",
    MIN_COUNT,
    MIN_GROUP_COUNT,
    f"{TOPOLOGY}[].key",
    "spec.disruptionMode.single",
    ALL_TOGETHER,
    "spec.priorityClassName",
    "spec.priority",
    "spec.preemptionPolicy",
    "spec.resourceClaims",
    PARENT,
    "spec.workloadRef",
)
"""The fields that the dialect reads or refuses: one of the pod, the others of a PodGroup or a CompositePodGroup."""
