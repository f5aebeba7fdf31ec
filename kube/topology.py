"""Topologies, independent of the objects that describe them: named levels over node labels, widest first."""

from dataclasses import dataclass, field
from enum import Enum

HOSTNAME_LABEL = "kubernetes.io/hostname"


class Unlabelled(Enum):
    """The treatment of a node that lacks the label of a level."""

    OUTSIDE = "outside"
    """The node does not belong to the topology (the default of Phalanx's own dialect and of most others)."""
    OWN_DOMAIN = "own-domain"
    """The node is a domain of its own, named after itself (Koordinator, lowest level above the node)."""
    DEFAULT_DOMAIN = "default-domain"
    """All such nodes share one domain, `DEFAULT_DOMAIN_NAME` (ACK Lingjun)."""


DEFAULT_DOMAIN_NAME = "DefaultTopologyName"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a topology: its name and the node labels that name a node's domain, the first set one wins."""

    name: str
    label_keys: tuple[str, ...]
    unlabelled: Unlabelled = Unlabelled.OUTSIDE
    aliases: tuple[str, ...] = ()
    """Further names that users may write for the level."""

    def named_by(self, name: str) -> bool:
        """Return whether `name` denotes this level: by its name, one of its labels, or one of its aliases."""
        return name == self.name or name in self.label_keys or name in self.aliases


@dataclass(frozen=True, slots=True, order=True)
class NodePool:
    """The nodes that carry a label with a value."""

    label: str
    value: str

    def __str__(self) -> str:
        """`label=value`, as in a label selector."""
        return f"{self.label}={self.value}"


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology: its levels from the widest down, with the node level always last.

    `node_level.label_keys` is `(kubernetes.io/hostname,)`, and its domain is the node's own name. `kind` is the kind of
    the object that describes the topology ("Topology", "ClusterNetworkTopology", …). If another system has a kind of
    the same name, it includes the group, as in kubectl: "Topology.kai.scheduler". For levels found on the nodes, `kind`
    and `name` are "".
    """

    name: str
    kind: str
    levels: tuple[Level, ...]
    implicit: bool = field(default=False, kw_only=True)
    """Whether only gangs that name its kind use it: it comes from a system's settings, not from a user's object."""
    resources: tuple[str, ...] = field(default=(), kw_only=True)
    """The resource names of the object's kind in kubectl, such as `topologies.kueue.x-k8s.io`. With a slash and the
    topology's name, a resource name distinguishes topologies of equal names. The first one is used in output."""
    hostname_listed: bool = field(default=False, kw_only=True)
    """Whether the object lists the node's label itself: then a node without it is outside, as at every listed level."""
    refused: str = field(default="", kw_only=True)
    """The fault because of which the object has no levels; "" for none. Its gangs wait until the fault is corrected."""
    pools: tuple[NodePool, ...] = ()
    """The node pools of the topology. Nodes of no such pool are outside. Empty: the topology has all nodes."""

    @property
    def title(self) -> str:
        """The kind and name of the object, or a description if there is no object, for messages."""
        return f"{self.kind} {self.name}" if self.kind else "the levels found on the nodes"

    @property
    def full_name(self) -> str:
        """The topology's name with its resource name, which is unique among kinds."""
        return f"{self.resources[0]}/{self.name}" if self.resources else self.name

    def called(self, name: str) -> bool:
        """Return whether `name` may denote this topology: by its name alone, or with its resource name."""
        kind, _, bare = name.rpartition("/")
        return bare == self.name and (not kind or kind.lower() in self.resources)

    @property
    def node_level(self) -> Level:
        """The last level: the node."""
        return self.levels[-1]

    def find(self, name: str) -> int | None:
        """Return the position (0 = widest) of the level that `name` denotes; None if there is none."""
        return next((i for i, level in enumerate(self.levels) if level.named_by(name)), None)
