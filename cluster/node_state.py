"""A node at one instant: its capacity, and the pods that hold it.

Amounts are integers per resource name in its base unit: cpu in millicores, memory and ephemeral-storage in bytes,
everything else in pieces; "pods" counts pods.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cluster.departure import Departure
from cluster.times import instant
from kube.objects import Node, Pod
from kube.placeholders import holds_for_later

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod that holds capacity on a node: bound or released to it, or only nominated to it (`reserved`).

    `requests` as the stock scheduler counts them (containers, init containers, sidecars, overhead, pod level) and
    one "pods". `protected`: why it may never be a victim ("" = it may): DaemonSet, mirror pod, a dialect's label.
    `departure`: how a terminating pod counts; None: no clock decided it, so the pod counts as gone.
    """

    pod: Pod
    node: str
    requests: Amounts
    priority: int
    reserved: bool = False
    protected: str = ""
    departure: Departure | None = None

    @property
    def terminating(self) -> bool:
        """Whether the pod terminates and counts as gone: its capacity is free soon."""
        return self.pod.terminating and self.departure in (None, Departure.SOON)

    @property
    def overdue(self) -> bool:
        """Whether the pod terminates for too long after its grace period, and counts as running."""
        return self.departure is Departure.OVERDUE


@dataclass(frozen=True)
class NodeState:
    """A node with all its pods. `allocatable` holds every resource that the node offers, "pods" included.

    Derived values are cached for all snapshots: a later snapshot shares the state of a node that has not changed.
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
        """Whether a pod without node rules may run there: the node is ready, and neither cordoned nor tainted."""
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
        """Whether a pod holds capacity there that is not bound yet."""
        return any(not tenant.pod.bound for tenant in self.tenants)

    @cached_property
    def reserving(self) -> bool:
        """Whether the node has reservations."""
        return any(tenant.reserved for tenant in self.tenants)

    @cached_property
    def held_for_later(self) -> tuple[Tenant, ...]:
        """The reservations there for expected pods, which do not exist yet."""
        return tuple(tenant for tenant in self.tenants if tenant.reserved and holds_for_later(tenant.pod))

    @cached_property
    def keeping_off(self) -> tuple[Tenant, ...]:
        """The pods there that have pod anti-affinity, which may exclude other pods."""
        return tuple(tenant for tenant in self.tenants if _keeps_others_off(tenant.pod))

    @cached_property
    def awaited(self) -> tuple[Tenant, ...]:
        """The pods with pod affinity that hold capacity there and are not bound yet."""
        return tuple(tenant for tenant in self.tenants if not tenant.pod.bound and _wants_others(tenant.pod))

    @cached_property
    def evictable(self) -> tuple[Tenant, ...]:
        """The pods there that may be evicted for a pod of higher priority."""
        return tuple(
            tenant for tenant in self.tenants if not (tenant.protected or tenant.reserved or tenant.pod.terminating)
        )

    @cached_property
    def evictable_columns(self) -> tuple[tuple[Any, ...], ...]:
        """The `namespace/name`s, namespaces, requests, priorities and start times (seconds) of `evictable`."""
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
        """The terminating pods there, whether they count as gone or not."""
        return tuple([tenant for tenant in self.tenants if tenant.pod.terminating])

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The `namespace/name`s of the pods there that are neither terminating nor only reservations."""
        return tuple([each.pod.key for each in self.tenants if not (each.reserved or each.pod.terminating)])

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority of the evictable pods; None if there are none."""
        return min((tenant.priority for tenant in self.evictable), default=None)

    @cached_property
    def room(self) -> tuple[Amounts, Amounts]:
        """The capacity that is free beside all pods there, and the part of it that terminating pods still use."""
        return self.room_beside(self.tenants)

    def room_beside(self, tenants: Iterable[Tenant]) -> tuple[Amounts, Amounts]:
        """Return the capacity that is free beside these pods, and the part of it that terminating pods still use."""
        free = dict(self.allocatable)
        terminating: dict[str, int] = {}
        for tenant in tenants:
            for resource, value in tenant.requests.items():
                if tenant.terminating:
                    terminating[resource] = terminating.get(resource, 0) + value
                else:
                    free[resource] = free.get(resource, 0) - value
        return free, terminating


def room(state: NodeState, *, priority: int, ignoring: Collection[str] = frozenset()) -> tuple[Amounts, Amounts]:
    """Return the capacity of a node for a pod of that priority without evictions: (free, terminating), by resource.

    `free` includes the capacity of terminating pods, which `terminating` holds separately, and the reservations of
    pods of lower priority. `ignoring`: uids or `namespace/name`s of pods that do not count at all (the gang's own that
    are being planned). `free` may be negative. Callers must not change the mappings, which are shared.
    """
    if not state.reserving and (not ignoring or state.marks.isdisjoint(ignoring)):
        return state.room
    return state.room_beside(
        tenant
        for tenant in state.tenants
        if not (named_among(tenant.pod, ignoring) or (tenant.reserved and tenant.priority < priority))
    )


def named_among(pod: Pod, names: Container[str]) -> bool:
    """Whether the pod's uid, or else its `namespace/name`, is one of `names`."""
    return (pod.metadata.uid != "" and pod.metadata.uid in names) or pod.key in names


def _seconds(time: str | None) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 for an absent or malformed time: the pod counts as the oldest."""
    start = instant(time)
    return 0 if start is None else int(start.timestamp())


def _keeps_others_off(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None


def _wants_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_affinity is not None
