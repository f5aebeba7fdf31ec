"""Nodes that stand together in a picture: what holds for all of them is worked out once, for all pictures in which none
of them has changed.

A picture has thousands of nodes, of which the next one changes a few. What a plan asks about every node is put together
from these, so that it costs what has changed rather than what there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from cluster.evictable_pods import EvictablePods, evictable_on
from cluster.node_state import NodeState

NODES = 16
"""In each block but the last. Each has its place for as long as no node comes or goes."""


@dataclass(frozen=True, eq=False)
class NodeBlock:
    """Nodes in the order of the picture."""

    states: tuple[NodeState, ...]

    @cached_property
    def evictable(self) -> EvictablePods:
        """The pods there that may be evicted for one of higher priority; nodes by their place in the block."""
        return evictable_on(self.states)

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority among those; None where there is nobody."""
        found = (state.lowest_evictable for state in self.states)
        return min((each for each in found if each is not None), default=None)

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The `namespace/name`s of the pods there that are neither on their way out nor only have room reserved."""
        return tuple(chain.from_iterable([state.running_keys for state in self.states]))

    @cached_property
    def marks(self) -> frozenset[str]:
        """The `namespace/name`s and uids of the pods there."""
        return frozenset().union(*[state.marks for state in self.states])

    @cached_property
    def with_pods_of(self) -> Mapping[str, Sequence[int]]:
        """By namespace, where its pods are: places in the block."""
        found: dict[str, list[int]] = {}
        for place, state in enumerate(self.states):
            for namespace in state.by_namespace:
                found.setdefault(namespace, []).append(place)
        return found

    @cached_property
    def reserving(self) -> bool:
        """Whether some room there is only reserved."""
        return any(state.reserving for state in self.states)

    @cached_property
    def expecting(self) -> tuple[NodeState, ...]:
        """The nodes where pods have their place that are yet to be bound."""
        return tuple([state for state in self.states if state.expecting])

    @cached_property
    def keeping_off(self) -> tuple[NodeState, ...]:
        """The nodes with pods that have an anti-affinity."""
        return tuple([state for state in self.states if state.keeping_off])


def blocks_of(states: Sequence[NodeState]) -> tuple[NodeBlock, ...]:
    """The nodes in blocks."""
    return tuple([block_at(states, number) for number in range(-(-len(states) // NODES))])


def block_at(states: Sequence[NodeState], number: int) -> NodeBlock:
    """The block of that number."""
    return NodeBlock(tuple(states[number * NODES : (number + 1) * NODES]))
