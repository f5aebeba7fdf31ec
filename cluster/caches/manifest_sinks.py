"""What a cache does with objects that are kept as plain dicts: of many kinds, of which some matter and some do not."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cluster.caches.journal import Journal
from cluster.caches.sinks import Changing
from kube.catalog import Catalog, ObjectKey

log = logging.getLogger(__name__)

AsRead = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""What is kept of an object."""
Keeps = Callable[[Mapping[str, Any]], bool]
"""Whether an object is worth keeping: of those that are not nobody hears."""

_MOST_CHANGES = 10_000
"""Names of objects, gone ones too, that are remembered until somebody asks."""
_MOST_LEFT_OUT = 100
"""Objects of a kind that we fail to read and remember by name."""
_MOST_NAMED = 3
"""Of these, how many are named."""


class Manifests:
    """Plain objects of many kinds in one mapping."""

    def __init__(self, cache: Changing, journals: Iterable[Journal] = ()) -> None:
        """`journals`: whom to tell of each change; more may be added to them later."""
        self._cache = cache
        self._journals = journals
        self._all = Catalog()
        self._changes: dict[ObjectKey, Mapping[str, Any] | None] = {}
        """What has come and gone (None) since `_all` was made."""

    def of(self, group: str, kind: str, keeps: Keeps | None = None, as_read: AsRead | None = None) -> "ManifestsOfKind":
        """A sink of one kind. There may be several, each for other objects of it. `keeps`: which; None: all."""
        return ManifestsOfKind(self, group, kind, keeps, as_read)

    def all(self) -> Catalog:
        """Everything kept; the same object until something changes."""
        if self._changes:
            self._all, self._changes = self._all.changed(self._changes), {}
        return self._all

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A change is made within it."""
        with self._cache.changing(captured=False):
            yield

    def keep(self, key: ObjectKey, manifest: Mapping[str, Any] | None) -> None:
        """Keep a manifest, or (None) forget it."""
        self._changes[key] = manifest
        if len(self._changes) > _MOST_CHANGES:  # nobody asks, as long as another replica leads
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
        """May be exchanged before everything is listed anew."""
        self._group = group
        self._kind = kind
        self._keeps = keeps
        self._keys: set[ObjectKey] = set()
        self._failed: dict[ObjectKey, str] = {}
        """Objects that we fail to read, and by which error."""
        self._more_failed = False
        self.left_out = ""
        """Which objects are not here because we fail to read them, for a person; "": none."""

    def replace(self, objects: Sequence[dict[str, Any]], api_version: str) -> None:
        """These are all there are. The API server leaves version and kind out of a list's items."""
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
        """This one is new or changed."""
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
        """This one is gone."""
        key, before = self._key(thing), self.left_out
        self._failed.pop(key, None)
        self._tell()
        if self._unheard_of(key) and self.left_out == before:
            return
        with self._manifests.changing():
            self._forget(key)

    def _worth(self, thing: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What is kept of an object; None: nothing. One that we fail to read must not hide all others."""
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
