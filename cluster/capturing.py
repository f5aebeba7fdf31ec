"""From nodes and pods to a `Snapshot`, at once or kept up to date change by change."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from cluster.departure import departure_of, next_change
from cluster.node_state import Amounts, NodeState, Tenant
from cluster.priorities import priority_of
from cluster.selectors import chooses, wants_node
from cluster.snapshot import Snapshot
from cluster.volumes import Claim, PersistentVolume, PersistentVolumeClaim, StorageClass, claims_of
from kube import keys
from kube.classes import DeviceClass, RuntimeClass
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
"""Says why a pod may never be a victim, "" where it may."""


def unprotected(_pod: Pod) -> str:
    """Nobody is protected beyond DaemonSet and mirror pods."""
    return ""


class Capture:
    """A picture that is kept up to date: feed it what changed, take a `Snapshot` whenever one is needed.

    Only nodes whose tenants changed are put together anew. Not safe for use from several threads at once.
    `trusting`: as in `tenant_of`. `now`: when it begins; None: every terminating pod counts as gone, at any time.
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
        """By `namespace/name` of terminating pods: when they count otherwise."""
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
        """Protect other pods from now on; whether that is a change."""
        if protected == self._protected:
            return False
        self._protected = protected
        for pod in list(self._pods.values()):
            with contextlib.suppress(ValueError):  # one that cannot be read was told of when it came
                self.put_pod(pod)
        return True

    def put_node(self, node: Node) -> None:
        """A node is new or changed. Raises ValueError where its allocatable cannot be read."""
        name = node.metadata.name
        allocatable = {each: amount(each, value) for each, value in node.status.allocatable.items()}
        allocatable.setdefault(PODS, DEFAULT_MAX_PODS)
        self._reordered |= name not in self._nodes
        self._nodes[name] = node
        self._allocatable[name] = allocatable
        self._stale.add(name)

    def drop_node(self, name: str) -> None:
        """A node is gone. Pods that are still bound to it come back with it."""
        if self._nodes.pop(name, None) is not None:
            self._allocatable.pop(name)
            self._states.pop(name, None)
            self._reordered = True

    def put_pod(self, pod: Pod) -> None:
        """A pod is new or changed. Raises ValueError where its requests cannot be read; it holds nothing then."""
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
        """The pod `namespace/name` is gone."""
        self._pods.pop(key, None)
        self._departing.pop(key, None)
        if (node := self._node_of.pop(key, None)) is not None:
            tenants = self._tenants[node]
            del tenants[key]
            if not tenants:  # pods may name nodes that never were
                del self._tenants[node]
            self._change(node)

    def _change(self, node: str) -> None:
        """Somebody has come to the node or left it; one that is not there is put together when it comes."""
        if node in self._nodes:
            self._stale.add(node)

    @property
    def next_departure(self) -> datetime | None:
        """When a terminating pod counts otherwise though no object changes; None if none does."""
        return min(self._departing.values(), default=None)

    def advance(self, now: datetime) -> bool:
        """Let time pass. Return whether a terminating pod counts otherwise now."""
        self._now = now
        changed = [key for key, time in self._departing.items() if time <= now]
        for key in changed:
            self.put_pod(self._pods[key])
        return bool(changed)

    def set_priority_classes(self, classes: Iterable[PriorityClass]) -> None:
        """All priority classes there are. Pods whose priority was resolved at admission are not affected."""
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
        """The picture as it is now. What has not changed since the last one is not worked out again."""
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
    """One picture of these objects. Raises ValueError for a quantity that cannot be read, naming object and text.
    `trusting`, `now`: as in `Capture`.
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
    """What the pod holds on a node, None where it holds nothing.

    A bound pod that has not finished holds its room, also while it terminates. So does a pod that has been released
    to its planned node and is not bound yet, even where the stock scheduler has cleared its nomination. A nominated
    pod, gated or waiting for the stock scheduler, holds it as a reservation; a placeholder, for the pod that is to have
    its room. `trusting`: the annotation that names the planned node is proof enough of a release, as in files; in a
    cluster, where everybody can write it, a pod without a nomination has to show the rest of a release, too. Raises
    ValueError where its requests cannot be read.
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
    """Whether the pod has the note of a release and is tied to nodes, as every release leaves it. The tie cannot be
    added to a pod that has no gate.
    """
    return keys.RELEASED in pod.metadata.annotations and chooses(pod)


def _may_come(pod: Pod, node: Node) -> bool:
    """Whether the node is the pod's, by binding or nomination, or else one that it may be bound to: an annotation alone
    holds no node that the pod itself rules out.
    """
    return bool(pod.spec.node_name or pod.status.nominated_node_name) or wants_node(pod, node)


def _protection(pod: Pod) -> str:
    """Why the cluster itself would bring the pod back to the same node, "" where it would not."""
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
    """One mapping for all pods that ask for the same."""
    return dict(items)
