"""Sinks for objects of many kinds that the cache keeps as plain dicts: workloads, groups, topologies.

A sink receives the objects of one watch (`cluster.caches.reflector.Sink`). It may keep only some of them.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cluster.caches.journal import Journal
from cluster.caches.sinks import Changing
from kube.catalog import Catalog, ObjectKey
from kube.kept_objects import KeptObject

log = logging.getLogger(__name__)

AsRead = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function that converts an object into the form in which it is kept."""
Keeps = Callable[[Mapping[str, Any]], bool]
"""Function that returns whether an object is kept. Changes of other objects are not reported."""

_MOST_CHANGES = 10_000
"""The most changed objects, removed ones included, that are collected before they are merged into the catalog."""
_MOST_LEFT_OUT = 100
"""The most unreadable objects of a kind that are remembered by name."""
_MOST_NAMED = 3
"""The most unreadable objects that a message names."""


class Manifests:
    """The objects of many kinds as plain dicts, in one `Catalog`. `of` returns the sink of one kind."""

    def __init__(self, cache: Changing, journals: Iterable[Journal] = ()) -> None:
        """Start without objects.

        :param journals: record each change. The caller may add journals later.
        """
        self._cache = cache
        self._journals = journals
        self._all = Catalog()
        self._changes: dict[ObjectKey, Mapping[str, Any] | None] = {}
        """The objects that were added, changed or removed (None) since `_all` was built."""

    def of(self, group: str, kind: str, keeps: Keeps | None = None, as_read: AsRead | None = None) -> "ManifestsOfKind":
        """Return a sink for the objects of one kind. Several sinks of a kind must receive different objects.

        :param keeps: returns whether an object is kept; None: all are.
        :param as_read: converts an object into the form in which it is kept; None: as received.
        """
        return ManifestsOfKind(self, group, kind, keeps, as_read)

    def all(self) -> Catalog:
        """Return all kept objects, by key. It is the same catalog object as before if none has changed."""
        if self._changes:
            self._all, self._changes = self._all.changed(self._changes), {}
        return self._all

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Enclose a change of the kept objects: the `with` block holds the cache's lock. Then readers are woken."""
        with self._cache.changing(captured=False):
            yield

    def keep(self, key: ObjectKey, manifest: Mapping[str, Any] | None) -> None:
        """Store an object; None: remove it. Record the change in the journals."""
        self._changes[key] = manifest
        # `all`, which merges the changes, is never called while another replica leads, so they must not pile up
        if len(self._changes) > _MOST_CHANGES:
            self.all()
        for journal in self._journals:
            journal.object(key)


class ManifestsOfKind:
    """A `Sink` that stores the objects of one kind as plain dicts, with apiVersion and kind. For one reflector."""

    def __init__(
        self, manifests: Manifests, group: str, kind: str, keeps: Keeps | None = None, as_read: AsRead | None = None
    ) -> None:
        self._manifests = manifests
        self.as_read = as_read
        """Converts an object into the form in which it is kept; None: as received. It may be replaced between lists."""
        self._group = group
        self._kind = kind
        self._keeps = keeps
        self._keys: set[ObjectKey] = set()
        self._failed: dict[ObjectKey, str] = {}
        """By key of an object that could not be read: the name of the error. At most `_MOST_LEFT_OUT` objects."""
        self._more_failed = False
        """Whether further objects could not be read."""
        self.left_out = ""
        """The message about objects that are missing because they could not be read; "" if there are none."""

    def replace(self, objects: Sequence[dict[str, Any]], api_version: str) -> None:
        """Replace all objects of the kind by these from a list, whose items lack apiVersion and kind."""
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

    def put(self, item: dict[str, Any]) -> None:
        """Add or update an object."""
        before, kept = self.left_out, self._worth(item)
        self._tell()
        if kept is None and self._unheard_of(self._key(item)) and self.left_out == before:
            return
        with self._manifests.changing():
            if kept is None:
                self._forget(self._key(item))
            else:
                self._keep(kept)

    def drop(self, item: dict[str, Any]) -> None:
        """Remove an object."""
        key, before = self._key(item), self.left_out
        self._failed.pop(key, None)
        self._tell()
        if self._unheard_of(key) and self.left_out == before:
            return
        with self._manifests.changing():
            self._forget(key)

    def _worth(self, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the object in the form in which it is kept; None if it is not kept.

        If Phalanx fails to read the object, it is logged and left out, so the other objects are not affected.
        """
        key = self._key(item)
        try:
            read = item if self.as_read is None else self.as_read(item)
            kept = read if self._keeps is None or self._keeps(read) else None
        except Exception as error:  # noqa: BLE001 - it is logged and reported in `left_out`
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
        self._manifests.keep(key, KeptObject(manifest))

    def _forget(self, key: ObjectKey) -> None:
        self._keys.discard(key)
        self._manifests.keep(key, None)

    def _key(self, manifest: Mapping[str, Any]) -> ObjectKey:
        metadata = manifest["metadata"]
        return self._group, self._kind, metadata.get("namespace", ""), metadata["name"]


def _name(key: ObjectKey) -> str:
    return f"{key[2]}/{key[3]}" if key[2] else key[3]
