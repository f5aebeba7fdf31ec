"""What there is, at one instant: nodes, their room, and the pods that hold it.

Amounts are integers per resource name in its base unit: cpu in millicores, memory and ephemeral-storage in bytes,
everything else in pieces; "pods" counts pods.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain, compress
from typing import Any, TypeVar

from cluster.resource_quota_charges import HeldPods
from cluster.volumes import Claim
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from kube.placeholders import holds_for_later

Amounts = Mapping[str, int]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod that holds room on a node: bound or released to it, or only nominated to it (`reserved`).

    `requests` as the stock scheduler counts them (containers, init containers, sidecars, overhead, pod level) and
    one "pods". `protected`: why it may never be a victim ("" = it may): DaemonSet, mirror pod, a dialect's label.
    """

    pod: Pod
    node: str
    requests: Amounts
    priority: int
    reserved: bool = False
    protected: str = ""

    @property
    def terminating(self) -> bool:
        """Whether its room is room to come."""
        return self.pod.terminating


@dataclass(frozen=True, slots=True)
class EvictablePods:
    """Pods that may be evicted for one of higher priority, in columns: who they are (`keys`: as `namespace/name`), the
    position of the `node` in the picture, `priority`, when they `started` (seconds since the epoch, 0: unknown), and
    by position in `asked` and `namespaces` what they ask for and where they are.
    """

    tenants: tuple[Tenant, ...] = ()
    keys: tuple[str, ...] = ()
    node: tuple[int, ...] = ()
    priority: tuple[int, ...] = ()
    started: tuple[int, ...] = ()
    asks: tuple[int, ...] = ()
    within: tuple[int, ...] = ()
    asked: tuple[Amounts, ...] = ()
    namespaces: tuple[str, ...] = ()

    def only(self, chosen: Sequence[bool]) -> "EvictablePods":
        """Those of whom it is so."""
        if all(chosen):
            return self
        return EvictablePods(
            tuple(compress(self.tenants, chosen)),
            tuple(compress(self.keys, chosen)),
            tuple(compress(self.node, chosen)),
            tuple(compress(self.priority, chosen)),
            tuple(compress(self.started, chosen)),
            tuple(compress(self.asks, chosen)),
            tuple(compress(self.within, chosen)),
            self.asked,
            self.namespaces,
        )


@dataclass(frozen=True)
class NodeState:
    """A node with everything on it. `allocatable` holds every resource the node offers, "pods" included.

    What follows from these alone is worked out once, for all pictures: the next one has the same state of a node on
    which nothing has changed.
    """

    node: Node
    allocatable: Amounts
    tenants: tuple[Tenant, ...] = ()

    @cached_property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @cached_property
    def open(self) -> bool:
        """Whether a pod that says nothing about nodes may run there: it is ready, neither cordoned nor tainted."""
        return self.node.ready and not self.node.spec.unschedulable and not self.node.spec.taints

    @cached_property
    def marks(self) -> frozenset[str]:
        """The `namespace/name`s and uids of the pods there."""
        keys = {tenant.pod.key for tenant in self.tenants}
        return frozenset(keys | {tenant.pod.metadata.uid for tenant in self.tenants} - {""})

    @cached_property
    def by_namespace(self) -> Mapping[str, Sequence[Tenant]]:
        """The pods there, by their namespaces."""
        found: dict[str, list[Tenant]] = {}
        for each in self.tenants:
            found.setdefault(each.pod.metadata.namespace, []).append(each)
        return found

    @cached_property
    def expecting(self) -> bool:
        """Whether pods have their place there that are yet to be bound."""
        return any(not tenant.pod.bound for tenant in self.tenants)

    @cached_property
    def reserving(self) -> bool:
        """Whether some room there is only reserved."""
        return any(tenant.reserved for tenant in self.tenants)

    @cached_property
    def held_for_later(self) -> tuple[Tenant, ...]:
        """The room there that is held for pods which do not exist yet."""
        return tuple(tenant for tenant in self.tenants if tenant.reserved and holds_for_later(tenant.pod))

    @cached_property
    def keeping_off(self) -> tuple[Tenant, ...]:
        """The pods there that have an anti-affinity: others may have to keep off."""
        return tuple(tenant for tenant in self.tenants if _keeps_others_off(tenant.pod))

    @cached_property
    def awaited(self) -> tuple[Tenant, ...]:
        """The pods that are yet to be bound there and have to be near others."""
        return tuple(tenant for tenant in self.tenants if not tenant.pod.bound and _wants_others(tenant.pod))

    @cached_property
    def evictable(self) -> tuple[Tenant, ...]:
        """The pods there that may be evicted for one of higher priority."""
        return tuple(
            tenant for tenant in self.tenants if not (tenant.protected or tenant.reserved or tenant.terminating)
        )

    @cached_property
    def evictable_columns(self) -> tuple[tuple[Any, ...], ...]:
        """Their `namespace/name`s, namespaces, requests, priorities and starts, in the same order."""
        pods = [tenant.pod for tenant in self.evictable]
        return (
            tuple([pod.key for pod in pods]),
            tuple([pod.metadata.namespace for pod in pods]),
            tuple([tenant.requests for tenant in self.evictable]),
            tuple([tenant.priority for tenant in self.evictable]),
            tuple([_seconds(pod.status.start_time) for pod in pods]),
        )

    @cached_property
    def departing(self) -> tuple[Tenant, ...]:
        """The pods there that are on their way out."""
        return tuple([tenant for tenant in self.tenants if tenant.terminating])

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The `namespace/name`s of the pods there that are neither on their way out nor only have room reserved."""
        return tuple([each.pod.key for each in self.tenants if not (each.reserved or each.terminating)])

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority among those that may be evicted; None where none may."""
        return min((tenant.priority for tenant in self.evictable), default=None)

    @cached_property
    def room(self) -> tuple[Amounts, Amounts]:
        """What is free beside all who are there, and the part of it that is still terminating."""
        return self.room_beside(self.tenants)

    def room_beside(self, tenants: Iterable[Tenant]) -> tuple[Amounts, Amounts]:
        """What is free beside some of those who are there, and the part of it that is still terminating."""
        free = dict(self.allocatable)
        terminating: dict[str, int] = {}
        for tenant in tenants:
            for resource, value in tenant.requests.items():
                if tenant.terminating:
                    terminating[resource] = terminating.get(resource, 0) + value
                else:
                    free[resource] = free.get(resource, 0) - value
        return free, terminating


def _numbered(things: Sequence[_T]) -> tuple[tuple[int, ...], tuple[_T, ...]]:
    """By thing, its number among all that differ, and those in their order."""
    order = {each: number for number, each in enumerate(dict.fromkeys(things))}
    return tuple([order[each] for each in things]), tuple(order)


def _seconds(time: str | None) -> int:
    """An RFC 3339 time as seconds since the epoch; 0 where it is unknown: such a pod counts as the oldest."""
    return int(datetime.fromisoformat(time).timestamp()) if time else 0


def _keeps_others_off(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None


def _wants_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_affinity is not None


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
    def keeping_off(self) -> tuple[NodeState, ...]:
        """The nodes with pods that have an anti-affinity."""
        return tuple([state for state in self.nodes if state.keeping_off])

    @cached_property
    def expecting(self) -> tuple[NodeState, ...]:
        """The nodes where pods have their place that are yet to be bound."""
        return tuple([state for state in self.nodes if state.expecting])

    @cached_property
    def node_objects(self) -> tuple[Node, ...]:
        """The nodes themselves, without who is there."""
        return tuple([state.node for state in self.nodes])

    def with_states(self, changed: Iterable[NodeState], **others: Any) -> "Snapshot":
        """The same nodes, with others on some of them. `others`: other fields that have changed. What holds for both
        pictures is not worked out again.
        """
        states = list(self.nodes)
        for state in changed:
            states[self.positions[state.name]] = state
        found = replace(self, nodes=tuple(states), **others)
        # This is where a cached property keeps what it has found.
        found.__dict__.update(positions=self.positions, node_objects=self.node_objects)
        return found

    @cached_property
    def evictable(self) -> EvictablePods:
        """All pods that may be evicted for one of higher priority, in the order of the nodes."""
        if not self.nodes:
            return EvictablePods()
        tenants = tuple(chain.from_iterable([state.evictable for state in self.nodes]))
        columns = zip(*[state.evictable_columns for state in self.nodes], strict=True)
        keys, namespaces, requests, priority, started = (tuple(chain.from_iterable(each)) for each in columns)
        known = dict(zip(map(id, requests), requests, strict=True))
        asks, asked = _numbered([*map(id, requests)])
        within, names = _numbered(namespaces)
        return EvictablePods(
            tenants,
            keys,
            tuple(chain.from_iterable([[place] * len(state.evictable) for place, state in enumerate(self.nodes)])),
            priority,
            started,
            asks,
            within,
            tuple([known[each] for each in asked]),
            names,
        )

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
            for these in found[tenant.pod.metadata.namespace][: 1 + tenant.terminating]:
                these.append(tenant)
        return found

    @cached_property
    def held_by_namespace(self) -> Mapping[str, HeldPods]:
        """The pods for which room is held before they exist, of each namespace that has any."""
        held: defaultdict[str, defaultdict[str, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for pod in (tenant.pod for state in self.nodes for tenant in state.held_for_later):
            held[pod.metadata.namespace][pod.key].append(pod)
        return {namespace: HeldPods(pods, self.quotas.get(namespace, ())) for namespace, pods in held.items()}
