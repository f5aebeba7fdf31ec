"""What a dialect may know to tell a gang's waiting members, in the words of its system, that there is no room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gangs.model import Gang
from kube.objects import Pod


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What one node offers as it is: how many members like the first one fit, or (0 slots) why none does."""

    node: str
    slots: int
    reason: str = ""
    path: tuple[str, ...] = ()
    """The node's domains from the widest level down; empty outside the topology."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A gang for which there is no room without evicting anybody.

    `pods`: its members without a node, at least one. `nodes`: how many the cluster has. `offered`: level, path and free
    slots of each domain of the level that decides, in the order of the tree. `evicting`: victims are on their way out.
    `node_offers` counts the room of every node anew: it takes its time in a large cluster.
    """

    gang: Gang
    pods: Sequence[Pod]
    nodes: int
    offered: Sequence[tuple[str, tuple[str, ...], int]]
    evicting: bool
    node_offers: Callable[[], Sequence[NodeOffer]]


Words = Callable[[NoRoom], Sequence[str] | None]
"""One message for each of the pods, in their order; None where the system's documents have no words for it."""
