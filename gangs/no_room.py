"""The inputs from which a dialect reports a lack of capacity on waiting members, in the words of its system."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gangs.model import Gang
from kube.objects import Pod


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """The offer of one node in its current state: the number of members like the first that fit, or why none fits.

    `slots`: that number. `reason`: why none fits, if `slots` is 0.
    """

    node: str
    slots: int
    reason: str = ""
    path: tuple[str, ...] = ()
    """The node's domains from the widest level down; empty outside the topology."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A gang that has no feasible plan without evictions.

    `pods`: its members without a node, at least one. `nodes`: the number of nodes in the cluster. `offered`: level,
    path and free slots of each domain of the deciding level, in the order of the tree. `evicting`: whether victims are
    terminating. `node_offers` counts the capacity of every node at each call, which is slow in a large cluster.
    """

    gang: Gang
    pods: Sequence[Pod]
    nodes: int
    offered: Sequence[tuple[str, tuple[str, ...], int]]
    evicting: bool
    node_offers: Callable[[], Sequence[NodeOffer]]


Words = Callable[[NoRoom], Sequence[str] | None]
"""A function that returns one message for each pod, in order; None if the system's documents define no message."""
