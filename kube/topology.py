"""What a topology is, whichever object described it: named levels over node labels, widest first."""

from dataclasses import dataclass, field
from enum import Enum

HOSTNAME_LABEL = "kubernetes.io/hostname"


class Unlabelled(Enum):
    """What becomes of a node that lacks the label of a level."""

    OUTSIDE = "outside"
    """The node does not belong to the topology (the default of our own and of most dialects)."""
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
    """Further names by which users may mean it."""

    def named_by(self, name: str) -> bool:
        """Whether a user who writes `name` means this level: its name, one of its labels or another name of it."""
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
    """Levels from the widest down to the one above the node, then the node level itself, always last.

    `node_level.label_keys` is `(kubernetes.io/hostname,)`; its domain is the node's own name. `kind` is the kind
    of the object that described it ("Topology", "ClusterNetworkTopology", …; with its group where another system has
    the same word, as kubectl writes it: "Topology.kai.scheduler"; "", without a name, for levels found on the nodes).
    """

    name: str
    kind: str
    levels: tuple[Level, ...]
    implicit: bool = field(default=False, kw_only=True)
    """Whether only gangs that name its kind mean it: it comes from a system's settings, not from an object of users."""
    resources: tuple[str, ...] = field(default=(), kw_only=True)
    """What kubectl calls the object's kind, such as `topologies.kueue.x-k8s.io`; with a slash and the name it tells
    topologies of one name apart. The first is the one to be written."""
    hostname_listed: bool = field(default=False, kw_only=True)
    """Whether the object lists the node's label itself: then a node without it is outside, as at every listed level."""
    refused: str = field(default="", kw_only=True)
    """What is wrong with the object, so that there are no levels: gangs that mean it wait until that is put right."""
    pools: tuple[NodePool, ...] = ()
    """The node pools that it describes: nodes of no such pool are outside. Empty: it describes all nodes."""

    @property
    def title(self) -> str:
        """The object, as people write it, or what stands for it."""
        return f"{self.kind} {self.name}" if self.kind else "the levels found on the nodes"

    @property
    def full_name(self) -> str:
        """The name that no topology of another kind has."""
        return f"{self.resources[0]}/{self.name}" if self.resources else self.name

    def called(self, name: str) -> bool:
        """Whether a user who writes `name` may mean this topology: its name alone, or with its kind."""
        kind, _, bare = name.rpartition("/")
        return bare == self.name and (not kind or kind.lower() in self.resources)

    @property
    def node_level(self) -> Level:
        """The last level: the node."""
        return self.levels[-1]

    def find(self, name: str) -> int | None:
        """The position (0 = widest) of the level that `name` names, None where there is none."""
        return next((i for i, level in enumerate(self.levels) if level.named_by(name)), None)
