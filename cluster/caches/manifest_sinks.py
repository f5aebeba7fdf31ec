"""Sinks of a cache for objects of many kinds that are kept as plain dicts. A sink may keep only some of its objects."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cluster.caches.journal import Journal
from cluster.caches.sinks import Changing
from kube.catalog import Catalog, ObjectKey

log = logging.getLogger(__name__)

AsRead = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function from an object to the form in which it is kept."""
Keeps = Callable[[Mapping[str, Any]], bool]
"""Whether an object is kept. Changes of other objects are not reported."""

_MOST_CHANGES = 10_000
"""Most changed objects, removed ones included, that are collected before they are merged into the catalog."""
_MOST_LEFT_OUT = 100
"""Most unreadable objects of a kind that are remembered by name."""
_MOST_NAMED = 3
"""Most unreadable objects that a message names."""


class Manifests:
    """Plain objects of many kinds in one mapping."""

    def __init__(self, cache: Changing, journals: Iterable[Journal] = ()) -> None:
        """`journals`: the journals that record each change. The caller may add journals later."""
        self._cache = cache
        self._journals = journals
        self._all = Catalog()
        self._changes: dict[ObjectKey, Mapping[str, Any] | None] = {}
        """The objects that were added, changed or removed (None) since `_all` was built."""

    def of(self, group: str, kind: str, keeps: Keeps | None = None, as_read: AsRead | None = None) -> "ManifestsOfKind":
        """Return a sink of one kind. Several sinks of a kind are allowed, if each has different objects.

        `keeps`: selects the objects that are kept; None: all.
        """
        return ManifestsOfKind(self, group, kind, keeps, as_read)

    def all(self) -> Catalog:
        """Return all kept objects. The catalog stays the same object until an object changes."""
        if self._changes:
            self._all, self._changes = self._all.changed(self._changes), {}
        return self._all

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Enclose a change of the kept objects."""
        with self._cache.changing(captured=False):
            yield

    def keep(self, key: ObjectKey, manifest: Mapping[str, Any] | None) -> None:
        """Keep a manifest, or (None) forget it."""
        self._changes[key] = manifest
        if len(self._changes) > _MOST_CHANGES:  # `all` is never called while another replica leads
            self.all()
        for journal in self._journals:
            journal.object(key)


class ManifestsOfKind:
    """The objects of one kind, as plain dicts with apiVersion and kind. A `Sink`, for one reflector's thread."""

    def __init__(
        self, manifests: Manifests, group: str, kind: str, keeps: Keeps | None = None, as_read: AsRead | None = None
    ) -> None:
        self._manifests = manifests
        self.as_read = as_read
        """May be replaced before the next full list."""
        self._group = group
        self._kind = kind
        self._keeps = keeps
        self._keys: set[ObjectKey] = set()
        self._failed: dict[ObjectKey, str] = {}
        """Objects that cannot be read, with the name of the error."""
        self._more_failed = False
        self.left_out = ""
        """Text about the objects that are missing because they cannot be read; "": none."""

    def replace(self, objects: Sequence[dict[str, Any]], api_version: str) -> None:
        """Replace all objects of the kind. The API server omits apiVersion and kind in a list's items."""
        before = self.left_out
        self._failed.clear()
        self._more_failed = False
        typed = (self._worth({"apiVersion": api_version, "kind": self._kind, **each}) for each in objects)
        kept = [each for each in typed if each is not None]
        self._tell()
        if not kept and not self._keys and self.left_out == before:
            return
        with self._manifests.changing():
            for key in self._keys:
                self._manifests.keep(key, None)
            self._keys.clear()
            for each in kept:
                self._keep(each)

    def put(self, thing: dict[str, Any]) -> None:
        """Add or update an object."""
        before, kept = self.left_out, self._worth(thing)
        self._tell()
        if kept is None and self._unheard_of(self._key(thing)) and self.left_out == before:
            return
        with self._manifests.changing():
            if kept is None:
                self._forget(self._key(thing))
            else:
                self._keep(kept)

    def drop(self, thing: dict[str, Any]) -> None:
        """Remove an object."""
        key, before = self._key(thing), self.left_out
        self._failed.pop(key, None)
        self._tell()
        if self._unheard_of(key) and self.left_out == before:
            return
        with self._manifests.changing():
            self._forget(key)

    def _worth(self, thing: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return an object in the form in which it is kept; None: it is not kept. An unreadable object is logged and
        left out, so that the other objects are still kept.
        """
        key = self._key(thing)
        try:
            read = thing if self.as_read is None else self.as_read(thing)
            kept = read if self._keeps is None or self._keeps(read) else None
        except Exception as error:  # noqa: BLE001 - it is logged and told
            self._fail(key, error)
            return None
        self._failed.pop(key, None)
        return kept

    def _fail(self, key: ObjectKey, error: Exception) -> None:
        if key not in self._failed and len(self._failed) < _MOST_NAMED:
            log.error("%s %s is left out: we fail to read it", self._kind, _name(key), exc_info=error)
        if key in self._failed or len(self._failed) < _MOST_LEFT_OUT:
            self._failed[key] = type(error).__name__
        else:
            self._more_failed = True

    def _tell(self) -> None:
        if not self._failed and not self._more_failed:
            self.left_out = ""
            return
        names = [_name(key) for key in sorted(self._failed)[:_MOST_NAMED]]
        more = self._more_failed or len(self._failed) > _MOST_NAMED
        listed = " and ".join(each for each in (", ".join(names), "others" if more else "") if each)
        errors = ", ".join(sorted(set(self._failed.values()))) or "see the log"
        self.left_out = f"except {listed}, which Phalanx fails to read ({errors})"

    def _unheard_of(self, key: ObjectKey) -> bool:
        return self._keeps is not None and key not in self._keys

    def _keep(self, manifest: Mapping[str, Any]) -> None:
        key = self._key(manifest)
        self._keys.add(key)
        self._manifests.keep(key, manifest)

    def _forget(self, key: ObjectKey) -> None:
        self._keys.discard(key)
        self._manifests.keep(key, None)

    def _key(self, manifest: Mapping[str, Any]) -> ObjectKey:
        metadata = manifest["metadata"]
        return self._group, self._kind, metadata.get("namespace", ""), metadata["name"]


def _name(key: ObjectKey) -> str:
    return f"{key[2]}/{key[3]}" if key[2] else key[3]
