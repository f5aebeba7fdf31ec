"""A node at one instant: its capacity, and the pods that use or reserve it.

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
from kube.placeholders import PLACEHOLDER, holds_for_later

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod that takes capacity on a node. It is bound or released to the node, or only nominated to it (`reserved`).

    `requests`: by resource, as the stock scheduler counts them (containers, init containers, sidecars, overhead, pod
    level), with 1 for "pods". `protected`: why the pod may never be a victim, such as being of a DaemonSet; "" if it
    may. `departure`: how a terminating pod counts. None for any other pod; a terminating pod with None counts as gone.
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
        """Whether the pod terminates and counts as gone, because its capacity will be free soon."""
        return self.pod.terminating and self.departure in (None, Departure.SOON)

    @property
    def overdue(self) -> bool:
        """Whether the pod still terminates long after the end of its grace period. Such a pod counts as running."""
        return self.departure is Departure.OVERDUE


@dataclass(frozen=True)
class NodeState:
    """A node with all its pods at one instant. `allocatable`: every resource that the node offers, "pods" included.

    Derived values are computed once and stay valid for later snapshots, which share the object of an unchanged node.
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
        """Whether the node is ready and neither cordoned nor tainted, so that a pod without node rules may use it."""
        return self.node.ready and not self.node.spec.unschedulable and not self.node.spec.taints

    @cached_property
    def marks(self) -> frozenset[str]:
        """The names (`namespace/name`) and UIDs of the node's pods, to check quickly whether given pods are there."""
        keys = {tenant.pod.key for tenant in self.tenants}
        return frozenset(keys | {tenant.pod.metadata.uid for tenant in self.tenants} - {""})

    @cached_property
    def by_namespace(self) -> Mapping[str, Sequence[Tenant]]:
        """The node's pods by namespace."""
        found: dict[str, list[Tenant]] = {}
        for each in self.tenants:
            found.setdefault(each.pod.metadata.namespace, []).append(each)
        return found

    @cached_property
    def expecting(self) -> bool:
        """Whether a pod that is not bound yet takes or reserves capacity on the node."""
        return any(not tenant.pod.bound for tenant in self.tenants)

    @cached_property
    def reserving(self) -> bool:
        """Whether capacity of the node is reserved for a pod."""
        return any(tenant.reserved for tenant in self.tenants)

    @cached_property
    def held_for_later(self) -> tuple[Tenant, ...]:
        """The reservations on the node for expected pods, which do not exist yet."""
        return tuple(tenant for tenant in self.tenants if tenant.reserved and holds_for_later(tenant.pod))

    @cached_property
    def placeholders(self) -> tuple[Tenant, ...]:
        """The placeholders that reserve capacity on the node, for expected pods and for gated members."""
        return tuple(tenant for tenant in self.tenants if tenant.reserved and PLACEHOLDER in tenant.pod.metadata.labels)

    @cached_property
    def keeping_off(self) -> tuple[Tenant, ...]:
        """The node's pods that have pod anti-affinity, which may exclude other pods."""
        return tuple(tenant for tenant in self.tenants if _keeps_others_off(tenant.pod))

    @cached_property
    def awaited(self) -> tuple[Tenant, ...]:
        """The pods with pod affinity that take or reserve capacity on the node and are not bound yet."""
        return tuple(tenant for tenant in self.tenants if not tenant.pod.bound and _wants_others(tenant.pod))

    @cached_property
    def evictable(self) -> tuple[Tenant, ...]:
        """The node's pods that may be evicted for a pod of higher priority."""
        return tuple(
            tenant for tenant in self.tenants if not (tenant.protected or tenant.reserved or tenant.pod.terminating)
        )

    @cached_property
    def evictable_columns(self) -> tuple[tuple[Any, ...], ...]:
        """The pods of `evictable` as five parallel tuples.

        They are names (`namespace/name`), namespaces, requests, priorities, and start times in seconds since the epoch.
        """
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
        """The node's terminating pods, including those whose capacity counts as free already."""
        return tuple([tenant for tenant in self.tenants if tenant.pod.terminating])

    @cached_property
    def running_keys(self) -> tuple[str, ...]:
        """The names (`namespace/name`) of the node's pods that are neither terminating nor only reservations."""
        return tuple([each.pod.key for each in self.tenants if not (each.reserved or each.pod.terminating)])

    @cached_property
    def lowest_evictable(self) -> int | None:
        """The lowest priority of the node's evictable pods; None if there are none."""
        return min((tenant.priority for tenant in self.evictable), default=None)

    @cached_property
    def room(self) -> tuple[Amounts, Amounts]:
        """The node's free capacity, and the part of it that terminating pods still use: two mappings by resource."""
        return self.room_beside(self.tenants)

    @cached_property
    def room_without_terminating(self) -> tuple[Amounts, Amounts]:
        """The node's capacity that is free without its terminating pods, and the capacity that these pods still use.

        Unlike in `room`, each terminating pod is in both mappings until it is gone, however long its grace period is.
        People expect this of a figure named "terminating". A plan cannot count on capacity that is free in ten minutes.
        """
        if all(tenant.terminating for tenant in self.departing):
            return self.room
        free, _ = self.room_beside(tenant for tenant in self.tenants if not tenant.pod.terminating)
        terminating: dict[str, int] = {}
        for tenant in self.departing:
            for resource, value in tenant.requests.items():
                terminating[resource] = terminating.get(resource, 0) + value
        return free, terminating

    def room_beside(self, tenants: Iterable[Tenant]) -> tuple[Amounts, Amounts]:
        """Return the capacity that is free if only these pods are on the node, and the part of it that terminating pods
        still use.

        The capacity of pods that count as gone is in both mappings. Amounts may be negative.
        """
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
    """Return the capacity that a node offers without evictions, as two mappings by resource: free and terminating.

    Reservations of pods of lower priority count as free. The capacity of terminating pods counts as free, too; the
    second mapping has this part alone. Free amounts may be negative. Callers must not change the mappings, which are
    shared.

    :param priority: the priority of the pod that needs capacity.
    :param ignoring: UIDs or names (`namespace/name`) of pods that do not count, such as members that are planned anew.
    """
    if not state.reserving and (not ignoring or state.marks.isdisjoint(ignoring)):
        return state.room
    return state.room_beside(
        tenant
        for tenant in state.tenants
        if not (named_among(tenant.pod, ignoring) or (tenant.reserved and tenant.priority < priority))
    )


def named_among(pod: Pod, names: Container[str]) -> bool:
    """Whether the pod's UID or its name (`namespace/name`) is one of `names`."""
    return (pod.metadata.uid != "" and pod.metadata.uid in names) or pod.key in names


def _seconds(time: str | None) -> int:
    """Return an RFC 3339 time in seconds since the epoch; 0 if absent or malformed, so the pod counts as oldest."""
    start = instant(time)
    return 0 if start is None else int(start.timestamp())


def _keeps_others_off(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None


def _wants_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_affinity is not None
