"""The live picture in memory: every resource that matters, watched, and the `Snapshot` made from it.

Pods that have finished (Succeeded, Failed) are kept as long as they exist: they hold no room, but a gang whose members
have ended well must not look as if it had lost them.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from cluster.api.transport import Transport
from cluster.api.trimming import trim_manifest, trim_node, trim_pod
from cluster.caches.discovery import Discovery
from cluster.caches.further_kinds import FurtherKinds, GroupKind
from cluster.caches.journal import Journal
from cluster.caches.manifest_sinks import Manifests, ManifestsOfKind
from cluster.caches.reflector import Reflector, Sink
from cluster.caches.reflector_timing import DEFAULT_TIMING, ReflectorTiming
from cluster.caches.sinks import Grouping, Nodes, Pods, Table, ungrouped
from cluster.capturing import Capture, Protected, unprotected
from cluster.snapshot import Snapshot
from cluster.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass, claims_of
from kube import keys
from kube.catalog import Catalog, ObjectKey
from kube.classes import DeviceClass, RuntimeClass
from kube.objects import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from kube.topology import Topology
from timing.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)


Protecting = Callable[[Mapping[ObjectKey, Mapping[str, Any]]], Protected]


class ClusterCache:
    """Watches one cluster. Safe to use from several threads.

    :param kinds: group objects, topologies, workloads: kept as plain dicts; they may not be installed.
    :param gate: scheduling gate that tells pods which are not let go yet from those that are.
    :param protected: says why a pod may never be a victim, beyond what the cluster itself protects.
    :param protecting: the same where it depends on the objects of `kinds`: what says it, given these. Equal answers
        protect the same pods.
    :param groups_of: sorts pods into groups, so that those of one can be had without looking at all (`pods_of`).
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
        self._changed = threading.Condition(threading.RLock())
        self._version = 0
        self._woken = False
        self._complete = False
        self._captured = 0
        """Version at which something in the snapshot last changed."""
        self._callbacks: list[Callable[[], None]] = []
        self._snapshot: Snapshot | None = None
        self._protecting = protecting
        self._protected_by: Mapping[ObjectKey, Mapping[str, Any]] | None = None
        """The objects by which it was last decided what is protected."""
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
        self._manifests = Manifests(self, self._journals)
        self._further: list[FurtherKinds] = []
        self._reflectors = [*self._own(transport, timing), *self._others(transport, kinds, timing)]
        self._discovery = Discovery(transport, self._wake_missing, clock=clock)

    def _own(self, transport: Transport, timing: ReflectorTiming) -> Iterator[Reflector[Any]]:
        """The resources that a snapshot is made from."""
        clock = self._clock
        yield Reflector(transport, ["/api/v1/nodes"], Node, self._nodes, trim=trim_node, timing=timing, clock=clock)
        yield Reflector(transport, ["/api/v1/pods"], Pod, self._pods, trim=trim_pod, timing=timing, clock=clock)
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
        device_classes = [f"/apis/resource.k8s.io/{version}/deviceclasses" for version in ("v1", "v1beta2")]
        yield Reflector(
            transport, device_classes, DeviceClass, self._device_classes, optional=True, timing=timing, clock=clock
        )

    def _others(
        self, transport: Transport, kinds: Iterable[GroupKind], timing: ReflectorTiming
    ) -> Iterator[Reflector[dict[str, Any]]]:
        def sink_of(kind: GroupKind) -> ManifestsOfKind:
            return self._manifests.of(kind.group, kind.kind, kind.keeps, kind.as_read)

        def watching(kind: GroupKind, sink: Sink[dict[str, Any]]) -> Reflector[dict[str, Any]]:
            return self._other(transport, kind, sink, timing, on_change=self._touch, of_kind=kind.kind)

        for kind in kinds:
            sink: Sink[dict[str, Any]] = sink_of(kind)
            if kind.taught is not None:
                sink = FurtherKinds(sink, kind.taught, sink_of, watching)
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
        """Begin to watch. Which kinds are served is looked at first: of one that comes when it has been asked for, and
        before that was looked at, nobody would be told.
        """
        for each in self._own_threads():
            each.start()

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        """The reflectors of the constructor's kinds. A simulation steps them in place of `start`."""
        return self._reflectors

    def _own_threads(self) -> "list[Reflector[Any] | Discovery]":
        return [self._discovery, *self._reflectors]

    def _wake_missing(self) -> None:
        for each in (*self._reflectors, *(one for further in self._further for one in further.reflectors())):
            each.wake()

    def stop(self, timeout: float = 1.0) -> None:
        """End all watches; waits up to `timeout` seconds in all for the threads."""
        deadline = self._clock.monotonic() + timeout
        ending = [*self._own_threads(), *(each for further in self._further for each in further.stop())]
        for each in self._own_threads():
            each.stop()
        late = [each.name for each in ending if not each.join(max(0.0, deadline - self._clock.monotonic()))]
        if late:
            log.warning("still busy when told to stop: %s", ", ".join(late))

    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return not self.unsynced()

    def unsynced(self) -> tuple[str, ...]:
        """The resources that have not been listed yet. Kinds that objects name count until everything has been listed
        once: whoever describes another one later must not keep everybody from being served.
        """
        if self._complete:
            return ()
        waiting = [each.name for each in self._reflectors if not each.synced]
        waiting += [each.name for further in self._further for each in further.reflectors() if not each.tried.is_set()]
        self._complete = not waiting
        return tuple(waiting)

    def troubles(self) -> Mapping[tuple[str, str], str]:
        """Of kinds that objects name, by group and kind: why their objects are not here; "" where they are."""
        return {at: trouble for further in self._further for at, trouble in further.troubles().items()}

    def listed(self, plural: str) -> bool:
        """Whether the objects of a resource have been listed once."""
        return all(each.synced for each in self._reflectors if each.name.endswith(f"/{plural}"))

    def wait_synced(self, timeout: float) -> bool:
        """Wait until `synced`; False where that takes longer than `timeout` seconds."""
        deadline = self._clock.monotonic() + timeout
        if not all(each.wait_synced(max(0.0, deadline - self._clock.monotonic())) for each in self._reflectors):
            return False
        further = [each for further in self._further for each in further.reflectors()]
        return all(each.tried.wait(max(0.0, deadline - self._clock.monotonic())) for each in further)

    def age(self) -> float:
        """Seconds since the API server was last heard of, on the watch that has been silent longest."""
        return max(each.last_event_age for each in self._reflectors)

    def relists(self) -> int:
        """How often a resource had to be listed again."""
        return sum(each.relists for each in self._reflectors)

    def seen(self, plural: str) -> int:
        """The resource version up to which the objects of a resource are here."""
        return max((each.seen for each in self._reflectors if each.name.endswith(f"/{plural}")), default=0)

    def version(self) -> int:
        """Counts the changes seen."""
        return self._version

    def wait_for_change(self, since: int, timeout: float) -> int:
        """Wait until there is a version after `since`; returns the present one, which is `since` after a timeout, or
        when somebody has called `wake`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version > since or self._woken, timeout)
            self._woken = False
            return self._version

    def _touch(self) -> None:
        """Something is otherwise that no object says."""
        with self.changing(captured=False):
            for journal in self._journals:
                journal.other()

    def wake(self) -> None:
        """End the wait for a change that is under way, or else the next one: there is something else to do."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change, in the thread that saw it: it must be quick."""
        self._callbacks.append(callback)

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        """Within it, the names of pods and objects that change are noted."""
        made = Journal()
        with self._changed:
            self._journals.append(made)
        try:
            yield made
        finally:
            with self._changed:
                self._journals.remove(made)

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Within it nothing changes, so that several questions get answers of one instant. Keep it short."""
        with self._changed:
            yield

    def snapshot(self) -> Snapshot:
        """What there is. The same object until something in it has changed."""
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
                    version=version,
                )
            return self._snapshot

    def next_departure(self) -> datetime | None:
        """When a terminating pod counts otherwise though no object changes; None if none does."""
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
        """All pods, finished ones too."""
        with self._changed:
            return self._pods.all()

    def pods_of(self, group: Hashable) -> Sequence[Pod]:
        """The pods of one group, finished ones too."""
        with self._changed:
            return self._pods.of(group)

    def each_kind_of(self, group: Hashable) -> Sequence[Pod]:
        """Of each kind of pods in one group the one that is longest known."""
        with self._changed:
            return self._pods.one_of_each(group)

    def alike(self, group: Hashable, key: str) -> int:
        """How many pods of one group are of the kind of this one (`namespace/name`), itself among them."""
        with self._changed:
            return self._pods.alike(group, key)

    def pod_of(self, group: Hashable) -> Pod | None:
        """Any pod of one group, None where it has none."""
        with self._changed:
            return self._pods.one_of(group)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """One pod, None where it is not there."""
        return self._pods.get(namespace, name)

    def tried(self) -> Mapping[str, str]:
        """By scheduler that pods name, the stock one left out, when it was last seen to try one of them (RFC 3339)."""
        with self._changed:
            return self._pods.schedulers.tried()

    def waiting(self) -> Mapping[str, int]:
        """By scheduler, likewise, how many pods it could try and has not."""
        with self._changed:
            return self._pods.schedulers.waiting()

    def waiting_for(self, scheduler: str) -> Sequence[Pod]:
        """These pods, the longest known first."""
        with self._changed:
            return self._pods.schedulers.waiting_for(scheduler)

    def node(self, name: str) -> Node | None:
        """One node, None where it is not there."""
        with self._changed:
            return self._nodes.get("", name)

    def objects(self) -> Catalog:
        """All objects of the kinds asked for, by (group, kind, namespace, name)."""
        with self._changed:
            return self._manifests.all()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the namespaces, by name. The same object until one of them changes."""
        with self._changed:
            kept = self._namespaces.all()
            if kept is not self._labelled[0]:
                self._labelled = kept, {each.metadata.name: each.metadata.labels for each in kept}
            return self._labelled[1]

    def sharing(self) -> Mapping[str, str]:
        """With whom namespaces share their groups, by name. The same object until one of them changes."""
        with self._changed:
            kept = self._namespaces.all()
            if kept is not self._sharing[0]:
                declared = (
                    (each.metadata.name, each.metadata.annotations.get(keys.SHARES_GROUPS_WITH)) for each in kept
                )
                self._sharing = kept, {name: text for name, text in declared if text is not None}
            return self._sharing[1]

    def ending(self) -> frozenset[str]:
        """Names of the namespaces that are being deleted: nothing can be made there any more."""
        with self._changed:
            kept = self._namespaces.all()
            return frozenset(each.metadata.name for each in kept if each.metadata.deletion_timestamp is not None)

    def found(self) -> Topology | None:
        """The topology that the nodes' well-known labels show, for clusters that describe none."""
        with self._changed:
            return self._nodes.found()

    @contextlib.contextmanager
    def changing(self, *, captured: bool) -> Iterator[None]:
        """For the sinks: a change is made within it. `captured`: whether a snapshot shows it."""
        with self._changed:
            yield
            self._version += 1
            if captured:
                self._captured = self._version
            self._changed.notify_all()
        for callback in self._callbacks:
            callback()
