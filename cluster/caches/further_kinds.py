"""Watches of user-defined kinds, which objects of another kind name. A watch starts and ends with its naming object.

Such a kind may not be served yet, or Phalanx may not be allowed to read it. No other watch waits for it then, and
`troubles` reports the reason.
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
    """A kind of object to be watched beside the cluster's own, `versions` best first ("" = core group)."""

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
    said: Any
    """The description of the kind by the objects that name it, to detect a change."""
    sink: ManifestsOfKind
    door: "_Door"
    reflector: Reflector[Object]


class _Door:
    """A `Sink` of one watch that can be closed. A stopped watch may still be writing while its successor already writes
    to the underlying sink.
    """

    def __init__(self, sink: Sink[Object]) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close the sink: after the return of this call no object is passed on any more."""
        with self._lock:
            self._closed = True

    def replace(self, objects: Sequence[Object], api_version: str) -> None:
        """These are all there are."""
        with self._lock:
            if not self._closed:
                self._sink.replace(objects, api_version)

    def put(self, thing: Object) -> None:
        """This one is new or changed."""
        with self._lock:
            if not self._closed:
                self._sink.put(thing)

    def drop(self, thing: Object) -> None:
        """This one is gone."""
        with self._lock:
            if not self._closed:
                self._sink.drop(thing)


class FurtherKinds:
    """A `Sink` of the objects that name user-defined kinds. It passes the objects on, and watches the named kinds.

    :param user_defined: returns the kinds that these objects name.
    :param sink_of: returns the sink for the objects of a kind.
    :param watching: returns a watch of a kind, not started yet, that writes to the given sink.
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
        """These are all there are."""
        self._sink.replace(objects, api_version)
        self._objects = {each["metadata"]["name"]: each for each in objects}
        self._follow()

    def put(self, thing: Object) -> None:
        """This one is new or changed."""
        self._sink.put(thing)
        old = self._objects.get(thing["metadata"]["name"], {})
        self._objects[thing["metadata"]["name"]] = thing
        if old.get("spec") != thing.get("spec"):
            self._follow()

    def drop(self, thing: Object) -> None:
        """This one is gone."""
        self._sink.drop(thing)
        if self._objects.pop(thing["metadata"]["name"], None) is not None:
            self._follow()

    def reflectors(self) -> Sequence[Reflector[Object]]:
        """Return the current watches of user-defined kinds."""
        with self._lock:
            return [each.reflector for each in self._watched.values()]

    def troubles(self) -> Mapping[tuple[str, str], Trouble | None]:
        """Return by group and kind why objects of the kind are missing; None if no object is missing.

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
        """End all watches and start no other. Yield the reflectors of the ended watches."""
        with self._lock:
            self._over = True
            for each in self._watched.values():
                each.reflector.stop()
                yield each.reflector

    def _follow(self) -> None:
        """Watch what is named now, and nothing else."""
        named = {(kind.group, kind.kind): kind for kind in self._user_defined(list(self._objects.values()))}
        said = sorted(self._objects.items())
        specs = {at: [each.get("spec") for _, each in said if _names(each, at)] for at in named}
        for at in [at for at in self._watched if at not in named]:
            self._end(at)
        for at, kind in named.items():
            there = self._watched.get(at)
            if there is None or there.said != specs[at]:
                self._begin(at, kind, specs[at], there)

    def _begin(self, at: tuple[str, str], kind: GroupKind, said: Any, there: "_Watched | None") -> None:
        if there is not None:
            there.reflector.stop()
            there.door.close()
        sink = self._sink_of(kind) if there is None else there.sink
        sink.as_read = kind.as_read
        door = _Door(sink)
        reflector = self._watching(kind, door)
        with self._lock:
            if not self._over:
                self._watched[at] = _Watched(kind, said, sink, door, reflector)
                reflector.start()

    def _end(self, at: tuple[str, str]) -> None:
        with self._lock:
            gone = self._watched.pop(at)
        gone.reflector.stop()
        gone.door.close()
        gone.sink.replace([], "")


def _trouble_of(sink: ManifestsOfKind) -> Trouble | None:
    return Trouble(TroubleReason.SOME_LEFT_OUT, sink.left_out) if sink.left_out else None


def _names(thing: Object, at: tuple[str, str]) -> bool:
    spec = thing.get("spec")
    return isinstance(spec, Mapping) and (spec.get("group"), spec.get("kind")) == at
