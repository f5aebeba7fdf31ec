"""Topologies in one form for all systems: a list of levels (block, rack, node), each defined by a node label."""

from dataclasses import dataclass, field
from enum import Enum

HOSTNAME_LABEL = "kubernetes.io/hostname"


class Unlabelled(Enum):
    """The treatment of a node that lacks the label of a level."""

    OUTSIDE = "outside"
    """The node does not belong to the topology. This is so in Phalanx's own dialect and in most others."""
    OWN_DOMAIN = "own-domain"
    """The node is a domain of its own, with the node's name (Koordinator, for the lowest level above the node)."""
    DEFAULT_DOMAIN = "default-domain"
    """All such nodes share one domain, `DEFAULT_DOMAIN_NAME` (ACK Lingjun)."""


DEFAULT_DOMAIN_NAME = "DefaultTopologyName"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a topology, such as the rack. The value of a node label names the node's domain of this level.

    `label_keys`: the keys of this label. If there are several, the first one that the node has is used.
    """

    name: str
    label_keys: tuple[str, ...]
    unlabelled: Unlabelled = Unlabelled.OUTSIDE
    aliases: tuple[str, ...] = ()
    """Further names that users may write for the level."""

    def named_by(self, name: str) -> bool:
        """Return whether `name` denotes this level: by its name, one of its labels, or one of its aliases."""
        return name == self.name or name in self.label_keys or name in self.aliases


@dataclass(frozen=True, slots=True)
class DeviceLevel:
    """A level below the node, such as the NVLink domain: devices of one node with equal values of an attribute.

    `attributes`: the names of this attribute, each with its domain (`gpu.nvidia.com/nvlinkDomain`). If there are
    several, the first one that the devices publish is used.
    """

    name: str
    attributes: tuple[str, ...]
    only_required: bool = False
    """Whether the level counts only for gangs that require it, and is not a goal of other gangs."""

    def named_by(self, name: str) -> bool:
        """Return whether `name` denotes this level: by its name or one of its attributes."""
        return name == self.name or name in self.attributes


@dataclass(frozen=True, slots=True, order=True)
class NodePool:
    """A node pool: all nodes whose label `label` has the value `value`."""

    label: str
    value: str

    def __str__(self) -> str:
        """`label=value`, as in a label selector."""
        return f"{self.label}={self.value}"


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology: its levels, the widest first and the node level always last.

    The label of the node level is `kubernetes.io/hostname`, and each node is one domain of it. `kind` is the kind of
    the object that describes the topology ("Topology", "ClusterNetworkTopology", …). If several systems have a kind of
    this name, `kind` includes the group, as in kubectl: "Topology.kai.scheduler". If no object describes the topology,
    because its levels come from labels found on the nodes, `kind` and `name` are "".
    """

    name: str
    kind: str
    levels: tuple[Level, ...]
    implicit: bool = field(default=False, kw_only=True)
    """Whether the topology comes from a system's settings, not from a user's object.

    It is then used only by gangs that name its kind, and is never a default.
    """
    resources: tuple[str, ...] = field(default=(), kw_only=True)
    """The resource names of the object's kind in kubectl, such as `topologies.kueue.x-k8s.io`.

    Users write `<resource name>/<name>` if topologies of several kinds have the same name. Messages use the first one.
    """
    hostname_listed: bool = field(default=False, kw_only=True)
    """Whether the object itself lists the label `kubernetes.io/hostname` as a level.

    A node without this label is then outside the topology, as a node without the label of any other level is.
    """
    refused: str = field(default="", kw_only=True)
    """The fault in the object because of which the topology has no levels; "" if there is none.

    Gangs that name the topology wait until a user corrects the object.
    """
    pools: tuple[NodePool, ...] = ()
    """The node pools to which the topology is restricted. A node in none of them is outside. Empty: no restriction."""
    below: tuple[DeviceLevel, ...] = field(default=(), kw_only=True)
    """The levels below the node, the widest first. They count for members whose devices come from ResourceClaims."""

    @property
    def title(self) -> str:
        """The title of the topology in messages: the kind and name of its object; without an object, "the levels found
        on the nodes".
        """
        return f"{self.kind} {self.name}" if self.kind else "the levels found on the nodes"

    @property
    def full_name(self) -> str:
        """`<resource name>/<name>`, such as `topologies.kueue.x-k8s.io/gpu`, which is unique among all kinds. Only the
        name if the topology has no `resources`, the resource names of its kind.
        """
        return f"{self.resources[0]}/{self.name}" if self.resources else self.name

    def called(self, name: str) -> bool:
        """Return whether `name` denotes this topology: as its name alone, or as `<resource name>/<name>`."""
        kind, _, bare = name.rpartition("/")
        return bare == self.name and (not kind or kind.lower() in self.resources)

    @property
    def node_level(self) -> Level:
        """The level of single nodes, which is always the last one."""
        return self.levels[-1]

    def find(self, name: str) -> int | None:
        """Return the index in `levels` (0 is the widest) of the level that `name` denotes; None if there is none."""
        return next((i for i, level in enumerate(self.levels) if level.named_by(name)), None)

    def find_below(self, name: str) -> DeviceLevel | None:
        """Return the level below the node that `name` denotes; None if there is none, or if a wider level has the
        name.
        """
        if self.find(name) is not None:
            return None
        return next((level for level in self.below if level.named_by(name)), None)

    def depth(self, name: str) -> int | None:
        """Return the position of the level that `name` denotes, among the levels of nodes and then those below the
        node; None if there is none.
        """
        found = self.find_below(name)
        return self.find(name) if found is None else len(self.levels) + self.below.index(found)
