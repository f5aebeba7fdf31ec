"""The snapshot: the nodes at one instant, their free capacity, and the pods that use or reserve capacity."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from cluster.classes import IMPLICIT_RESOURCE, RuntimeClass
from cluster.devices.claims import Devices
from cluster.devices.extended_resources import provided_by_classes
from cluster.evictable_pods import EvictablePods, joined
from cluster.node_blocks import NODES, NodeBlock, block_at, blocks_of
from cluster.node_state import NodeState, Tenant
from cluster.resource_quota_charges import HeldPods
from cluster.room_columns import RoomColumn, RoomColumns
from cluster.volumes import Claim
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from kube.requests import pod_requests

_LABEL_KEYS = 16
"""The most label keys whose values on all nodes are cached: enough for a topology's levels and some more."""


@dataclass(frozen=True)
class Snapshot:
    """One immutable copy of the cluster at one instant, with the nodes in natural order of their names.

    The position of a node in `nodes` identifies it in arrays and columns. Derived values that many gangs need are
    computed once.
    """

    nodes: tuple[NodeState, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: tuple[PodDisruptionBudget, ...] = ()
    quotas: Mapping[str, tuple[ResourceQuota, ...]] = field(default_factory=dict)
    """ResourceQuotas by namespace."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of each namespace, by its name."""
    volumes: Mapping[str, Claim] = field(default_factory=dict)
    """PersistentVolumeClaims by `namespace/name`, with their node constraints if these are known."""
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    device_classes: Mapping[str, str] = field(default_factory=dict)
    """By extended resource, the name of the DeviceClass that provides it (spec.extendedResourceName)."""
    devices: Devices | None = None
    """The devices and the claims for them; None: Phalanx plans no devices, and gangs that need some stay gated."""
    evicted: tuple[Tenant, ...] = ()
    """Victims of plans that this snapshot assumes to be carried out (`planning.after_plan`). Their nodes lack them."""
    evicted_for: Mapping[str, str] = field(default_factory=dict)
    """By name (`namespace/name`) of each victim in `evicted`: the gang for which the victim is evicted."""
    leaving: frozenset[str] = frozenset()
    """The names (`namespace/name`) of the victims of plans in force, which are still on their nodes."""
    version: str = ""
    """The number of changes of a watched cluster, as text; "" for a cluster from files, which may lack objects."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(self.positions)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each node in `nodes`, by its name."""
        return {state.name: position for position, state in enumerate(self.nodes)}

    def state(self, name: str) -> NodeState | None:
        """Return the node of that name; None if there is none."""
        position = self.positions.get(name)
        return None if position is None else self.nodes[position]

    @cached_property
    def allocatable_resources(self) -> frozenset[str]:
        """The resources of which at least one node has an allocatable amount above 0."""
        return frozenset(name for name, value in self.largest_allocatable.items() if value)

    def node_requests(self, pod: Pod) -> dict[str, int]:
        """Return the pod's requests (`pod_requests`) without extended resources that only a DeviceClass provides.

        Such a request takes devices by a claim of the scheduler, and nothing of a node's allocatable resources. Only
        pods of gangs that ignore claims have such requests when they are planned (docs/decisions/0046).
        """
        requests = pod_requests(pod)
        classes = self.device_classes
        if not any(name in classes or name.startswith(IMPLICIT_RESOURCE) for name in requests):
            return requests
        provided = provided_by_classes(pod.spec, self.device_classes, self.allocatable_resources)
        return {name: amount for name, amount in requests.items() if name not in provided}

    @cached_property
    def largest_allocatable(self) -> Mapping[str, int]:
        """By resource: the largest amount that a node has in `status.allocatable`. Resources that no node has are
        missing.
        """
        largest: dict[str, int] = {}
        for block in self.blocks:
            for name, value in block.largest.items():
                largest[name] = max(value, largest.get(name, 0))
        return largest

    @cached_property
    def blocks(self) -> tuple[NodeBlock, ...]:
        """The nodes in blocks of consecutive nodes, which cache derived values (`cluster.node_blocks`)."""
        return blocks_of(self.nodes)

    @cached_property
    def keeping_off(self) -> tuple[NodeState, ...]:
        """The nodes with pods that have pod anti-affinity."""
        return tuple(chain.from_iterable([block.keeping_off for block in self.blocks]))

    @cached_property
    def expecting(self) -> tuple[NodeState, ...]:
        """The nodes on which a pod that is not bound yet takes or reserves capacity."""
        return tuple(chain.from_iterable([block.expecting for block in self.blocks]))

    @cached_property
    def node_objects(self) -> tuple[Node, ...]:
        """The node objects, without their pods."""
        return tuple([state.node for state in self.nodes])

    @cached_property
    def label_values(self) -> "_LabelValues":
        """By label key: a tuple with the label's value on each node, in order; None for a node without the label."""
        return _LabelValues(self.node_objects)

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The names (`namespace/name`) of the pods that are neither terminating nor only reservations."""
        return tuple(chain.from_iterable([block.running_keys for block in self.blocks]))

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority of all evictable pods; None if there are none."""
        return min((each for block in self.blocks if (each := block.lowest_evictable) is not None), default=None)

    @cached_property
    def evictable(self) -> EvictablePods:
        """All pods that may be evicted for a pod of higher priority, in the order of the nodes."""
        return joined([block.evictable for block in self.blocks], range(0, len(self.nodes), NODES))

    def holding_any(self, marks: AbstractSet[str]) -> Iterator[NodeState]:
        """Yield the nodes that have any of these pods, which are given by name (`namespace/name`) or UID."""
        for block in self.blocks if marks else ():
            if not block.marks.isdisjoint(marks):
                yield from (state for state in block.states if not state.marks.isdisjoint(marks))

    def tenants_in(self, namespace: str) -> Iterator[tuple[int, Sequence[Tenant]]]:
        """Yield, for each node with pods of this namespace, the position of the node and these pods."""
        for first, block in zip(range(0, len(self.nodes), NODES), self.blocks, strict=True):
            for place in block.with_pods_of.get(namespace, ()):
                yield first + place, block.states[place].by_namespace[namespace]

    def room(self, resources: Sequence[str], *, priority: int, ignoring: Collection[str]) -> list[RoomColumn]:
        """Return the capacity that each node offers to a pod of this priority, one column for each resource.

        :param priority: the priority of the pod that needs capacity. Reservations of pods of lower priority count as
            free.
        :param ignoring: UIDs or names (`namespace/name`) of pods that do not count, such as members that are planned
            anew.
        """
        return self._room_columns.room(resources, self.blocks, priority=priority, ignoring=ignoring)

    @cached_property
    def _room_columns(self) -> RoomColumns:
        return RoomColumns(self.nodes)

    def with_states(self, changed: Iterable[NodeState], **others: Any) -> "Snapshot":
        """Return a copy of this snapshot in which some nodes have other states. Derived values are reused if valid.

        :param changed: the new states, of nodes of this snapshot.
        :param others: new values of other fields.
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
        """By namespace: the pods that run, and the terminating ones among them, as two lists.

        Pods that are only reservations are left out. Victims in `evicted` are included.
        """
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
        """By namespace: the expected pods for which capacity is reserved, with the quotas. Others have no entry."""
        held: defaultdict[str, defaultdict[str, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for pod in (tenant.pod for state in self.nodes for tenant in state.held_for_later):
            held[pod.metadata.namespace][pod.key].append(pod)
        return {namespace: HeldPods(pods, self.quotas.get(namespace, ())) for namespace, pods in held.items()}


class _LabelValues(dict[str, tuple[str | None, ...]]):
    """By label key: the label's value on each node. Computed at the first access of a key.

    At most `_LABEL_KEYS` keys are cached, because pods may use any key.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__()
        self._nodes = nodes

    def __missing__(self, key: str) -> tuple[str | None, ...]:
        if len(self) >= _LABEL_KEYS:
            self.clear()
        found = self[key] = tuple([node.metadata.labels.get(key) for node in self._nodes])
        return found
