"""What there is, at one instant: nodes, their room, and the pods that hold it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from cluster.evictable_pods import EvictablePods, joined
from cluster.node_blocks import NODES, NodeBlock, block_at, blocks_of
from cluster.node_state import NodeState, Tenant
from cluster.resource_quota_charges import HeldPods
from cluster.room_columns import RoomColumn, RoomColumns
from cluster.volumes import Claim
from kube.classes import RuntimeClass
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota

_LABEL_KEYS = 16
"""Whose values are kept: those of a topology's levels, and some."""


@dataclass(frozen=True)
class Snapshot:
    """One immutable picture of the cluster, ordered by the nodes' natural names.

    What follows from it and many gangs ask for is worked out once.
    """

    nodes: tuple[NodeState, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: tuple[PodDisruptionBudget, ...] = ()
    quotas: Mapping[str, tuple[ResourceQuota, ...]] = field(default_factory=dict)
    """ResourceQuotas by namespace."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Mapping[str, Claim] = field(default_factory=dict)
    """PersistentVolumeClaims by `namespace/name` with what ties them to nodes, where known."""
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    device_classes: Mapping[str, str] = field(default_factory=dict)
    """By extended resource, the name of the DeviceClass that provides it (spec.extendedResourceName)."""
    evicted: tuple[Tenant, ...] = ()
    """Pods that plans made on this picture evict (`planning.after_plan`): on none of the nodes any more."""
    evicted_for: Mapping[str, str] = field(default_factory=dict)
    """By pod (`namespace/name`), the gang (likewise) for which a plan made on this picture evicts it."""
    leaving: frozenset[str] = frozenset()
    """Pods, by `namespace/name`, that plans in force evict: they still have their nodes."""
    version: str = ""
    """Counts the changes of a cluster that is watched; "" for one described by files, of which less is known."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(self.positions)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """By the name of a node, its position."""
        return {state.name: position for position, state in enumerate(self.nodes)}

    def state(self, name: str) -> NodeState | None:
        """The node of that name, None where there is none."""
        position = self.positions.get(name)
        return None if position is None else self.nodes[position]

    @cached_property
    def allocatable_resources(self) -> frozenset[str]:
        """The resources that at least one node's `status.allocatable` has."""
        return frozenset(name for state in self.nodes for name, value in state.allocatable.items() if value)

    @cached_property
    def blocks(self) -> tuple[NodeBlock, ...]:
        """The nodes, those together that stand together."""
        return blocks_of(self.nodes)

    @cached_property
    def keeping_off(self) -> tuple[NodeState, ...]:
        """The nodes with pods that have an anti-affinity."""
        return tuple(chain.from_iterable([block.keeping_off for block in self.blocks]))

    @cached_property
    def expecting(self) -> tuple[NodeState, ...]:
        """The nodes where pods have their place that are yet to be bound."""
        return tuple(chain.from_iterable([block.expecting for block in self.blocks]))

    @cached_property
    def node_objects(self) -> tuple[Node, ...]:
        """The nodes themselves, without who is there."""
        return tuple([state.node for state in self.nodes])

    @cached_property
    def label_values(self) -> "_LabelValues":
        """By label key, what each node has there; None for a node without it."""
        return _LabelValues(self.node_objects)

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The `namespace/name`s of the pods that are neither on their way out nor only have room reserved."""
        return tuple(chain.from_iterable([block.running_keys for block in self.blocks]))

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority among the pods that may be evicted; None where none may."""
        return min((each for block in self.blocks if (each := block.lowest_evictable) is not None), default=None)

    @cached_property
    def evictable(self) -> EvictablePods:
        """All pods that may be evicted for one of higher priority, in the order of the nodes."""
        return joined([block.evictable for block in self.blocks], range(0, len(self.nodes), NODES))

    def holding_any(self, marks: AbstractSet[str]) -> Iterator[NodeState]:
        """The nodes with any of these pods, named by `namespace/name` or uid (`NodeState.marks`)."""
        for block in self.blocks if marks else ():
            if not block.marks.isdisjoint(marks):
                yield from (state for state in block.states if not state.marks.isdisjoint(marks))

    def tenants_in(self, namespace: str) -> Iterator[tuple[int, Sequence[Tenant]]]:
        """The pods of a namespace on each node that has any, by the node's position."""
        for first, block in zip(range(0, len(self.nodes), NODES), self.blocks, strict=True):
            for place in block.with_pods_of.get(namespace, ()):
                yield first + place, block.states[place].by_namespace[namespace]

    def room(self, resources: Sequence[str], *, priority: int, ignoring: Collection[str]) -> list[RoomColumn]:
        """By resource, what a pod of that priority finds on each node (`cluster.node_state.room`)."""
        return self._room_columns.room(resources, self.blocks, priority=priority, ignoring=ignoring)

    @cached_property
    def _room_columns(self) -> RoomColumns:
        return RoomColumns(self.nodes)

    def with_states(self, changed: Iterable[NodeState], **others: Any) -> "Snapshot":
        """The same nodes, with others on some of them. `others`: other fields that have changed. What holds for both
        pictures is not worked out again.
        """
        states, places = list(self.nodes), set[int]()
        alike = True
        for state in changed:
            place = self.positions[state.name]
            alike = alike and states[place].node is state.node
            states[place] = state
            places.add(place)
        blocks = list(self.blocks)
        for number in {place // NODES for place in places}:
            blocks[number] = block_at(states, number)
        found = replace(self, nodes=tuple(states), **others)
        # This is where a cached property keeps what it has found.
        columns = self._room_columns.after(found.nodes, places)
        found.__dict__.update(positions=self.positions, names=self.names, blocks=tuple(blocks), _room_columns=columns)
        if alike:
            found.__dict__.update(node_objects=self.node_objects, label_values=self.label_values)
        return found

    @cached_property
    def running_by_namespace(self) -> Mapping[str, tuple[list[Tenant], list[Tenant]]]:
        """Of each namespace the pods that ran when the picture was taken, and of these those on their way out."""
        found: defaultdict[str, tuple[list[Tenant], list[Tenant]]] = defaultdict(lambda: ([], []))
        for state in self.nodes:
            for tenant in state.tenants:
                if not tenant.reserved:
                    found[tenant.pod.metadata.namespace][0].append(tenant)
            for tenant in state.departing:
                if not tenant.reserved:
                    found[tenant.pod.metadata.namespace][1].append(tenant)
        for tenant in self.evicted:
            for these in found[tenant.pod.metadata.namespace][: 1 + tenant.pod.terminating]:
                these.append(tenant)
        return found

    @cached_property
    def held_by_namespace(self) -> Mapping[str, HeldPods]:
        """The pods for which room is held before they exist, of each namespace that has any."""
        held: defaultdict[str, defaultdict[str, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for pod in (tenant.pod for state in self.nodes for tenant in state.held_for_later):
            held[pod.metadata.namespace][pod.key].append(pod)
        return {namespace: HeldPods(pods, self.quotas.get(namespace, ())) for namespace, pods in held.items()}


class _LabelValues(dict[str, tuple[str | None, ...]]):
    """Filled as it is asked. Pods name keys as they like: only so many are kept."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__()
        self._nodes = nodes

    def __missing__(self, key: str) -> tuple[str | None, ...]:
        if len(self) >= _LABEL_KEYS:
            self.clear()
        found = self[key] = tuple([node.metadata.labels.get(key) for node in self._nodes])
        return found
