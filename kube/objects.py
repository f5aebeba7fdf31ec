"""Pods, nodes, namespaces, priority classes, disruption budgets and resource quotas, decoded by msgspec.

The structs contain the fields that decide where a pod may run, whether it may be created, and which pods may be evicted
for it. The decoder skips every other field without allocating memory.

A field has the Kubernetes API's name in snake case. An absent field has the API's default. Quantities are kept as
written, and `kube.quantities` parses them.
"""

from contextlib import suppress
from typing import Any

import msgspec


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Base class of all decoded objects: immutable, with camelCase names in JSON.

    Python's garbage collector does not track the objects (`gc=False`), because they contain no reference cycles.
    """


def prepare_decoding() -> None:
    """Build msgspec's decoding tables of all imported struct types. Call this before several threads decode objects.

    msgspec builds the table of a type at its first use, without a lock (msgspec 0.22). If two threads use a type for
    the first time at once, one of them may read an unfinished table, which crashes the process.
    """
    types: list[type[msgspec.Struct]] = [msgspec.Struct]
    for struct in types:
        types += struct.__subclasses__()
    for struct in types[1:]:
        with suppress(TypeError):  # the type cannot be decoded, so no thread decodes it
            msgspec.json.Decoder(struct)


class OwnerReference(Struct, frozen=True):
    """metav1.OwnerReference, with the fields that Phalanx reads."""

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
    """core/v1 NodeSelectorTerm: a node must fulfil all requirements. A term without requirements matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """core/v1 NodeSelector: a node must match at least one term."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    """core/v1 PreferredSchedulingTerm: a preference for nodes that match a term, with a weight of 1-100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """core/v1 NodeAffinity: a pod's required and preferred rules about node labels."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    """core/v1 PodAffinityTerm: which pods a pod must run near to or away from. Nodes with one value of the label
    `topology_key` are near to each other.
    """

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    """core/v1 WeightedPodAffinityTerm: a pod affinity term that is only preferred, with a weight of 1-100."""

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
    """core/v1 Affinity: a pod's node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    """core/v1 Toleration. No operator means Equal; an empty key with Exists tolerates everything.

    The struct has all fields of the API, without defaults. A patch that adds a toleration must repeat the existing
    tolerations unchanged, because the API server allows no other change of the list.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """core/v1 TopologySpreadConstraint of a pod, with all its fields."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ContainerPort(Struct, frozen=True):
    """core/v1 ContainerPort. Phalanx uses only the host port. With hostNetwork its default is the container port."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ResourceRequirements(Struct, frozen=True):
    """core/v1 ResourceRequirements: quantities by resource name, as written (not parsed)."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Container(Struct, frozen=True):
    """core/v1 Container or init container. An init container with the `restart_policy` Always is a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class SchedulingGate(Struct, frozen=True):
    """core/v1 PodSchedulingGate: a gate, by its name, that keeps the scheduler from the pod."""

    name: str = ""


class SchedulingGroup(Struct, frozen=True):
    """core/v1 PodSchedulingGroup: the PodGroup of the API group scheduling.k8s.io that the pod belongs to."""

    pod_group_name: str = ""


class PodSpec(Struct, frozen=True):
    """core/v1 PodSpec: the fields that decide where the pod may run."""

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
    """A PodCondition or NodeCondition, with the fields that Phalanx reads."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Struct, frozen=True):
    """core/v1 ContainerStatus, for an in-place resize.

    `allocated_resources`: the requests that the node has granted. `resources`: the requests and limits that the running
    container has.
    """

    name: str = ""
    allocated_resources: dict[str, str | int | float] | None = None
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """core/v1 PodResourceClaimStatus: the claim that was created for one entry of `spec.resourceClaims`.

    `name`: of the entry. `resource_claim_name`: "" if the entry needs no claim.
    """

    name: str = ""
    resource_claim_name: str = ""


class PodStatus(Struct, frozen=True):
    """core/v1 PodStatus. `allocated_resources` and `resources` are for an in-place resize of pod-level resources."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: dict[str, str | int | float] | None = None
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


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
        """Whether the pod has the scheduling gate of this name."""
        gates = self.spec.scheduling_gates
        return bool(gates) and any(each.name == gate for each in gates)


class Taint(Struct, frozen=True):
    """core/v1 Taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    """core/v1 NodeSpec: the fields that decide which pods may run on the node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus: the fields that decide which pods fit on the node."""

    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


class Namespace(Struct, frozen=True):
    """core/v1 Namespace: its metadata only, of which Phalanx uses the labels and annotations."""

    metadata: ObjectMeta = ObjectMeta()


class Node(Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether the node's condition Ready is True. A node without this condition is ready: files often omit it."""
        return all(each.status == "True" for each in self.status.conditions if each.type == "Ready")


class PriorityClass(Struct, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass, with the fields that Phalanx reads."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class DisruptionBudgetSpec(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec: which pods the budget protects, and how many of them may be evicted."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class DisruptionBudgetStatus(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetStatus. `disruptions_allowed`: None if no controller has set it, as in a file."""

    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, str] = {}
    """By pod name: the time at which the API server accepted its eviction and reduced `disruptions_allowed`."""


class PodDisruptionBudget(Struct, frozen=True):
    """policy/v1 PodDisruptionBudget, with the fields that Phalanx reads."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class QuotaScope(Struct, frozen=True):
    """core/v1 ScopedResourceSelectorRequirement: one condition that a pod must meet for the quota to count it."""

    scope_name: str = ""
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    """core/v1 ScopeSelector: the scopes of a ResourceQuota that have an operator and values."""

    match_expressions: tuple[QuotaScope, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    """core/v1 ResourceQuotaSpec. `hard`: the limits by resource, as written (not parsed)."""

    hard: dict[str, str | int | float] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None

    @property
    def all_scopes(self) -> tuple[QuotaScope, ...]:
        """All scopes, from `scopes` and `scope_selector`. The quota counts a pod that matches every one of them."""
        selected = self.scope_selector.match_expressions if self.scope_selector else ()
        return (*(QuotaScope(scope_name=each) for each in self.scopes), *selected)


class ResourceQuotaStatus(Struct, frozen=True):
    """core/v1 ResourceQuotaStatus. `used`: the used quantities by resource, as written (not parsed)."""

    used: dict[str, str | int | float] = {}


class ResourceQuota(Struct, frozen=True):
    """core/v1 ResourceQuota, with the fields that Phalanx reads."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
