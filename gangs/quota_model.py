"""Queues, quotas, flavors and cohorts in one form for all dialects. The terms are Kueue's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kube.objects import LabelSelector, Taint, Toleration


@dataclass(frozen=True, slots=True)
class Flavor:
    """A set of nodes for which a queue has quota, such as the nodes with one GPU model.

    `node_labels`: the labels of its nodes. `taints`: taints that a pod must tolerate to use the flavor. `tolerations`:
    tolerations that Phalanx adds to pods with this flavor. `topology`: the name of the topology of its nodes.
    `preferred`: the level that a gang with this flavor prefers if it names no level.
    """

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a queue for one resource in one flavor.

    Quantities are Kubernetes quantities in the notation of the queue's object ("4", "500m"). A limit of None is no
    limit.
    """

    resource: str
    nominal: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    """The quotas of a queue in one flavor."""

    flavor: str
    quotas: tuple[Quota, ...]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """The resources of a queue that a gang takes from the same flavor, such as cpu, memory and nvidia.com/gpu.

    `flavors`: the flavors that have quota for these resources, in the order in which they are tried.
    """

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A queue with quotas, as Kueue's ClusterQueue. Each resource and each flavor is in one resource group only.

    `namespaces`: selects the namespaces whose gangs may use the queue; None: no namespace. `cohort`: the name of its
    cohort, in which queues lend each other unused quota; "": no cohort. `strict`: whether a gang without a plan blocks
    all gangs after it, in the order of priority and age.
    """

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    namespaces: LabelSelector | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort that has quotas of its own or a parent. `parent`: the name of the parent cohort; "" for none."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceQuotas:
    """How quotas count devices (Kueue's `resources.deviceClassMappings`). `source`: the object with the mappings.

    `resources`: by DeviceClass, the resource of the quotas as which its devices count. `uncounted`: by DeviceClass, the
    setting that Phalanx does not support. `problem`: what in `source` must be corrected first; "" if nothing.
    """

    source: str
    resources: Mapping[str, str] = field(default_factory=dict)
    uncounted: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """The quotas that a member uses in its queue, if they are not just the requests of its pod.

    `amounts`: by resource, in base units. `problem`: the change that the gang waits for, because its devices cannot be
    counted; "" if they can.
    """

    amounts: Mapping[str, int]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The queue whose quota a gang uses, and everything that is needed to compute the available quota.

    `flavors`: the flavors of the queue. `cohort`: all queues in the tree of cohorts to which the queue belongs, the
    queue included. `cohorts`: the cohorts of the tree that have an object; a cohort without an object has no parent and
    no quota of its own. `used`: the names of the flavors that the gang's plan in force uses; empty if unknown.
    """

    queue: ClusterQueue
    flavors: tuple[Flavor, ...] = ()
    cohort: tuple[ClusterQueue, ...] = ()
    used: tuple[str, ...] = ()
    nearby: bool = True
    """Whether a gang that names no level prefers the narrowest level of its flavor's topology."""
    topology_kind: str | None = None
    """The kind of the topologies that the flavors name."""
    cohorts: tuple[Cohort, ...] = ()
    only_theirs: bool = True
    """Whether the levels that the gang names must belong to a topology of its flavors.

    If true, a gang that names a level cannot use flavors without a topology.
    """
    devices: DeviceQuotas | None = None
    """How the quotas count devices; None: they count no devices of claims."""

    def flavor(self, name: str) -> Flavor:
        """Return the flavor with this name. Raises KeyError if there is none."""
        found = {each.name: each for each in self.flavors}
        return found[name]


@dataclass(frozen=True, slots=True)
class Charged:
    """The result of looking up a queue by its name: the account of a gang in this queue.

    `account`: None if the queue cannot be used. `waiting_for`: objects because of which it cannot, such as a missing
    ClusterQueue or a stopped queue. If both are empty, the cluster has no queues, and the name is only a label.
    `dialect`: the name of the queue's dialect; "" if unknown.
    """

    account: Account | None = None
    waiting_for: tuple[str, ...] = ()
    dialect: str = ""
