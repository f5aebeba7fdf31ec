"""Builds a `Snapshot` from nodes and pods: all of them at once (`snapshot_of`), or change by change (`Capture`)."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from cluster.classes import RuntimeClass
from cluster.departure import departure_of, next_change
from cluster.devices.claims import DeviceObjects, Devices, devices_of
from cluster.devices.extended_resources import classes_by_resource
from cluster.node_state import Amounts, NodeState, Tenant
from cluster.priorities import priority_of
from cluster.selectors import chooses, wants_node
from cluster.snapshot import Snapshot
from cluster.volumes import Claim, PersistentVolume, PersistentVolumeClaim, StorageClass, claims_of
from kube import keys
from kube.devices import DeviceClass
from kube.names import natural_key
from kube.objects import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from kube.placeholders import as_held, is_placeholder
from kube.quantities import amount
from kube.requests import PODS, pod_requests

DEFAULT_MAX_PODS = 110
"""The kubelet's default limit of pods, for nodes whose status has no limit."""

_MIRROR = "kubernetes.io/config.mirror"

Item = TypeVar("Item")

Protected = Callable[[Pod], str]
"""Function that returns why a pod may never be a victim; "" if it may."""


def unprotected(_pod: Pod) -> str:
    """Return "": no reason protects the pod from eviction.

    It is the argument `protected` of a cluster in which only DaemonSet and mirror pods may never be victims.
    """
    return ""


class Capture:
    """The nodes and pods of a cluster, updated change by change, from which a `Snapshot` is built on demand.

    Only nodes whose pods have changed are rebuilt. Use an object from one thread at a time.

    :param gate: the scheduling gate of pods that are not released yet.
    :param protected: returns why a pod may never be a victim.
    :param trusting: whether the annotation that names a planned node proves a release, as in files (`tenant_of`).
    :param now: the initial time, which decides how terminating pods count. None: they count as gone at any time.
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
        """By name (`namespace/name`) of a terminating pod: the time at which it begins to count differently."""
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
        self._devices: tuple[DeviceObjects, Devices] | None = None

    def protect(self, protected: Protected) -> bool:
        """Use another function that says which pods may never be victims. Return whether the function differs from the
        one before.
        """
        if protected == self._protected:
            return False
        self._protected = protected
        for pod in list(self._pods.values()):
            with contextlib.suppress(ValueError):  # an unreadable pod was reported when it arrived
                self.put_pod(pod)
        return True

    def put_node(self, node: Node) -> None:
        """Add or replace a node.

        :raises ValueError: its allocatable amounts cannot be parsed. The node is then not changed.
        """
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
        """Add or replace a pod.

        :raises ValueError: its requests cannot be parsed. The pod then takes no capacity.
        """
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
            if not tenants:  # pods may name any number of nodes that do not exist
                del self._tenants[node]
            self._change(node)

    def _change(self, node: str) -> None:
        """Mark a node to be rebuilt for the next snapshot, because its pods have changed."""
        if node in self._nodes:
            self._stale.add(node)

    @property
    def next_departure(self) -> datetime | None:
        """The next time at which a terminating pod begins to count differently (`cluster.departure`); None if never."""
        return min(self._departing.values(), default=None)

    def advance(self, now: datetime) -> bool:
        """Set the present time. Return whether a terminating pod now counts as gone and did not before, or no longer
        counts as gone (`cluster.departure`).
        """
        self._now = now
        changed = [key for key, time in self._departing.items() if time <= now]
        for key in changed:
            self.put_pod(self._pods[key])
        return bool(changed)

    def set_priority_classes(self, classes: Iterable[PriorityClass]) -> None:
        """Replace all priority classes. Only pods without `spec.priority`, such as pods from files, depend on them."""
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
        devices: DeviceObjects | None = None,
        version: str = "",
    ) -> Snapshot:
        """Return a snapshot of the present nodes and pods, with the given objects of other kinds.

        It shares everything that has not changed with the last snapshot. `devices`: None if no devices are planned.
        """
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
            device_classes=classes_by_resource(device_classes),
            devices=None if devices is None else self._read_devices(devices),
            version=version,
        )
        return self._last

    def _read_devices(self, objects: DeviceObjects) -> Devices:
        found = devices_of(objects, self._devices)
        self._devices = objects, found
        return found

    def _state(self, name: str) -> NodeState:
        tenants, node = self._tenants.get(name, {}), self._nodes[name]
        there = (tenants[key] for key in sorted(tenants))
        return NodeState(node, self._allocatable[name], tuple(each for each in there if _may_come(each.pod, node)))


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
    devices: DeviceObjects | None = None,
    protected: Protected = unprotected,
    gate: str = keys.GATE,
    trusting: bool = False,
    now: datetime | None = None,
) -> Snapshot:
    """Return a snapshot of these objects. `Capture` describes the last four parameters, `Capture.snapshot` the others.

    :raises ValueError: a quantity cannot be parsed. The message names the object and the text.
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
        devices=devices,
    )


def _named(what: str, put: Callable[[Item], None], item: Item) -> None:
    try:
        put(item)
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
    """Return the capacity that the pod takes or reserves on a node; None if it takes none.

    A bound pod takes its requests until it has finished, also while it terminates. A released pod that is not bound yet
    takes them on its planned node, even if the stock scheduler has cleared its nomination. A nominated pod that is not
    released reserves them. A placeholder reserves the requests of its expected pod.

    :param trusting: whether the annotation that names the planned node proves a release, as in files. In a cluster any
        user can write the annotation. So a pod without a nomination must also have a release time and a node selector
        or affinity.
    :raises ValueError: the requests cannot be parsed.
    """
    if pod.finished:
        return None
    # A placeholder without a gate is nominated by the same patch as a member, but nothing releases it.
    released = keys.PLANNED_NODE in pod.metadata.annotations and not (pod.gated_by(gate) or is_placeholder(pod))
    pod = as_held(pod)
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
    """Whether the pod has the annotation `phalanx.dev/released`, and a node selector or required node affinity.

    A release writes the annotation and a pin, which is a required node affinity. Any user can write the annotation, but
    a node selector or required affinity cannot be added to a pod without a gate. So the annotation alone proves no
    release.
    """
    return keys.RELEASED in pod.metadata.annotations and chooses(pod)


def _may_come(pod: Pod, node: Node) -> bool:
    """Whether a pod that names this node really takes capacity there: the pod is bound or nominated to the node, or its
    own node rules allow the node.

    So an annotation alone takes no capacity on a node that the pod's node selector or affinity excludes.
    """
    return bool(pod.spec.node_name or pod.status.nominated_node_name) or wants_node(pod, node)


def _protection(pod: Pod) -> str:
    """Return why an eviction of the pod is useless, because it would be recreated on the same node; "" if it is not."""
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
    """Return the requests as a mapping, which all pods with equal requests share to save memory."""
    return dict(items)
