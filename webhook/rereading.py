"""Reads objects from the API server before the webhook refuses another object because of them, or reports them missing.

The caches are a moment old. If a user applies two objects one after the other, the second may contradict the old
version of the first. The webhook would refuse it once, and admit it when the user applies it again. The webhook
therefore reads all objects that led to a refusal again, and repeats the review. One `kubectl apply` may create an
object and the objects that its gang waits for. The webhook reads the latter from the API server as well, so that it
does not report them missing.

Only refusals and new objects that wait cost this time, and `SECONDS` bounds it. Only the author of the object waits.
Pods are admitted from the caches alone.
"""

import logging
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, cast

from cluster.api.single import UnreadError, read_list, read_one
from cluster.api.transport import Transport
from gangs.dialects.table import all_kinds
from gangs.incremental.dependencies import KIND, OBJECT, SOUGHT, ReadInput
from gangs.manifests import key_of
from gangs.resource_kinds import ResourceKind
from gangs.sources import Sources
from kube.catalog import Naming, ObjectKey
from timing.clock import SYSTEM_CLOCK, Clock
from webhook.awaited_objects import AwaitedObject, objects_in

LOG = logging.getLogger(__name__)

SECONDS = 1.0
"""The time limit of all reads of one review."""
MOST = 16
"""The most objects that are read for one review. A list of a whole kind counts as one."""
AT_ONCE = 2
"""The most reviews that read at a time. Other reviews are answered from the caches."""

_KINDS: Mapping[tuple[str, str], ResourceKind] = {(each.group, each.kind): each for each in all_kinds()}


class Rereader:
    """Reads objects from the API server that may be newer than the caches. Safe to share between threads.

    If `AT_ONCE` reviews read already, a call returns the given sources unchanged.
    """

    def __init__(self, transport: Transport, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._transport = transport
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def reread(self, sources: Sources, inputs: Iterable[ReadInput]) -> Sources:
        """Return the sources with the current versions of the objects that a review has read.

        Objects that cannot be read in time stay as they are.

        :param inputs: the look-ups of the review (`ReadSet`).
        """
        if not self._turns.acquire(blocking=False):
            return sources
        try:
            changes = self._read(_places(sources, inputs), self._clock.monotonic() + SECONDS)
        finally:
            self._turns.release()
        return sources.changed(changes)

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """Return the sources, with the objects added that a gang waits for and that exist by now.

        :param awaited: texts of `gangs.model.Gang.waiting_for`, such as `PodGroup team-a/train`.
        """
        if not self._turns.acquire(blocking=False):
            return sources
        try:
            changes = self._find(awaited, self._clock.monotonic() + SECONDS)
        finally:
            self._turns.release()
        return sources.changed(changes) if changes else sources

    def _find(self, awaited: Iterable[str], over: float) -> dict[ObjectKey, Mapping[str, Any] | None]:
        found: dict[ObjectKey, Mapping[str, Any] | None] = {}
        for awaited_object in [each for text in awaited for each in objects_in(text)][:MOST]:
            left = over - self._clock.monotonic()
            if left <= 0:
                break
            try:
                found.update((key_of(each), each) for each in self._read_awaited(awaited_object, left))
            except UnreadError as error:
                LOG.info("%s is not looked for: %s", "/".join(awaited_object.key), error)
        return found

    def _read_awaited(self, awaited: AwaitedObject, seconds: float) -> tuple[Mapping[str, Any], ...]:
        """Read from the API server an object that a gang waits for, such as a PodGroup; empty if it does not exist. If
        `awaited` has no name, read all objects of its kind.
        """
        kind = awaited.kind
        if awaited.name:
            one = self._one(kind, awaited.namespace, awaited.name, seconds)
            return () if one is None else (one,)
        path = f"/apis/{kind.group}/{kind.versions[0]}/{kind.plural}"
        return read_list(self._transport, path, kind.kind, seconds=seconds, most=MOST)

    def _read(
        self, places: Iterable[tuple[ResourceKind, str, str]], over: float
    ) -> dict[ObjectKey, Mapping[str, Any] | None]:
        found: dict[ObjectKey, Mapping[str, Any] | None] = {}
        for kind, namespace, name in places:
            left = over - self._clock.monotonic()
            if left <= 0:
                break
            try:
                found[kind.group, kind.kind, namespace, name] = self._one(kind, namespace, name, left)
            except UnreadError as error:
                LOG.info("%s %s/%s is not read again: %s", kind.kind, namespace, name, error)
        return found

    def _one(self, kind: ResourceKind, namespace: str, name: str, seconds: float) -> Mapping[str, Any] | None:
        where = {"namespace": namespace, "name": name}
        return read_one(self._transport, kind.group, kind.versions, kind.kind, kind.plural, **where, seconds=seconds)


def _places(sources: Sources, inputs: Iterable[ReadInput]) -> Iterator[tuple[ResourceKind, str, str]]:
    """Yield the kind, namespace and name of each object to read again, at most `MOST`.

    Objects that the review has read by key come first, then the results of its lists and searches.
    """
    keys: dict[ObjectKey, None] = {}
    for read_input in sorted(inputs, key=lambda each: (each[0] != OBJECT, str(each))):
        keys.update(dict.fromkeys(_keys(sources, read_input)))
    known = [(kind, key) for key in keys if (kind := _KINDS.get(key[:2])) is not None]
    for kind, (_, _, namespace, name) in known[:MOST]:
        yield kind, namespace, name


def _keys(sources: Sources, read_input: ReadInput) -> Iterator[ObjectKey]:
    """Yield the keys of the objects that one look-up of a review has found.

    The look-up of a single object yields its key even if the object does not exist.
    """
    kind, *about = read_input
    if kind == OBJECT:
        yield cast("ObjectKey", about[0])
    elif kind == KIND:
        yield from map(key_of, sources.catalog.of_kind(*cast("tuple[str, str]", tuple(about))))
    elif kind == SOUGHT:
        yield from map(key_of, sources.catalog.sought(*cast("tuple[str, str, Naming, Hashable]", tuple(about))))
