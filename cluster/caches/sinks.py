"""Sinks of the cache: tables that store the objects which reflectors receive, one table for each kind."""

import logging
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

import msgspec

from cluster.caches.journal import Journal
from cluster.capturing import Capture
from cluster.schedulers import SchedulerIndex
from cluster.topology.well_known_levels import found_by, known_labels
from kube.objects import Node, ObjectMeta, Pod
from kube.topology import Topology

log = logging.getLogger(__name__)


class Changing(Protocol):
    """The part of the cache that its sinks use: they change objects under the cache's lock."""

    def changing(self, *, captured: bool) -> AbstractContextManager[None]:
        """Enclose a change: the `with` block holds the cache's lock, and waiting readers are woken after it.

        :param captured: whether a snapshot shows the change.
        """

    def still(self) -> AbstractContextManager[object]:
        """Hold the cache's lock: no other thread changes or reads the cache in the `with` block."""


class HasMetadata(Protocol):
    """Any decoded Kubernetes object: a Struct with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...  # noqa: D102 - the class says what it is


Kept = TypeVar("Kept", bound=HasMetadata)


T_contra = TypeVar("T_contra", contravariant=True)


class _Storing(Protocol[T_contra]):
    """A `Sink` (`cluster.caches.reflector`)."""

    def replace(self, objects: Sequence[T_contra], api_version: str) -> None: ...
    def put(self, item: T_contra) -> None: ...
    def drop(self, item: T_contra) -> None: ...


class WithFirst(Generic[T_contra]):
    """A `Sink` that passes all objects on to `sink`, and calls `begin` each time it has passed an object on.

    :param begin: called often; it must be cheap.
    """

    def __init__(self, sink: _Storing[T_contra], begin: Callable[[], None]) -> None:
        self._sink = sink
        self._begin = begin

    def replace(self, objects: Sequence[T_contra], api_version: str) -> None:
        """Replace all objects of the kind."""
        self._sink.replace(objects, api_version)
        if objects:
            self._begin()

    def put(self, item: T_contra) -> None:
        """Add or update an object."""
        self._sink.put(item)
        self._begin()

    def drop(self, item: T_contra) -> None:
        """Remove an object."""
        self._sink.drop(item)


class Table(Generic[Kept]):
    """A `Sink` that stores the objects of one kind by namespace and name."""

    def __init__(self, cache: Changing, journals: Iterable[Journal] = ()) -> None:
        """Create an empty table.

        :param journals: record each change. The caller may add journals later.
        """
        self._cache = cache
        self._journals = journals
        self._kept: dict[tuple[str, str], Kept] = {}
        self._order: list[tuple[str, str]] | None = []
        """The sorted keys; None after a full list, until they are sorted on demand."""
        self._all: tuple[Kept, ...] | None = ()

    def replace(self, objects: Sequence[Kept], api_version: str) -> None:  # noqa: ARG002 - structs know their version
        """Replace all objects of the kind."""
        with self._cache.changing(captured=True):
            self._order = self._all = None
            fresh = {_key(each.metadata): each for each in objects}
            for key in self._kept.keys() - fresh.keys():
                self._remove(self._kept.pop(key))
            for each in objects:
                self._take(each)
            self._noted()

    def put(self, item: Kept) -> None:
        """Add or update an object. If no field has changed that Phalanx reads, it is stored but no reader is woken."""
        key = _key(item.metadata)
        with self._cache.still():
            old = self._kept.get(key)
            if old is not None and _alike(old, item):
                self._kept[key] = item
                self._all = None
                self._renewed(item)
                return
        with self._cache.changing(captured=True):
            self._take(item)
            self._noted()

    def drop(self, item: Kept) -> None:
        """Remove an object."""
        key = _key(item.metadata)
        with self._cache.changing(captured=True):
            if (old := self._kept.pop(key, None)) is not None:
                if self._order is not None:
                    del self._order[bisect_left(self._order, key)]
                self._all = None
                self._remove(old)
            self._noted()

    def get(self, namespace: str, name: str) -> Kept | None:
        """Return an object; None if it does not exist."""
        return self._kept.get((namespace, name))

    def all(self) -> tuple[Kept, ...]:
        """Return all objects, sorted by namespace and name."""
        if self._order is None:
            self._order = sorted(self._kept)
        if self._all is None:
            self._all = tuple(map(self._kept.__getitem__, self._order))
        return self._all

    def _take(self, item: Kept) -> None:
        key = _key(item.metadata)
        old = self._kept.get(key)
        if old is None or old.metadata.resource_version != item.metadata.resource_version:
            if old is None and self._order is not None:
                insort(self._order, key)
            self._kept[key] = item
            self._all = None
            self._added(item)

    def _noted(self) -> None:
        """Record in the journals that some object of the kind has changed. The object's name is not recorded."""
        for journal in self._journals:
            journal.other()

    def _added(self, item: Kept) -> None:
        """Called for each object that was added or changed. Subclasses update their indexes."""

    def _renewed(self, item: Kept) -> None:
        """Called for a new version of an object in which no field has changed that Phalanx reads."""

    def _remove(self, item: Kept) -> None:
        """Called for each object that was removed. Subclasses update their indexes."""


class Nodes(Table[Node]):
    """The table of nodes. Changes are passed on to the capture, from which snapshots are built.

    Well-known topology labels are counted as nodes are added and removed.
    """

    def __init__(self, cache: Changing, capture: Capture, journals: Iterable[Journal] = ()) -> None:
        """Start without nodes.

        :param journals: record each change. The caller may add journals later.
        """
        super().__init__(cache, journals)
        self._capture = capture
        self._labels: dict[str, frozenset[str]] = {}
        self._counts: Counter[str] = Counter()
        self._found: Topology | None = None

    def found(self) -> Topology | None:
        """Return the topology that the well-known labels of all nodes describe; None if there are no such labels."""
        return self._found

    def _added(self, item: Node) -> None:
        _readable("Node", item.metadata.name, self._capture.put_node, item)
        self._count(item.metadata.name, known_labels(item))

    def _remove(self, item: Node) -> None:
        self._capture.drop_node(item.metadata.name)
        self._count(item.metadata.name, frozenset())

    def _count(self, name: str, labels: frozenset[str]) -> None:
        before = self._labels.pop(name, frozenset())
        if labels != before:
            self._counts.subtract(before - labels)
            self._counts.update(labels - before)
            self._found = found_by(self._counts)
        if labels:
            self._labels[name] = labels


Grouping = Callable[[Pod], tuple[Collection[Hashable], Hashable]]
"""Function that returns the index keys under which a pod is found, and its equivalence class among the pods of a key.

Pods of one class are alike for the callers of the cache, who then read one of them only.
"""


def ungrouped(_pod: Pod) -> tuple[tuple[()], None]:
    """Return no index keys, as the `Grouping` of a cache that is never queried by key."""
    return (), None


class Pods(Table[Pod]):
    """The table of pods. Changes are passed on to the capture, from which snapshots are built.

    As pods are added and removed, they are indexed by the keys and equivalence classes of `groups_of`, and by their
    scheduler.
    """

    def __init__(
        self, cache: Changing, capture: Capture, groups_of: Grouping = ungrouped, journals: Iterable[Journal] = ()
    ) -> None:
        """Start without pods.

        :param groups_of: returns the index keys of a pod, and its equivalence class.
        :param journals: record each change. The caller may add journals later.
        """
        super().__init__(cache, journals)
        self._capture = capture
        self._groups_of = groups_of
        self._groups: dict[Hashable, dict[Hashable, dict[str, Pod]]] = {}
        """By index key, then by equivalence class: the pods by `namespace/name`, in the order of their arrival."""
        self._named: dict[str, tuple[Collection[Hashable], Hashable]] = {}
        """By `namespace/name` of a pod: its index keys and its equivalence class."""
        self.schedulers = SchedulerIndex()

    def of(self, group: Hashable) -> tuple[Pod, ...]:
        """Return the pods with an index key, sorted by namespace and name."""
        members = {key: pod for kind in self._groups.get(group, {}).values() for key, pod in kind.items()}
        return tuple(members[key] for key in sorted(members))

    def one_of_each(self, group: Hashable) -> list[Pod]:
        """Return, sorted by namespace and name, one pod of each equivalence class under an index key: the pod that the
        table has known for the longest time.
        """
        found = (next(iter(kind.values())) for kind in self._groups.get(group, {}).values())
        return sorted(found, key=lambda pod: pod.key)

    def one_of(self, group: Hashable) -> Pod | None:
        """Return any pod with an index key; None if there is none."""
        return next((pod for kind in self._groups.get(group, {}).values() for pod in kind.values()), None)

    def alike(self, group: Hashable, key: str) -> int:
        """Return how many pods with the index key `group` are in the equivalence class of the pod `key`
        (`namespace/name`).
        """
        _, kind = self._named.get(key, ((), None))
        return len(self._groups.get(group, {}).get(kind, ()))

    def _added(self, item: Pod) -> None:
        key = item.key
        _readable("Pod", key, self._capture.put_pod, item)
        self.schedulers.put(item)
        named = self._groups_of(item)
        if self._named.get(key) != named:
            self._leave(key)
        if named[0]:
            self._named[key] = named
        self._group(item)
        self._note(item)

    def _renewed(self, item: Pod) -> None:
        self._group(item)
        self._note(item)

    def _group(self, item: Pod) -> None:
        key = item.key
        groups, kind = self._named.get(key, ((), None))
        for group in groups:
            self._groups.setdefault(group, {}).setdefault(kind, {})[key] = item

    def _remove(self, item: Pod) -> None:
        self._capture.drop_pod(item.key)
        self.schedulers.drop(item.key)
        self._leave(item.key)
        self._note(item)

    def _noted(self) -> None:
        """Do nothing: `_note` has recorded the changed pod by its name already."""

    def _note(self, item: Pod) -> None:
        for journal in self._journals:
            journal.pod(_key(item.metadata))

    def _leave(self, key: str) -> None:
        groups, kind = self._named.pop(key, ((), None))
        for group in groups:
            kinds = self._groups[group]
            del kinds[kind][key]
            if not kinds[kind]:
                del kinds[kind]
            if not kinds:
                del self._groups[group]


Readable = TypeVar("Readable")


def _readable(kind: str, name: str, put: Callable[[Readable], None], item: Readable) -> None:
    """Pass an object to the capture by `put`. If its quantities cannot be parsed, log it and go on.

    Then a new node offers no capacity, a known node keeps its last readable state, and a pod takes no capacity.
    """
    try:
        put(item)
    except ValueError as error:
        log.warning("%s %s is left out of account: %s", kind, name, error)


def _alike(old: HasMetadata, new: HasMetadata) -> bool:
    """Whether two versions of an object are equal in all fields that Phalanx reads.

    They may differ in other fields, such as a heartbeat.
    """
    version = new.metadata.resource_version
    metadata = msgspec.structs.replace(old.metadata, resource_version=version)
    return bool(metadata == new.metadata and msgspec.structs.replace(old, metadata=metadata) == new)  # type: ignore[type-var]


def _key(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace, metadata.name
