"""Queues with quotas, whichever dialect describes them: what a gang may use, on which nodes, shared with whom."""

from dataclasses import dataclass

from kube.objects import LabelSelector, Taint, Toleration


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node that a queue offers.

    `node_labels`: what its nodes carry. `taints`: what a pod must tolerate to use it. `tolerations`: what pods get that
    use it. `preferred`: the level that a gang prefers there if it names none.
    """

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue has of one resource in one flavor. Quantities as written; None: no limit."""

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

    `namespaces`: whose gangs may use it; None: nobody's. `cohort`: queues of one cohort lend each other what they do
    not use; "" for a queue on its own. `strict`: its gangs go by priority and age alone: while one has no
    place, none after it gets one.
    """

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    namespaces: LabelSelector | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort with quotas of its own, or under another one. `parent`: its name; "" for none."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The queue that a gang is charged to, the flavors that it names, and all that it shares quota with.

    `cohort`: all queues of its cohort, or of the tree of cohorts that it is in, itself among them. `cohorts`: those of
    the tree that have an object; any other has no parent and no quota of its own.

    `used`: names of the flavors that the gang's plan in force uses; empty where that is not known.
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
    """Whether the gang's levels can only be those of its flavors' topologies: a gang without a flavor has none then."""

    def flavor(self, name: str) -> Flavor:
        """The flavor of that name. Raises KeyError."""
        found = {each.name: each for each in self.flavors}
        return found[name]


@dataclass(frozen=True, slots=True)
class Charged:
    """What a queue's name comes to. `waiting_for`: objects on the way that are not there, or that hold it up.

    Neither, where there are no queues at all and the name is a label. `dialect`: whose queue it is, once that is known.
    """

    account: Account | None = None
    waiting_for: tuple[str, ...] = ()
    dialect: str = ""
