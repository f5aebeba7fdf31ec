"""Pods, nodes, namespaces, priority classes, disruption budgets and resource quotas, decoded by msgspec.

The structs contain the fields that decide where a pod may run, whether it may be created, and which pods may be evicted
for it.

Every other field is skipped by the decoder without being allocated. Field names follow the Kubernetes API in snake
case; an absent field has the API's own default. Quantities stay strings here: `kube.quantities` reads them.
"""

from typing import Any

import msgspec


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Base of all decoded objects: immutable, camelCase on the wire, outside the cyclic collector."""


class OwnerReference(Struct, frozen=True):
    """metav1.OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Struct, frozen=True):
    """metav1.ObjectMeta, without managedFields. Times are RFC 3339 strings, as served."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


class Requirement(Struct, frozen=True):
    """A NodeSelectorRequirement or a LabelSelectorRequirement, which have equal fields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """metav1.LabelSelector. An empty selector matches everything, an absent one (None) nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Requirements that must all hold. A term without requirements matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """Terms of which at least one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    """A preference for nodes that match a term, with a weight of 1-100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """core/v1 NodeAffinity."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    """A rule about matching pods in the same domain of `topology_key`."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    """A preference for a pod affinity term, with a weight of 1-100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """core/v1 PodAffinity and PodAntiAffinity, which have equal fields."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    """core/v1 Toleration. No operator means Equal; an empty key with Exists tolerates everything.

    Complete and as written, because a pod's tolerations can only be written back all together and unchanged.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """core/v1 TopologySpreadConstraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ContainerPort(Struct, frozen=True):
    """core/v1 ContainerPort; only host ports matter here (under hostNetwork they default to the container's)."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ResourceRequirements(Struct, frozen=True):
    """Quantities by resource name, as written."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Container(Struct, frozen=True):
    """A container or init container; `restart_policy` Always makes an init container a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class SchedulingGate(Struct, frozen=True):
    """core/v1 PodSchedulingGate."""

    name: str = ""


class SchedulingGroup(Struct, frozen=True):
    """core/v1 PodSchedulingGroup: the PodGroup of the API group scheduling.k8s.io that the pod belongs to."""

    pod_group_name: str = ""


class PodSpec(Struct, frozen=True):
    """core/v1 PodSpec, as far as it decides where the pod may run."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    runtime_class_name: str = ""
    overhead: dict[str, str | int | float] = {}
    resources: ResourceRequirements | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    host_network: bool = False
    volumes: tuple[dict[str, Any], ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()


class Condition(Struct, frozen=True):
    """A PodCondition or NodeCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Struct, frozen=True):
    """core/v1 ContainerStatus: what the container's node has allocated to it, and what it has by now."""

    name: str = ""
    allocated_resources: dict[str, str | int | float] | None = None
    resources: ResourceRequirements | None = None


class PodStatus(Struct, frozen=True):
    """core/v1 PodStatus. `allocated_resources` and `resources` are those of all containers together."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: dict[str, str | int | float] | None = None
    resources: ResourceRequirements | None = None


class Pod(Struct, frozen=True):
    """core/v1 Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def bound(self) -> bool:
        """Whether the pod is bound to a node."""
        return bool(self.spec.node_name)

    @property
    def terminating(self) -> bool:
        """Whether the pod has been deleted and still exists."""
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether the pod has finished and takes no capacity any more."""
        return self.status.phase in ("Succeeded", "Failed")

    def gated_by(self, gate: str) -> bool:
        """Whether the scheduling gate of that name is still on the pod."""
        return any(each.name == gate for each in self.spec.scheduling_gates)


class Taint(Struct, frozen=True):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    """core/v1 NodeSpec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus."""

    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


class Namespace(Struct, frozen=True):
    """core/v1 Namespace: only its labels and annotations matter."""

    metadata: ObjectMeta = ObjectMeta()


class Node(Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition, if it has one, is True."""
        return all(each.status == "True" for each in self.status.conditions if each.type == "Ready")


class PriorityClass(Struct, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class DisruptionBudgetSpec(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class DisruptionBudgetStatus(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetStatus. `disruptions_allowed`: None if no controller has counted yet (files)."""

    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, str] = {}
    """Pods whose eviction the API server has accepted and subtracted from `disruptions_allowed`: the time by name."""


class PodDisruptionBudget(Struct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class QuotaScope(Struct, frozen=True):
    """v1 ScopedResourceSelectorRequirement: which pods a quota counts."""

    scope_name: str = ""
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    """v1 ScopeSelector."""

    match_expressions: tuple[QuotaScope, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    """v1 ResourceQuotaSpec. `hard`: quantities by limited resource, as written."""

    hard: dict[str, str | int | float] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None

    @property
    def all_scopes(self) -> tuple[QuotaScope, ...]:
        """All scopes that a pod must match to be counted, from `scopes` and `scope_selector`."""
        selected = self.scope_selector.match_expressions if self.scope_selector else ()
        return (*(QuotaScope(scope_name=each) for each in self.scopes), *selected)


class ResourceQuotaStatus(Struct, frozen=True):
    """v1 ResourceQuotaStatus. `used`: quantities by limited resource, as written."""

    used: dict[str, str | int | float] = {}


class ResourceQuota(Struct, frozen=True):
    """v1 ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
