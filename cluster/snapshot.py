"""What there is, at one instant: nodes, their room, and the pods that hold it.

Amounts are integers per resource name in its base unit: cpu in millicores, memory and ephemeral-storage in bytes,
everything else in pieces; "pods" counts pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.volumes import Claim
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod that holds room on a node: bound or released to it, or only nominated to it (`reserved`).

    `requests` as the stock scheduler counts them (containers, init containers, sidecars, overhead, pod level) and
    one "pods". `protected`: why it may never be a victim ("" = it may): DaemonSet, mirror pod, a dialect's label.
    """

    pod: Pod
    node: str
    requests: Amounts
    priority: int
    reserved: bool = False
    protected: str = ""

    @property
    def terminating(self) -> bool:
        """Whether its room is room to come."""
        return self.pod.terminating


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node with everything on it. `allocatable` holds every resource the node offers, "pods" included."""

    node: Node
    allocatable: Amounts
    tenants: tuple[Tenant, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One immutable picture of the cluster, ordered by the nodes' natural names."""

    nodes: tuple[NodeState, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: tuple[PodDisruptionBudget, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Mapping[str, Claim] = field(default_factory=dict)
    """PersistentVolumeClaims by `namespace/name` with what ties them to nodes, where known."""
    version: str = ""
    """Counts the changes of a cluster that is watched; "" for one described by files, of which less is known."""
