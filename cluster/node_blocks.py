"""Blocks of consecutive nodes of a snapshot, which cache values that are derived from the nodes.

A snapshot has thousands of nodes, and the next snapshot changes a few of them. Both share the blocks without changed
nodes. A value over all nodes is combined from the blocks, so its cost depends on the changed nodes and not on the size
of the cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from cluster.evictable_pods import EvictablePods, evictable_on
from cluster.node_state import NodeState

NODES = 16
"""The number of nodes in each block but the last. A node stays in its block while no node is added or removed."""


@dataclass(frozen=True, eq=False)
class NodeBlock:
    """Consecutive nodes, in the order of the snapshot, with values derived from them."""

    states: tuple[NodeState, ...]

    @cached_property
    def evictable(self) -> EvictablePods:
        """The block's pods that may be evicted for a pod of higher priority. Nodes are numbered within the block."""
        return evictable_on(self.states)

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority of the block's evictable pods; None if there are none."""
        found = (state.lowest_evictable for state in self.states)
        return min((each for each in found if each is not None), default=None)

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The names (`namespace/name`) of the block's pods that are neither terminating nor only reservations."""
        return tuple(chain.from_iterable([state.running_keys for state in self.states]))

    @cached_property
    def marks(self) -> frozenset[str]:
        """The names (`namespace/name`) and UIDs of the block's pods, to check quickly whether given pods are there."""
        return frozenset().union(*[state.marks for state in self.states])

    @cached_property
    def with_pods_of(self) -> Mapping[str, Sequence[int]]:
        """By namespace: the positions, within the block, of the nodes that have pods of the namespace."""
        found: dict[str, list[int]] = {}
        for place, state in enumerate(self.states):
            for namespace in state.by_namespace:
                found.setdefault(namespace, []).append(place)
        return found

    @cached_property
    def reserving(self) -> bool:
        """Whether capacity of any node of the block is reserved."""
        return any(state.reserving for state in self.states)

    @cached_property
    def expecting(self) -> tuple[NodeState, ...]:
        """The block's nodes on which a pod that is not bound yet takes or reserves capacity."""
        return tuple([state for state in self.states if state.expecting])

    @cached_property
    def keeping_off(self) -> tuple[NodeState, ...]:
        """The block's nodes with pods that have pod anti-affinity."""
        return tuple([state for state in self.states if state.keeping_off])


def blocks_of(states: Sequence[NodeState]) -> tuple[NodeBlock, ...]:
    """Divide the nodes into blocks of `NODES` consecutive nodes. The last block may be smaller."""
    return tuple([block_at(states, number) for number in range(-(-len(states) // NODES))])


def block_at(states: Sequence[NodeState], number: int) -> NodeBlock:
    """Return block number `number`, counted from 0."""
    return NodeBlock(tuple(states[number * NODES : (number + 1) * NODES]))
