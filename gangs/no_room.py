"""The information from which a dialect words the messages on members that wait for capacity.

Users of another system, such as Koordinator, then see the same messages as in that system.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gangs.model import Gang
from kube.objects import Pod


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """How many of a gang's members fit on one node now. `slots`: this number, as if all members had the requests and
    rules of the gang's first member.

    `reason`: why no member fits, if `slots` is 0; "" otherwise.
    """

    node: str
    slots: int
    reason: str = ""
    path: tuple[str, ...] = ()
    """The node's domains from the widest level down; empty outside the topology."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A gang that has no feasible plan without evictions, and the capacity that the nodes have for it.

    `pods`: its members without a node, at least one. `nodes`: the number of nodes in the cluster. `offered`: for each
    domain of the level at which the gang failed, (level, path from the widest domain, how many members fit).
    `evicting`: whether the gang has a plan with evictions. `node_offers`: a function that counts the capacity of every
    node, which is slow in a large cluster.
    """

    gang: Gang
    pods: Sequence[Pod]
    nodes: int
    offered: Sequence[tuple[str, tuple[str, ...], int]]
    evicting: bool
    node_offers: Callable[[], Sequence[NodeOffer]]


Words = Callable[[NoRoom], Sequence[str] | None]
"""A function that returns one message for each of `NoRoom.pods`; None if the system has no message for this case.

The caller then uses Phalanx's own message.
"""
