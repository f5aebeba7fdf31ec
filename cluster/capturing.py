"""Builds a `Snapshot` from nodes and pods, at once or incrementally, change by change."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from cluster.classes import DeviceClass, RuntimeClass
from cluster.departure import departure_of, next_change
from cluster.node_state import Amounts, NodeState, Tenant
from cluster.priorities import priority_of
from cluster.selectors import chooses, wants_node
from cluster.snapshot import Snapshot
from cluster.volumes import Claim, PersistentVolume, PersistentVolumeClaim, StorageClass, claims_of
from kube import keys
from kube.names import natural_key
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from kube.placeholders import as_held
from kube.quantities import amount
from kube.requests import PODS, pod_requests

DEFAULT_MAX_PODS = 110
"""The kubelet's default, for nodes that do not say how many pods they take."""

_MIRROR = "kubernetes.io/config.mirror"

Thing = TypeVar("Thing")

Protected = Callable[[Pod], str]
"""Function that returns why a pod may never be a victim; "" if it may."""


def unprotected(_pod: Pod) -> str:
    """Protect no further pods. DaemonSet and mirror pods are always protected."""
    return ""


class Capture:
    """The incrementally updated state of a cluster. The owner reports each change, and takes a `Snapshot` on demand.

    Only nodes whose tenants changed are rebuilt. A capture must not be used by several threads at once.
    `trusting`: see `tenant_of`. `now`: the initial time; None: every terminating pod counts as gone, at any time.
    """

    def __init__(
        self,
        *,
        gate: str = keys.GATE,
        protected: Protected = unprotected,
        trusting: bool = False,
        now: datetime | None = None,
    ) -> None:
        self._now = now
        self._departing: dict[str, datetime] = {}
        """By `namespace/name` of terminating pods: the time at which `departure` changes."""
        self._gate = gate
        self._trusting = trusting
        self._protected = protected
        self._nodes: dict[str, Node] = {}
        self._allocatable: dict[str, Amounts] = {}
        self._pods: dict[str, Pod] = {}
        self._tenants: dict[str, dict[str, Tenant]] = {}
        self._node_of: dict[str, str] = {}
        self._classes: dict[str, PriorityClass] = {}
        self._states: dict[str, NodeState] = {}
        self._stale: set[str] = set()
        self._reordered = False
        self._last: Snapshot | None = None

    def protect(self, protected: Protected) -> bool:
        """Use another protection from now on. Return whether it differs from the current one."""
        if protected == self._protected:
            return False
        self._protected = protected
        for pod in list(self._pods.values()):
            with contextlib.suppress(ValueError):  # an unreadable pod was reported when it arrived
                self.put_pod(pod)
        return True

    def put_node(self, node: Node) -> None:
        """Add or replace a node. Raises ValueError if its allocatable cannot be parsed."""
        name = node.metadata.name
        allocatable = {each: amount(each, value) for each, value in node.status.allocatable.items()}
        allocatable.setdefault(PODS, DEFAULT_MAX_PODS)
        self._reordered |= name not in self._nodes
        self._nodes[name] = node
        self._allocatable[name] = allocatable
        self._stale.add(name)

    def drop_node(self, name: str) -> None:
        """Remove a node. Its pods stay known, and count again if the node returns."""
        if self._nodes.pop(name, None) is not None:
            self._allocatable.pop(name)
            self._states.pop(name, None)
            self._reordered = True

    def put_pod(self, pod: Pod) -> None:
        """Add or replace a pod. Raises ValueError if its requests cannot be parsed; the pod then holds no capacity."""
        key = pod.key
        self.drop_pod(key)
        self._pods[key] = pod
        tenant = tenant_of(pod, self._classes, gate=self._gate, protected=self._protected, trusting=self._trusting)
        if tenant is not None and self._now is not None and pod.terminating:
            tenant = replace(tenant, departure=departure_of(pod, self._now))
            if (change := next_change(pod, self._now)) is not None:
                self._departing[key] = change
        if tenant is not None:
            self._tenants.setdefault(tenant.node, {})[key] = tenant
            self._node_of[key] = tenant.node
            self._change(tenant.node)

    def drop_pod(self, key: str) -> None:
        """Remove the pod `namespace/name`."""
        self._pods.pop(key, None)
        self._departing.pop(key, None)
        if (node := self._node_of.pop(key, None)) is not None:
            tenants = self._tenants[node]
            del tenants[key]
            if not tenants:  # pods may name nodes that never were
                del self._tenants[node]
            self._change(node)

    def _change(self, node: str) -> None:
        """Mark a node for a rebuild, because its pods have changed. An unknown node is built when it is added."""
        if node in self._nodes:
            self._stale.add(node)

    @property
    def next_departure(self) -> datetime | None:
        """The next time at which a terminating pod counts differently without a change of an object; None for never."""
        return min(self._departing.values(), default=None)

    def advance(self, now: datetime) -> bool:
        """Set the time. Return whether a terminating pod counts differently now."""
        self._now = now
        changed = [key for key, time in self._departing.items() if time <= now]
        for key in changed:
            self.put_pod(self._pods[key])
        return bool(changed)

    def set_priority_classes(self, classes: Iterable[PriorityClass]) -> None:
        """Set all priority classes. Pods whose priority was resolved at admission are not affected."""
        known = {each.metadata.name: each for each in classes}
        if known == self._classes:
            return
        self._classes = known
        for pod in [each for each in self._pods.values() if each.spec.priority is None]:
            self.put_pod(pod)

    def snapshot(
        self,
        *,
        budgets: Iterable[PodDisruptionBudget] = (),
        quotas: Iterable[ResourceQuota] = (),
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        volumes: Mapping[str, Claim] | None = None,
        runtime_classes: Iterable[RuntimeClass] = (),
        device_classes: Iterable[DeviceClass] = (),
        version: str = "",
    ) -> Snapshot:
        """Return the current snapshot. It reuses everything that has not changed since the last snapshot."""
        changed = [self._state(name) for name in self._stale & self._nodes.keys()]
        self._states |= {state.name: state for state in changed}
        self._stale.clear()
        if self._reordered or self._last is None:
            order = sorted(self._nodes, key=natural_key)
            self._last, changed = Snapshot(tuple([self._states[name] for name in order])), []
            self._reordered = False
        self._last = self._last.with_states(
            changed,
            priority_classes=dict(self._classes),
            budgets=tuple(sorted(budgets, key=lambda each: (each.metadata.namespace, each.metadata.name))),
            quotas=_by_namespace(quotas),
            namespaces=namespaces or {},
            volumes=volumes or {},
            runtime_classes={each.metadata.name: each for each in runtime_classes},
            device_classes=_resources_of(device_classes),
            version=version,
        )
        return self._last

    def _state(self, name: str) -> NodeState:
        tenants, node = self._tenants.get(name, {}), self._nodes[name]
        there = (tenants[key] for key in sorted(tenants))
        return NodeState(node, self._allocatable[name], tuple(each for each in there if _may_come(each.pod, node)))


def _resources_of(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """By extended resource, the DeviceClass that provides it. Of several, the scheduler takes the youngest class, then
    the first by name (KEP 5004).
    """
    ordered = sorted(classes, key=lambda each: each.metadata.name, reverse=True)
    ordered.sort(key=lambda each: each.metadata.creation_timestamp or "")
    return {name: each.metadata.name for each in ordered if (name := each.spec.extended_resource_name)}


def _by_namespace(quotas: Iterable[ResourceQuota]) -> dict[str, tuple[ResourceQuota, ...]]:
    found: defaultdict[str, list[ResourceQuota]] = defaultdict(list)
    for each in sorted(quotas, key=lambda each: (each.metadata.namespace, each.metadata.name)):
        found[each.metadata.namespace].append(each)
    return {namespace: tuple(there) for namespace, there in found.items()}


def snapshot_of(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    *,
    priority_classes: Iterable[PriorityClass] = (),
    budgets: Iterable[PodDisruptionBudget] = (),
    quotas: Iterable[ResourceQuota] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    claims: Iterable[PersistentVolumeClaim] = (),
    volumes: Iterable[PersistentVolume] = (),
    storage_classes: Iterable[StorageClass] = (),
    runtime_classes: Iterable[RuntimeClass] = (),
    device_classes: Iterable[DeviceClass] = (),
    protected: Protected = unprotected,
    gate: str = keys.GATE,
    trusting: bool = False,
    now: datetime | None = None,
) -> Snapshot:
    """Return a snapshot of these objects. Raises ValueError for a quantity that cannot be parsed, naming object and
    text. `trusting`, `now`: see `Capture`.
    """
    capture = Capture(gate=gate, protected=protected, trusting=trusting, now=now)
    capture.set_priority_classes(priority_classes)
    for node in nodes:
        _named(f"Node {node.metadata.name}", capture.put_node, node)
    for pod in pods:
        _named(f"Pod {pod.key}", capture.put_pod, pod)
    known = claims_of(claims, volumes, storage_classes)
    return capture.snapshot(
        budgets=budgets,
        quotas=quotas,
        namespaces=namespaces,
        volumes=known,
        runtime_classes=runtime_classes,
        device_classes=device_classes,
    )


def _named(what: str, put: Callable[[Thing], None], thing: Thing) -> None:
    try:
        put(thing)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def tenant_of(
    pod: Pod,
    classes: Mapping[str, PriorityClass],
    *,
    gate: str = keys.GATE,
    protected: Protected = unprotected,
    trusting: bool = False,
) -> Tenant | None:
    """Return the capacity that the pod holds on a node; None if it holds none.

    A bound pod that has not finished holds its requests, also while it terminates. A released pod that is not bound yet
    holds them on its planned node, even if the stock scheduler has cleared its nomination. A
    nominated pod, gated or waiting for the stock scheduler, holds them as a reservation. A placeholder holds a
    reservation for its expected pod.

    `trusting`: the annotation that names the planned node is enough proof of a release, as in files. In a cluster, any
    user can write the annotation, so a pod without a nomination must have the other marks of a release, too. Raises
    ValueError if the requests cannot be parsed.
    """
    if pod.finished:
        return None
    pod = as_held(pod)
    released = keys.PLANNED_NODE in pod.metadata.annotations and not pod.gated_by(gate)
    node = pod.spec.node_name
    if not node and not pod.terminating:
        cleared = released and (trusting or _shows_release(pod))
        node = pod.status.nominated_node_name or (pod.metadata.annotations[keys.PLANNED_NODE] if cleared else "")
    if not node:
        return None
    return Tenant(
        pod=pod,
        node=node,
        requests=_shared(tuple(pod_requests(pod).items())),
        priority=priority_of(pod, classes),
        reserved=not pod.bound and not released,
        protected=_protection(pod) or protected(pod),
    )


def _shows_release(pod: Pod) -> bool:
    """Whether the pod has the annotation and the pin of a release. The pin cannot be added to a pod without a gate."""
    return keys.RELEASED in pod.metadata.annotations and chooses(pod)


def _may_come(pod: Pod, node: Node) -> bool:
    """Whether the pod is bound or nominated to its node, or its node selector and affinity allow the node.

    An annotation alone holds no capacity on a node that the pod itself excludes.
    """
    return bool(pod.spec.node_name or pod.status.nominated_node_name) or wants_node(pod, node)


def _protection(pod: Pod) -> str:
    """Return why the cluster itself would recreate the pod on the same node; "" if it would not."""
    if _MIRROR in pod.metadata.annotations:
        return "mirror pod"
    for owner in pod.metadata.owner_references:
        if owner.kind == "Node":
            return "mirror pod"
        if owner.kind == "DaemonSet" and owner.controller:
            return "DaemonSet pod"
    return ""


@lru_cache(maxsize=4096)
def _shared(items: tuple[tuple[str, int], ...]) -> Amounts:
    """Return one shared mapping for all pods with equal requests."""
    return dict(items)
