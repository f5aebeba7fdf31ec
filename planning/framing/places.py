"""The nodes of a problem while it is built, with their free capacity."""

from dataclasses import dataclass

from cluster.node_state import NodeState
from kube.objects import Node, ObjectMeta
from planning.framing.amounts import Amounts


@dataclass(frozen=True, slots=True)
class Places:
    """The nodes of the problem, by position. `states`: each node with its pods. `paths`: the names of the domains that
    contain each node, the widest level first.

    `free` and `terminating`: the free amounts, and the amounts that terminating pods still occupy. Both are indexed by
    resource, then by node, in base units.
    """

    states: list[NodeState]
    paths: list[tuple[str, ...]]
    free: list[list[int]]
    terminating: list[list[int]]

    def add(self, state: NodeState, path: tuple[str, ...]) -> None:
        """Add a node to the problem, with free capacity 0 for each resource, so that no pending member is placed on it.

        `path`: the names of the domains that contain the node, the widest level first.
        """
        self.states.append(state)
        self.paths.append(path)
        for column in (*self.free, *self.terminating):
            column.append(0)

    def take(self, node: int, amounts: Amounts) -> None:
        """Subtract the amounts from a node's free capacity."""
        for column, amount in zip(self.free, amounts, strict=True):
            column[node] -= amount


def gone(name: str) -> NodeState:
    """Return the state of a node that no longer exists, although a pod still names it."""
    return NodeState(Node(metadata=ObjectMeta(name=name)), allocatable={})
