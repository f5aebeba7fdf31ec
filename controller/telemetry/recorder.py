"""Writes events on gangs, pods and victims, in events.k8s.io/v1.

Recording never blocks and never fails its caller. A thread writes events from a bounded queue, in turns of the
namespaces, and counts events that could not be written. Identical events in a row become a series, as in client-go's
recorder: one object, whose count and last time are renewed at most once a minute.
"""

import contextlib
import logging
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
from kubernetes.client.exceptions import ApiException, NotFoundException
from prometheus_client import Counter

from cluster.api.transport import (
    MERGE_PATCH,
    ONLY_METADATA,
    UNREACHABLE,
    Timeout,
    Transport,
    message_of,
    namespace_ends,
)
from controller.telemetry.event_turns import FairMemory, FairQueue
from controller.telemetry.events import Reason
from gangs.model import ObjectRef
from kube.keys import REPORTING_CONTROLLER
from kube.text import one_line
from timing.clock import SYSTEM_CLOCK, Clock, micro_time

LOG = logging.getLogger(__name__)

SERIES_SECONDS = 600.0
"""Seconds. If an identical event follows within this time, it is counted in the series of the last one."""
RENEW_SECONDS = 60.0
"""The least seconds between two writes of one series."""

_QUEUE_SIZE = 2000
_MOST_SERIES = 5000
"""The most series that are remembered, a few KB each. An event of a forgotten series begins a new one."""
_NOTE_BYTES = 1024
_INSTANCE_BYTES = 128
_NAME_LENGTH = 253
_TRIES = 3
_NANOSECONDS = 1_000_000_000
_SERIAL = count()
"""A counter that makes names unique for events that were recorded in the same microsecond."""
_TIMEOUT: Timeout = (2.0, 5.0)

EVENTS = Counter("phalanx_events_total", "Events by outcome.", ("reason", "outcome"))


@dataclass(frozen=True, slots=True)
class _Sighting:
    """An event to be recorded. `at`: when it happened, in seconds since the epoch."""

    ref: ObjectRef
    reason: Reason
    note: str
    related: ObjectRef | None
    at: float

    @property
    def identity(self) -> tuple[Any, ...]:
        return (self.ref, self.ref.uid, self.reason.name, self.note, self.related)


@dataclass(slots=True)
class _Series:
    """An Event object in the cluster that represents a series of identical events.

    `path`: its API path. `count`: how often the event happened; `written`: the count that the object shows.
    `last`: when the event happened last; `renewed`: when the object was written last; both in seconds since the epoch.
    """

    path: str
    count: int
    written: int
    last: float
    renewed: float


@dataclass(frozen=True, slots=True)
class _Behind:
    """A queued request to write the present count of a series. `identity`: of its events (`_Sighting.identity`)."""

    identity: tuple[Any, ...]


class Recorder:
    """Records events on objects in the cluster. Safe to share between threads. Call `close` at the end.

    :param instance: the name of this replica, which is written into each event.
    :param series_seconds: within this time, identical events become one series.
    :param renew_seconds: the least time between two writes of a series.
    :param threaded: whether a thread of the recorder writes the events; if not, the caller calls `write_queued`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        instance: str,
        reporting_controller: str = REPORTING_CONTROLLER,
        series_seconds: float = SERIES_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        threaded: bool = True,
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._instance = _cut(instance, _INSTANCE_BYTES)
        self._controller = reporting_controller
        self._series_seconds = series_seconds
        self._renew_seconds = renew_seconds
        self._queue: FairQueue[_Sighting | _Behind] = FairQueue(_QUEUE_SIZE, _count_lost)
        self._closing = threading.Event()
        self._over = threading.Event()
        self._swept = clock.monotonic()
        """The monotonic time at which all series were last checked for outdated counts and for their end."""
        self._series: FairMemory[tuple[Any, ...], _Series] = FairMemory(_MOST_SERIES)
        self._thread = threading.Thread(target=self._work, name="events", daemon=True)
        if threaded:
            self._thread.start()

    def record(self, ref: ObjectRef, reason: Reason, note: str, *, related: ObjectRef | None = None) -> None:
        """Record that something happened to `ref`. Returns at once and never raises.

        :param note: a full sentence for a person; cut at 1,024 bytes.
        :param related: a second object, such as the gang for which a victim was evicted.
        """
        sighting = _Sighting(ref, reason, _cut(one_line(note), _NOTE_BYTES), related, self._clock.wall().timestamp())
        self._queue.put((ref.namespace, sighting))

    def close(self, timeout: float = 2.0) -> None:
        """Write the queued events, for at most `timeout` seconds, and stop."""
        self._closing.set()
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._over.set()
        if self._thread.is_alive():
            LOG.warning("events: not all were written in %g s; the others are lost", timeout)

    def write_queued(self) -> None:
        """Write the events that are queued now. Only for a recorder without a thread."""
        with contextlib.suppress(queue.Empty):
            while (turn := self._queue.get_nowait()) is not None:
                self._take(*turn)
        self._sweep_if_due()

    def _work(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(queue.Empty):
                turn = self._queue.get(timeout=self._renew_seconds)
                if turn is None:
                    break
                self._take(*turn)
            self._sweep_if_due()
        self._sweep(everything=True)

    def _sweep_if_due(self) -> None:
        now = self._clock.monotonic()
        if now - self._swept >= self._renew_seconds:
            self._sweep()
            self._swept = now

    def _take(self, namespace: str, what: _Sighting | _Behind) -> None:
        series = self._series.get((namespace, what.identity))
        if isinstance(what, _Behind):
            if series is not None and series.written < series.count:
                self._renew(namespace, what.identity, series)
        elif series is None or what.at - series.last > self._series_seconds:
            self._begin(namespace, what)
        else:
            series.count += 1
            series.last = what.at
            EVENTS.labels(what.reason.name, "repeated").inc()
            if what.at - series.renewed >= self._renew_seconds:
                self._renew(namespace, what.identity, series)

    def _begin(self, namespace: str, sighting: _Sighting) -> None:
        event = event_of(sighting.ref, sighting.reason, sighting.note, related=sighting.related, at=sighting.at)
        event |= {"reportingController": self._controller, "reportingInstance": self._instance}
        path = _events_path(event["metadata"]["namespace"])
        written = self._send("POST", path, event)
        EVENTS.labels(sighting.reason.name, "written" if written else "failed").inc()
        if written:
            path = f"{path}/{event['metadata']['name']}"
            self._series[namespace, sighting.identity] = _Series(path, 1, 1, sighting.at, sighting.at)

    def _renew(self, namespace: str, identity: tuple[Any, ...], series: _Series) -> None:
        patch = {
            "series": {"count": series.count, "lastObservedTime": micro_time(datetime.fromtimestamp(series.last, UTC))}
        }
        series.renewed = self._clock.wall().timestamp()
        if self._send("PATCH", series.path, patch, MERGE_PATCH):
            series.written = series.count
        else:
            self._series.pop((namespace, identity), None)  # it may have expired: the next event begins a new series

    def _sweep(self, *, everything: bool = False) -> None:
        """Queue a write for each Event object whose count in the cluster is outdated. Forget each series of identical
        events that has ended.

        The queue serves the namespaces in turn.

        :param everything: write all outdated counts now instead of queueing them, because the recorder stops.
        """
        now = self._clock.wall().timestamp()
        for (namespace, identity), series in list(self._series.items()):
            if self._over.is_set():
                return
            if series.written < series.count and everything:
                self._renew(namespace, identity, series)
            elif series.written < series.count and now - series.renewed >= self._renew_seconds:
                series.renewed = now
                self._queue.put((namespace, _Behind(identity)))
            elif now - series.last > self._series_seconds:
                self._series.pop((namespace, identity), None)

    def _send(self, method: str, path: str, body: Mapping[str, Any], content_type: str = "application/json") -> bool:
        for attempt in range(1, _TRIES + 1):
            try:
                self._transport.request(
                    method,
                    path,
                    body=body,
                    content_type=content_type,
                    timeout=_TIMEOUT,
                    headers={"Accept": ONLY_METADATA},
                    kind=msgspec.Raw,
                )
            except NotFoundException:
                return False  # the event has expired, or its namespace is gone
            except ApiException as error:
                ends = namespace_ends(error)  # no user will read events of such a namespace
                LOG.log(logging.DEBUG if ends else logging.WARNING, "event not written: %s", message_of(error))
                return False
            except UNREACHABLE as error:
                LOG.warning("event not written, try %d of %d: %s", attempt, _TRIES, message_of(error))
                if self._clock.wait(self._closing, attempt):
                    return False
            else:
                return True
        return False


def _count_lost(what: _Sighting | _Behind) -> None:
    """Count an event that the full queue dropped. A dropped write of a count is not an event: it is queued again."""
    if isinstance(what, _Sighting):
        EVENTS.labels(what.reason.name, "dropped").inc()


def event_of(
    ref: ObjectRef, reason: Reason, note: str, *, related: ObjectRef | None = None, at: float
) -> dict[str, Any]:
    """Return the Event object without its reporter. `at`: seconds since the epoch.

    Events on cluster-scoped objects are in the namespace "default" (a rule of the API).
    """
    suffix = f".{round(at * _NANOSECONDS) + next(_SERIAL):x}"
    event: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": ref.name[: _NAME_LENGTH - len(suffix)] + suffix, "namespace": ref.namespace or "default"},
        "eventTime": micro_time(datetime.fromtimestamp(at, UTC)),
        "type": reason.kind.value,
        "reason": reason.name,
        "action": reason.action,
        "note": note,
        "regarding": _reference(ref),
    }
    if related is not None:
        event["related"] = _reference(related)
    return event


def _reference(ref: ObjectRef) -> dict[str, str]:
    fields = {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
    }
    return {key: value for key, value in fields.items() if value}


def _events_path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def _cut(text: str, size: int) -> str:
    raw = text.encode()
    if len(raw) <= size:
        return text
    return raw[: size - 3].decode(errors="ignore") + "…"
