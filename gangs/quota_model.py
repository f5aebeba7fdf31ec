"""Queues with quotas, independent of dialects: the quota that a gang may use, its nodes, and the sharing of quota."""

from dataclasses import dataclass

from kube.objects import LabelSelector, Taint, Toleration


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node that a queue offers.

    `node_labels`: labels of its nodes. `taints`: taints that a pod must tolerate to use the flavor. `tolerations`:
    tolerations that pods with this flavor get. `preferred`: the level that a gang prefers there if it names none.
    """

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a queue for one resource in one flavor. Quantities are unparsed text; None: no limit."""

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
    """Resources that are taken from one flavor together; `flavors` in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A queue of the whole cluster. A resource belongs to one group at most, and so does a flavor.

    `namespaces`: the namespaces whose gangs may use it; None: no namespace. `cohort`: queues of one cohort lend each
    other unused quota; "": no cohort. `strict`: the order of its gangs is strictly by priority and age. A gang without
    a plan blocks all gangs after it.
    """

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    namespaces: LabelSelector | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort with quotas of its own, or with a parent. `parent`: the name of the parent cohort; "" for none."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The queue that a gang is charged to, the flavors that it names, and all that it shares quota with.

    `cohort`: all queues of its cohort, or of its tree of cohorts, this queue included. `cohorts`: the cohorts of the
    tree that have an object; a cohort without one has no parent and no quota of its own.

    `used`: names of the flavors that the gang's plan in force uses; empty if unknown.
    """

    queue: ClusterQueue
    flavors: tuple[Flavor, ...] = ()
    cohort: tuple[ClusterQueue, ...] = ()
    used: tuple[str, ...] = ()
    nearby: bool = True
    """Whether a gang that names no level prefers the narrowest of its flavor's topology."""
    topology_kind: str | None = None
    """Kind of the topologies that the flavors name."""
    cohorts: tuple[Cohort, ...] = ()
    only_theirs: bool = True
    """Whether the gang's levels must be levels of its flavors' topologies. A gang without a flavor then has no levels.
    """

    def flavor(self, name: str) -> Flavor:
        """The flavor of that name. Raises KeyError."""
        found = {each.name: each for each in self.flavors}
        return found[name]


@dataclass(frozen=True, slots=True)
class Charged:
    """The account that a queue's name charges a gang to.

    `waiting_for`: objects between name and account that are missing or stopped. If there are no queues at all, the name
    is only a label, and both `account` and `waiting_for` are empty. `dialect`: the queue's dialect; "" while unknown.
    """

    account: Account | None = None
    waiting_for: tuple[str, ...] = ()
    dialect: str = ""
