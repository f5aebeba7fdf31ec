"""The snapshot: nodes, their free capacity and the pods that hold capacity, at one instant."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from cluster.classes import RuntimeClass
from cluster.evictable_pods import EvictablePods, joined
from cluster.node_blocks import NODES, NodeBlock, block_at, blocks_of
from cluster.node_state import NodeState, Tenant
from cluster.resource_quota_charges import HeldPods
from cluster.room_columns import RoomColumn, RoomColumns
from cluster.volumes import Claim
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota

_LABEL_KEYS = 16
"""Number of label keys whose values are cached: enough for a topology's levels and some more."""


@dataclass(frozen=True)
class Snapshot:
    """One immutable copy of the cluster, with the nodes in natural order of their names.

    Derived values that many gangs need are computed once.
    """

    nodes: tuple[NodeState, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: tuple[PodDisruptionBudget, ...] = ()
    quotas: Mapping[str, tuple[ResourceQuota, ...]] = field(default_factory=dict)
    """ResourceQuotas by namespace."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Mapping[str, Claim] = field(default_factory=dict)
    """PersistentVolumeClaims by `namespace/name`, with their node constraints if these are known."""
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    device_classes: Mapping[str, str] = field(default_factory=dict)
    """By extended resource, the name of the DeviceClass that provides it (spec.extendedResourceName)."""
    evicted: tuple[Tenant, ...] = ()
    """Victims of plans that were made on this snapshot (`planning.after_plan`). They are removed from their nodes."""
    evicted_for: Mapping[str, str] = field(default_factory=dict)
    """For each victim (`namespace/name`) of a plan made on this snapshot, the gang for which it is evicted."""
    leaving: frozenset[str] = frozenset()
    """Victims of plans in force, by `namespace/name`. They are still on their nodes."""
    version: str = ""
    """Change counter of a watched cluster; "" for a cluster that files describe, which may lack objects."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(self.positions)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """By the name of a node, its position."""
        return {state.name: position for position, state in enumerate(self.nodes)}

    def state(self, name: str) -> NodeState | None:
        """Return the node of that name; None if there is none."""
        position = self.positions.get(name)
        return None if position is None else self.nodes[position]

    @cached_property
    def allocatable_resources(self) -> frozenset[str]:
        """The resources that at least one node's `status.allocatable` has."""
        return frozenset(name for name, value in self.largest_allocatable.items() if value)

    @cached_property
    def largest_allocatable(self) -> Mapping[str, int]:
        """By resource, the largest amount that one node has in `status.allocatable`."""
        found: dict[str, int] = {}
        for block in self.blocks:
            for name, value in block.largest.items():
                found[name] = max(value, found.get(name, 0))
        return found

    @cached_property
    def blocks(self) -> tuple[NodeBlock, ...]:
        """The nodes in blocks of consecutive nodes."""
        return blocks_of(self.nodes)

    @cached_property
    def keeping_off(self) -> tuple[NodeState, ...]:
        """The nodes with pods that have pod anti-affinity."""
        return tuple(chain.from_iterable([block.keeping_off for block in self.blocks]))

    @cached_property
    def expecting(self) -> tuple[NodeState, ...]:
        """The nodes with pods that hold capacity and are not bound yet."""
        return tuple(chain.from_iterable([block.expecting for block in self.blocks]))

    @cached_property
    def node_objects(self) -> tuple[Node, ...]:
        """The node objects, without their pods."""
        return tuple([state.node for state in self.nodes])

    @cached_property
    def label_values(self) -> "_LabelValues":
        """For each label key, the value on each node; None for a node without the label."""
        return _LabelValues(self.node_objects)

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The `namespace/name`s of the pods that are neither terminating nor only reservations."""
        return tuple(chain.from_iterable([block.running_keys for block in self.blocks]))

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority of the evictable pods; None if there are none."""
        return min((each for block in self.blocks if (each := block.lowest_evictable) is not None), default=None)

    @cached_property
    def evictable(self) -> EvictablePods:
        """All pods that may be evicted for a pod of higher priority, in the order of the nodes."""
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
        """Return by resource the capacity of each node for a pod of that priority (`cluster.node_state.room`)."""
        return self._room_columns.room(resources, self.blocks, priority=priority, ignoring=ignoring)

    @cached_property
    def _room_columns(self) -> RoomColumns:
        return RoomColumns(self.nodes)

    def with_states(self, changed: Iterable[NodeState], **others: Any) -> "Snapshot":
        """Return this snapshot with the changed states of some nodes. `others`: new values of other fields.

        Derived values that hold for both snapshots are reused.
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
        # `cached_property` stores its value in `__dict__`; setting it there reuses the values of this snapshot.
        columns = self._room_columns.after(found.nodes, places)
        found.__dict__.update(positions=self.positions, names=self.names, blocks=tuple(blocks), _room_columns=columns)
        if alike:
            found.__dict__.update(node_objects=self.node_objects, label_values=self.label_values)
        return found

    @cached_property
    def running_by_namespace(self) -> Mapping[str, tuple[list[Tenant], list[Tenant]]]:
        """For each namespace, the pods that ran when the snapshot was taken, and those of them that are terminating."""
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
        """For each namespace, its expected pods with reserved capacity, if it has any."""
        held: defaultdict[str, defaultdict[str, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for pod in (tenant.pod for state in self.nodes for tenant in state.held_for_later):
            held[pod.metadata.namespace][pod.key].append(pod)
        return {namespace: HeldPods(pods, self.quotas.get(namespace, ())) for namespace, pods in held.items()}


class _LabelValues(dict[str, tuple[str | None, ...]]):
    """Label values by key, computed on first access. Pods may use any key, so at most `_LABEL_KEYS` are cached."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__()
        self._nodes = nodes

    def __missing__(self, key: str) -> tuple[str | None, ...]:
        if len(self) >= _LABEL_KEYS:
            self.clear()
        found = self[key] = tuple([node.metadata.labels.get(key) for node in self._nodes])
        return found
