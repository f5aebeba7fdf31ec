"""Watches of user-defined kinds: kinds that are watched because a WorkloadKind object names them.

The watch of a kind starts and ends with the object that names the kind. The API server may not serve the kind yet, or
Phalanx may not be allowed to read it. Then the cache is complete without the kind's objects, and `troubles` reports the
reason.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.caches.manifest_sinks import AsRead, Keeps, ManifestsOfKind
from cluster.caches.reflector import Reflector, Sink
from cluster.caches.trouble import Trouble, TroubleReason

Object = dict[str, Any]


class GroupKind(Protocol):
    """A kind of objects that the cache watches and keeps as plain dicts.

    `group`: "" for the core group. `versions`: best first. `only`: (namespace, name) if a single object is watched.
    `keeps`: returns whether an object is kept; None: all. `as_read`: converts an object into the form in which it is
    kept; None: as received. `user_defined`: returns the user-defined kinds that objects of this kind name; None: they
    name none.
    """

    @property
    def group(self) -> str: ...  # noqa: D102 - the class says what it is
    @property
    def versions(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def plural(self) -> str: ...  # noqa: D102
    @property
    def only(self) -> tuple[str, str] | None: ...  # noqa: D102
    @property
    def keeps(self) -> Keeps | None: ...  # noqa: D102
    @property
    def as_read(self) -> AsRead | None: ...  # noqa: D102
    @property
    def user_defined(self) -> "Callable[[Sequence[Object]], Iterable[GroupKind]] | None": ...  # noqa: D102


@dataclass(slots=True)
class _Watched:
    kind: GroupKind
    specs: Any
    """The specs of the objects that name the kind, to detect a change."""
    sink: ManifestsOfKind
    closable: "_ClosableSink"
    reflector: Reflector[Object]


class _ClosableSink:
    """A `Sink` that passes the objects of one watch on until it is closed.

    It is closed when the watch is replaced. A stopped watch may still write for a moment, while its successor already
    writes to the same underlying sink.
    """

    def __init__(self, sink: Sink[Object]) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close the sink: when this call has returned, no object is passed on any more."""
        with self._lock:
            self._closed = True

    def replace(self, objects: Sequence[Object], api_version: str) -> None:
        """Replace all objects in the underlying sink, unless closed."""
        with self._lock:
            if not self._closed:
                self._sink.replace(objects, api_version)

    def put(self, item: Object) -> None:
        """Add or update an object in the underlying sink, unless closed."""
        with self._lock:
            if not self._closed:
                self._sink.put(item)

    def drop(self, item: Object) -> None:
        """Remove an object from the underlying sink, unless closed."""
        with self._lock:
            if not self._closed:
                self._sink.drop(item)


class FurtherKinds:
    """A `Sink` for objects that name user-defined kinds. It passes these objects on to `sink`, and starts a watch of
    each kind that they name.

    :param sink: receives the objects that name kinds.
    :param user_defined: returns the kinds that these objects name.
    :param sink_of: returns the sink for the objects of a user-defined kind.
    :param watching: returns a reflector of a kind, not started yet, that writes to the given sink.
    """

    def __init__(
        self,
        sink: Sink[Object],
        user_defined: Callable[[Sequence[Object]], Iterable[GroupKind]],
        sink_of: Callable[[GroupKind], ManifestsOfKind],
        watching: Callable[[GroupKind, Sink[Object]], Reflector[Object]],
    ) -> None:
        self._sink = sink
        self._user_defined = user_defined
        self._sink_of = sink_of
        self._watching = watching
        self._objects: dict[str, Object] = {}
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._lock = threading.RLock()
        self._over = False

    def replace(self, objects: Sequence[Object], api_version: str) -> None:
        """Replace all objects that name user-defined kinds. Start and end watches, so that exactly the named kinds are
        watched.
        """
        self._sink.replace(objects, api_version)
        self._objects = {each["metadata"]["name"]: each for each in objects}
        self._follow()

    def put(self, item: Object) -> None:
        """Add or update an object that names a kind. Start or replace the watch of that kind if its spec changed."""
        self._sink.put(item)
        old = self._objects.get(item["metadata"]["name"], {})
        self._objects[item["metadata"]["name"]] = item
        if old.get("spec") != item.get("spec"):
            self._follow()

    def drop(self, item: Object) -> None:
        """Remove an object that names a kind. End the watch of that kind."""
        self._sink.drop(item)
        if self._objects.pop(item["metadata"]["name"], None) is not None:
            self._follow()

    def reflectors(self) -> Sequence[Reflector[Object]]:
        """Return the current watches of user-defined kinds."""
        with self._lock:
            return [each.reflector for each in self._watched.values()]

    def troubles(self) -> Mapping[tuple[str, str], Trouble | None]:
        """Return, by API group and kind of each user-defined kind, why objects are missing; None if none is missing.

        A kind whose watch has no result yet has no entry.
        """
        with self._lock:
            watched = {at: (each.reflector, each.sink) for at, each in self._watched.items()}
        return {
            at: reflector.trouble or _trouble_of(sink)
            for at, (reflector, sink) in watched.items()
            if reflector.trouble or reflector.synced
        }

    def stop(self) -> Iterator[Reflector[Object]]:
        """Stop all watches of user-defined kinds, and start no other. Yield the stopped reflectors.

        Their threads may still run for a moment.
        """
        with self._lock:
            self._over = True
            for each in self._watched.values():
                each.reflector.stop()
                yield each.reflector

    def _follow(self) -> None:
        """Start and end watches so that exactly the kinds are watched that objects name now.

        A watch is replaced if the specs that name its kind have changed.
        """
        named = {(kind.group, kind.kind): kind for kind in self._user_defined(list(self._objects.values()))}
        naming = sorted(self._objects.items())
        specs = {at: [each.get("spec") for _, each in naming if _names(each, at)] for at in named}
        for at in [at for at in self._watched if at not in named]:
            self._end(at)
        for at, kind in named.items():
            present = self._watched.get(at)
            if present is None or present.specs != specs[at]:
                self._begin(at, kind, specs[at], present)

    def _begin(self, at: tuple[str, str], kind: GroupKind, specs: Any, replaced: "_Watched | None") -> None:
        if replaced is not None:
            replaced.reflector.stop()
            replaced.closable.close()
        sink = self._sink_of(kind) if replaced is None else replaced.sink
        sink.as_read = kind.as_read
        closable = _ClosableSink(sink)
        reflector = self._watching(kind, closable)
        with self._lock:
            if not self._over:
                self._watched[at] = _Watched(kind, specs, sink, closable, reflector)
                reflector.start()

    def _end(self, at: tuple[str, str]) -> None:
        with self._lock:
            gone = self._watched.pop(at)
        gone.reflector.stop()
        gone.closable.close()
        gone.sink.replace([], "")


def _trouble_of(sink: ManifestsOfKind) -> Trouble | None:
    return Trouble(TroubleReason.SOME_LEFT_OUT, sink.left_out) if sink.left_out else None


def _names(item: Object, at: tuple[str, str]) -> bool:
    spec = item.get("spec")
    return isinstance(spec, Mapping) and (spec.get("group"), spec.get("kind")) == at
