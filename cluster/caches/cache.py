"""The cluster in memory: watches of every resource that Phalanx reads, and the `Snapshot` that is built from them.

Finished pods (Succeeded, Failed) are kept as long as they exist. They hold no capacity, but without them a gang would
seem to have lost its succeeded members.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any

from cluster.api.transport import Transport
from cluster.api.trimming import trim_manifest, trim_node, trim_pod
from cluster.caches.discovery import Discovery
from cluster.caches.further_kinds import FurtherKinds, GroupKind
from cluster.caches.journal import Journal
from cluster.caches.manifest_sinks import Manifests, ManifestsOfKind
from cluster.caches.reflector import Reflector, Sink
from cluster.caches.reflector_timing import DEFAULT_TIMING, ReflectorTiming
from cluster.caches.sinks import Grouping, Nodes, Pods, Table, WithFirst, ungrouped
from cluster.caches.trouble import Trouble
from cluster.capturing import Capture, Protected, unprotected
from cluster.classes import RuntimeClass
from cluster.devices.claims import DeviceObjects
from cluster.devices.holdings import CLAIMS_PATH, NO_DEVICES, RULES_PATH, DeviceView, without_taking
from cluster.devices.partitions import NO_PARTITIONS, Partitions
from cluster.snapshot import Snapshot
from cluster.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass, claims_of
from kube import keys
from kube.catalog import Catalog, ObjectKey
from kube.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice, paths
from kube.objects import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota, prepare_decoding
from kube.topology import Topology
from timing.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)


Protecting = Callable[[Mapping[ObjectKey, Mapping[str, Any]]], Protected]
"""Function that returns, for the present objects of the cache, a function that says which pods may never be victims."""


class ClusterCache:
    """Watches one cluster and keeps its objects in memory. Safe to use from several threads.

    :param kinds: group objects, topologies and workloads, which are kept as plain dicts. They may not be installed.
    :param gate: the scheduling gate of pods that are not released yet.
    :param protected: returns why a pod may never be a victim; "" if it may.
    :param protecting: returns such a function from the present objects of `kinds`, if it depends on them. Two equal
        functions must protect the same pods.
    :param groups_of: returns the index keys of a pod, so that the pods with a key are found without reading all pods
        (`pods_of`).
    """

    def __init__(
        self,
        transport: Transport,
        kinds: Iterable[GroupKind] = (),
        *,
        gate: str = keys.GATE,
        protected: Protected = unprotected,
        protecting: Protecting | None = None,
        groups_of: Grouping = ungrouped,
        timing: ReflectorTiming = DEFAULT_TIMING,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._version = 0
        self._woken = False
        self._complete = False
        self._captured = 0
        """The version (`version`) in which something that a snapshot shows last changed."""
        self._callbacks: list[Callable[[], None]] = []
        self._changing = {
            captured: _Changing(self._lock, partial(self._change, captured=captured), self._callbacks)
            for captured in (False, True)
        }
        self._snapshot: Snapshot | None = None
        self._protecting = protecting
        self._protected_by: Mapping[ObjectKey, Mapping[str, Any]] | None = None
        """The objects for which `protecting` was last called."""
        capture = Capture(gate=gate, protected=protected, now=clock.wall())
        self._capture = capture
        self._journals: list[Journal] = []
        self._pods = Pods(self, capture, groups_of, self._journals)
        self._nodes = Nodes(self, capture, self._journals)
        self._classes: Table[PriorityClass] = Table(self, self._journals)
        self._budgets: Table[PodDisruptionBudget] = Table(self, self._journals)
        self._quotas: Table[ResourceQuota] = Table(self, self._journals)
        self._namespaces: Table[Namespace] = Table(self, self._journals)
        self._sharing: tuple[tuple[Namespace, ...], Mapping[str, str]] = (), {}
        self._labelled: tuple[tuple[Namespace, ...], Mapping[str, Mapping[str, str]]] = (), {}
        self._claims: Table[PersistentVolumeClaim] = Table(self, self._journals)
        self._volumes: Table[PersistentVolume] = Table(self, self._journals)
        self._storage_classes: Table[StorageClass] = Table(self, self._journals)
        self._runtime_classes: Table[RuntimeClass] = Table(self, self._journals)
        self._device_classes: Table[DeviceClass] = Table(self, self._journals)
        self._resource_claims: Table[ResourceClaim] = Table(self, self._journals)
        self._taint_rules: Table[DeviceTaintRule] = Table(self, self._journals)
        self._slices: Table[ResourceSlice] = Table(self, self._journals)
        self._claim_templates: Table[ResourceClaimTemplate] = Table(self, self._journals)
        self._foreign_rules: tuple[tuple[DeviceTaintRule, ...], tuple[DeviceTaintRule, ...]] = (), ()
        self._devices_seen: tuple[object, ...] = ()
        """The tables and flags from which `_devices` was built."""
        self._devices = NO_DEVICES
        self._partitions = NO_PARTITIONS
        self._manifests = Manifests(self, self._journals)
        self._further: list[FurtherKinds] = []
        self._of_devices = tuple(self._reading_devices(transport, timing))
        self._reflectors = [*self._own(transport, timing), *self._others(transport, kinds, timing)]
        self._by_plural: dict[str, list[Reflector[Any]]] = {}
        """The reflectors by the plural name of their resource; several API groups may have one of the same name."""
        for each in (*self._reflectors, *self._of_devices):
            self._by_plural.setdefault(each.name.rpartition("/")[2], []).append(each)
        self._discovery = Discovery(transport, self._wake_missing, clock=clock)

    def _own(self, transport: Transport, timing: ReflectorTiming) -> Iterator[Reflector[Any]]:
        """Yield the reflectors of the resources from which a snapshot is built."""
        clock = self._clock
        yield Reflector(transport, ["/api/v1/nodes"], Node, self._nodes, trim=trim_node, timing=timing, clock=clock)
        yield Reflector(transport, ["/api/v1/pods"], Pod, self._pods, trim=self._trimmed, timing=timing, clock=clock)
        for path, kind, table in (
            ("/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass, self._classes),
            ("/apis/policy/v1/poddisruptionbudgets", PodDisruptionBudget, self._budgets),
            ("/api/v1/resourcequotas", ResourceQuota, self._quotas),
            ("/api/v1/namespaces", Namespace, self._namespaces),
            ("/api/v1/persistentvolumeclaims", PersistentVolumeClaim, self._claims),
            ("/api/v1/persistentvolumes", PersistentVolume, self._volumes),
            ("/apis/storage.k8s.io/v1/storageclasses", StorageClass, self._storage_classes),
            ("/apis/node.k8s.io/v1/runtimeclasses", RuntimeClass, self._runtime_classes),
        ):
            yield Reflector(transport, [path], kind, table, timing=timing, clock=clock)
        classes = WithFirst(self._device_classes, self._want_devices)
        yield Reflector(
            transport, paths("deviceclasses"), DeviceClass, classes, optional=True, timing=timing, clock=clock
        )

    def _trimmed(self, pod: Pod) -> Pod:
        """Return the pod as it is kept. It shares the parts that have not changed with the version that is kept now."""
        return trim_pod(pod, self._pods.get(pod.metadata.namespace, pod.metadata.name))

    def _reading_devices(self, transport: Transport, timing: ReflectorTiming) -> Iterator[Reflector[Any]]:
        """Yield the reflectors of ResourceClaims, DeviceTaintRules, ResourceSlices and ResourceClaimTemplates.

        They make no request before the first DeviceClass exists. If the API server denies their requests, the cache is
        complete without them, because an installation may lack the right to read them.
        """
        for path, kind, table in (
            (CLAIMS_PATH, ResourceClaim, self._resource_claims),
            (RULES_PATH, DeviceTaintRule, self._taint_rules),
            ("/apis/resource.k8s.io/v1/resourceslices", ResourceSlice, self._slices),
            ("/apis/resource.k8s.io/v1/resourceclaimtemplates", ResourceClaimTemplate, self._claim_templates),
        ):
            sink: Sink[Any] = table
            yield Reflector(
                transport,
                [path],
                kind,
                sink,
                optional=True,
                timing=timing,
                clock=self._clock,
                on_change=self._served_changed,
                wanted=threading.Event(),
            )

    def _served_changed(self) -> None:
        """Have the next snapshot built anew, because the API server may have begun or ceased to let Phalanx read a
        kind.

        This can happen without a change of any object.

        A reflector puts the objects into its table first, and counts as served afterwards.
        """
        with self.changing(captured=True):
            for journal in self._journals:
                journal.other()

    def _want_devices(self) -> None:
        for each in self._of_devices:
            each.want()

    def _others(
        self, transport: Transport, kinds: Iterable[GroupKind], timing: ReflectorTiming
    ) -> Iterator[Reflector[dict[str, Any]]]:
        def sink_of(kind: GroupKind) -> ManifestsOfKind:
            return self._manifests.of(kind.group, kind.kind, kind.keeps, kind.as_read)

        def watching(kind: GroupKind, sink: Sink[dict[str, Any]]) -> Reflector[dict[str, Any]]:
            return self._other(transport, kind, sink, timing, on_change=self._touch, of_kind=kind.kind)

        for kind in kinds:
            sink: Sink[dict[str, Any]] = sink_of(kind)
            if kind.user_defined is not None:
                sink = FurtherKinds(sink, kind.user_defined, sink_of, watching)
                self._further.append(sink)
            yield self._other(transport, kind, sink, timing)

    def _other(
        self,
        transport: Transport,
        kind: GroupKind,
        sink: Sink[dict[str, Any]],
        timing: ReflectorTiming,
        *,
        on_change: Callable[[], None] | None = None,
        of_kind: str = "",
    ) -> Reflector[dict[str, Any]]:
        root = f"/apis/{kind.group}" if kind.group else "/api"
        within = f"namespaces/{kind.only[0]}/" if kind.only else ""
        return Reflector(
            transport,
            [f"{root}/{version}/{within}{kind.plural}" for version in kind.versions],
            dict[str, Any],
            sink,
            trim=trim_manifest,
            field_selector=f"metadata.name={kind.only[1]}" if kind.only else None,
            optional=True,
            timing=timing,
            on_change=on_change,
            of_kind=of_kind,
            clock=self._clock,
        )

    def start(self) -> None:
        """Start all watches, each in a thread of its own.

        Discovery starts first. Otherwise a kind that appears between a reflector's request and the first request of
        discovery would not be noticed.
        """
        prepare_decoding()
        for each in self._own_threads():
            each.start()

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        """The reflectors of all resources but user-defined kinds. A simulation drives them itself, without `start`."""
        return [*self._reflectors, *self._of_devices]

    def _own_threads(self) -> "list[Reflector[Any] | Discovery]":
        return [self._discovery, *self._reflectors, *self._of_devices]

    def _wake_missing(self) -> None:
        for each in (
            *self._reflectors,
            *self._of_devices,
            *(one for further in self._further for one in further.reflectors()),
        ):
            each.wake()

    def stop(self, timeout: float = 1.0) -> None:
        """Stop all watches, and wait up to `timeout` seconds in total for their threads to end."""
        deadline = self._clock.monotonic() + timeout
        ending = [*self._own_threads(), *(each for further in self._further for each in further.stop())]
        for each in self._own_threads():
            each.stop()
        late = [each.name for each in ending if not each.join(max(0.0, deadline - self._clock.monotonic()))]
        if late:
            log.warning("still busy when told to stop: %s", ", ".join(late))

    def synced(self) -> bool:
        """Whether every watched resource has been listed once, so that the cache is complete."""
        return not self.unsynced()

    def unsynced(self) -> tuple[str, ...]:
        """Return the API paths of the resources that have not been listed yet; empty if the cache is complete.

        Once the cache is complete, it counts as complete for ever. So a WorkloadKind that a user creates later cannot
        make the process unready.
        """
        if self._complete:
            return ()
        waiting = [each.name for each in self._reflectors if not each.synced]
        waiting += [each.name for each in self._tried_only() if not each.tried.is_set()]
        self._complete = not waiting
        return tuple(waiting)

    def troubles(self) -> Mapping[tuple[str, str], Trouble | None]:
        """Return, by API group and kind of each user-defined kind, why objects are missing; None if none is missing.

        A kind whose watch has no result yet has no entry.
        """
        return {at: trouble for further in self._further for at, trouble in further.troubles().items()}

    def listed(self, plural: str) -> bool:
        """Whether the objects of a resource have been listed once. `plural`: its name, such as "pods"."""
        return all(each.synced for each in self._by_plural.get(plural, ()))

    def wait_synced(self, timeout: float) -> bool:
        """Wait until `synced`; False if that takes longer than `timeout` seconds."""
        deadline = self._clock.monotonic() + timeout
        if not all(each.wait_synced(max(0.0, deadline - self._clock.monotonic())) for each in self._reflectors):
            return False
        return all(each.tried.wait(max(0.0, deadline - self._clock.monotonic())) for each in self._tried_only())

    def _tried_only(self) -> list[Reflector[Any]]:
        """Return the reflectors of resources for which any answer of the API server suffices, even a denial.

        These are user-defined kinds, and devices if a DeviceClass exists. The DeviceClasses must have been listed.
        """
        further = [each for further in self._further for each in further.reflectors()]
        return [*further, *(each for each in self._of_devices if each.wanted)]

    def age(self) -> float:
        """Return the seconds since the last data from the API server, on the watch that has been silent longest.

        The watches of devices count while they are wanted and the API server serves and allows them.
        """
        of_devices = (each for each in self._of_devices if each.wanted and each.served)
        return max(each.last_event_age for each in (*self._reflectors, *of_devices))

    def relists(self) -> int:
        """Return how often resources had to be listed again because a watch was lost, in total."""
        return sum(each.relists for each in self._reflectors)

    def seen(self, plural: str) -> int:
        """Return the resourceVersion up to which the cache shows all changes of a resource, such as "pods"."""
        return max((each.seen for each in self._by_plural.get(plural, ())), default=0)

    def version(self) -> int:
        """Return the version of the cache: the number of changes so far."""
        return self._version

    def wait_for_change(self, since: int, timeout: float) -> int:
        """Wait until the version is newer than `since`, or `wake` is called. Return the present version.

        It is still `since` after `timeout` seconds without a change, and may be after `wake`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version > since or self._woken, timeout)
            self._woken = False
            return self._version

    def _touch(self) -> None:
        """Wake waiting readers because of a change that no object shows, such as a new reason why a kind cannot be
        read.
        """
        with self.changing(captured=False):
            for journal in self._journals:
                journal.other()

    def wake(self) -> None:
        """End the present wait for a change, or else the next one, because the waiting thread has other work."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change, in the thread of the watch. It must be quick, because the watch waits."""
        self._callbacks.append(callback)

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        """Yield a journal that records the names of changed pods and objects until the end of the `with` block."""
        made = Journal()
        with self._changed:
            self._journals.append(made)
        try:
            yield made
        finally:
            with self._changed:
                self._journals.remove(made)

    def still(self) -> AbstractContextManager[object]:
        """Hold the lock, so that several reads in the `with` block see the cluster at one instant. Keep it short."""
        return self._lock

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the present cluster. It is the same object as before if nothing in it has changed."""
        with self._changed:
            self._protect()
            self._let_time_pass()
            version = str(self._captured)
            if self._snapshot is None or self._snapshot.version != version:
                self._capture.set_priority_classes(self._classes.all())
                self._snapshot = self._capture.snapshot(
                    budgets=self._budgets.all(),
                    quotas=self._quotas.all(),
                    namespaces=self.namespaces(),
                    volumes=claims_of(self._claims.all(), self._volumes.all(), self._storage_classes.all()),
                    runtime_classes=self._runtime_classes.all(),
                    device_classes=self._device_classes.all(),
                    devices=self._device_objects(),
                    version=version,
                )
            return self._snapshot

    def devices(self) -> DeviceView:
        """Return the ResourceClaims, the DeviceTaintRules, and the partitions of devices. It is the same object as
        before if nothing in it has changed.
        """
        with self._changed:
            claims, rules, *_ = self._of_devices
            parts = self._resource_claims.all(), self._taint_rules.all(), self._device_classes.all()
            if self._partitions.slices is not self._slices.all():
                self._partitions = Partitions(self._slices.all())
            seen = (*parts, self._partitions, claims.served, rules.served, rules.synced)
            if len(seen) != len(self._devices_seen) or any(
                now is not before for now, before in zip(seen, self._devices_seen, strict=True)
            ):
                classes = {each.metadata.name: each for each in parts[2]}
                known = claims.served and rules.synced
                self._devices = DeviceView(
                    parts[0], parts[1], classes, known=known, taints=rules.served, partitions=self._partitions
                )
                self._devices_seen = seen
            return self._devices

    def _device_objects(self) -> DeviceObjects | None:
        """Return the objects from which devices are planned; None if one of the kinds cannot be read.

        DeviceTaintRules may be missing, because an API server before 1.37 does not serve them. But it must be known
        whether they are: otherwise a plan could contain tainted devices.
        """
        claims, taint_rules, slices, templates = self._of_devices
        if not (claims.served and slices.served and templates.served and taint_rules.synced):
            return None
        rules = self._taint_rules.all()
        if self._foreign_rules[0] is not rules:
            self._foreign_rules = rules, without_taking(rules)
        return DeviceObjects(
            self._slices.all(),
            self._device_classes.all(),
            self._resource_claims.all(),
            self._claim_templates.all(),
            self._foreign_rules[1],
        )

    def next_departure(self) -> datetime | None:
        """Return the next time at which a terminating pod begins to count differently; None if none will.

        Its capacity then counts as free, or as taken again (`cluster.departure`), without a change of an object.
        """
        with self._changed:
            return self._capture.next_departure

    def _let_time_pass(self) -> None:
        if self._capture.advance(self._clock.wall()):
            self._version += 1
            self._captured = self._version

    def _protect(self) -> None:
        objects = self._manifests.all()
        if self._protecting is not None and objects is not self._protected_by:
            self._protected_by = objects
            if self._capture.protect(self._protecting(objects)):
                self._version += 1
                self._captured = self._version

    def pods(self) -> Sequence[Pod]:
        """Return all pods, including finished ones."""
        with self._changed:
            return self._pods.all()

    def pods_of(self, group: Hashable) -> Sequence[Pod]:
        """Return the pods with one index key (`groups_of`), including finished ones."""
        with self._changed:
            return self._pods.of(group)

    def each_kind_of(self, group: Hashable) -> Sequence[Pod]:
        """Of the pods with one index key, return one of each equivalence class: the pod that the cache has known for
        the longest time.

        `groups_of` returns the index keys of a pod and its equivalence class.
        """
        with self._changed:
            return self._pods.one_of_each(group)

    def alike(self, group: Hashable, key: str) -> int:
        """Return how many pods with the index key `group` are in the equivalence class of the pod `key`
        (`namespace/name`).

        The pod itself counts. 0 if the pod is unknown.
        """
        with self._changed:
            return self._pods.alike(group, key)

    def pod_of(self, group: Hashable) -> Pod | None:
        """Return any pod with this index key; None if there is none."""
        with self._changed:
            return self._pods.one_of(group)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod; None if it does not exist."""
        return self._pods.get(namespace, name)

    def tried(self) -> Mapping[str, str]:
        """Return the last time (RFC 3339) that each scheduler tried a pod. The stock scheduler is left out."""
        with self._changed:
            return self._pods.schedulers.tried()

    def waiting(self) -> Mapping[str, int]:
        """Return how many pods each scheduler could try and has not tried. The stock scheduler is left out."""
        with self._changed:
            return self._pods.schedulers.waiting()

    def waiting_for(self, scheduler: str) -> Sequence[Pod]:
        """Return the pods that a scheduler could try and has not tried, the longest known first."""
        with self._changed:
            return self._pods.schedulers.waiting_for(scheduler)

    def node(self, name: str) -> Node | None:
        """Return a node; None if it does not exist."""
        with self._changed:
            return self._nodes.get("", name)

    def objects(self) -> Catalog:
        """Return all objects of the watched kinds, by (group, kind, namespace, name)."""
        with self._changed:
            return self._manifests.all()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the namespaces, by name. The object stays the same until a namespace changes."""
        with self._changed:
            kept = self._namespaces.all()
            if kept is not self._labelled[0]:
                self._labelled = kept, {each.metadata.name: each.metadata.labels for each in kept}
            return self._labelled[1]

    def sharing(self) -> Mapping[str, str]:
        """By namespace, the value of its annotation `phalanx.dev/shares-groups-with`: the namespaces whose pods may
        join group objects, such as PodGroups, of this namespace.

        Namespaces without the annotation have no entry. The returned object stays the same until a namespace changes.
        """
        with self._changed:
            kept = self._namespaces.all()
            if kept is not self._sharing[0]:
                declared = (
                    (each.metadata.name, each.metadata.annotations.get(keys.SHARES_GROUPS_WITH)) for each in kept
                )
                self._sharing = kept, {name: text for name, text in declared if text is not None}
            return self._sharing[1]

    def ending(self) -> frozenset[str]:
        """Return the names of the namespaces that are being deleted. No object can be created there any more."""
        with self._changed:
            kept = self._namespaces.all()
            return frozenset(each.metadata.name for each in kept if each.metadata.deletion_timestamp is not None)

    def found(self) -> Topology | None:
        """Return the topology that the nodes' well-known labels describe, for a cluster without a Topology; None if no
        node has such a label.
        """
        with self._changed:
            return self._nodes.found()

    def changing(self, *, captured: bool) -> AbstractContextManager[None]:
        """Enclose a change by a sink: the `with` block holds the lock, and waiting readers are woken after it.

        :param captured: whether a snapshot shows the change, so that the next snapshot must be built anew.
        """
        return self._changing[captured]

    def _change(self, *, captured: bool) -> None:
        """Count a change, and wake waiting readers. The caller holds the lock."""
        self._version += 1
        if captured:
            self._captured = self._version
        self._changed.notify_all()


class _Changing(AbstractContextManager[None]):
    """The context of `ClusterCache.changing`. It has no state, so all changes share one object: they are frequent.

    :param change: called after the change, while the lock is held.
    :param callbacks: called afterwards, without the lock.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        change: Callable[[], None],
        callbacks: Iterable[Callable[[], None]],
    ) -> None:
        self._lock = lock
        self._change = change
        self._callbacks = callbacks

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._change()
        finally:
            self._lock.__exit__(kind, error, trace)
        if kind is None:
            for callback in self._callbacks:
                callback()
