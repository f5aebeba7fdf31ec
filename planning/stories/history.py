"""Reads the events of a gang: on its Gang object, on its pods, and on the workloads that create the pods."""

import math
from collections.abc import Iterable, Iterator, Sequence

from cluster.api.transport import Timeout, Transport
from gangs.model import Manifest
from kube.keys import REPORTING_CONTROLLER
from kube.objects import Pod
from kube.text import one_line_each
from timing.clock import SYSTEM_CLOCK, Clock

POD_WARNINGS = "involvedObject.kind=Pod,type=Warning"
TIMEOUT: Timeout = (5.0, 30.0)
PAGE = 500
_OWNERS_ASKED = 3
"""Number of owners whose own events are read. A workload that cannot create its pods reports that in its events."""


class TooManyEventsError(Exception):
    """There are more events than the `ReadingLimit` allows to read."""


class ReadingLimit:
    """Limits the reading of events to a number of pages and a time in seconds."""

    def __init__(self, pages: float = math.inf, seconds: float = math.inf, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pages = pages
        self._until = self._clock.monotonic() + seconds

    def next_page(self) -> Timeout:
        """Count one more page and return its timeout. Raises `TooManyEventsError` if the limit is reached."""
        left = self._until - self._clock.monotonic()
        self._pages -= 1
        if left <= 0 or self._pages < 0:
            raise TooManyEventsError
        connect, read = TIMEOUT
        return min(connect, left), min(read, left)


def history(
    transport: Transport, manifest: Manifest, pods: Sequence[Pod], limit: ReadingLimit | None = None
) -> Iterator[Manifest]:
    """Yield the events on the Gang object, and other components' warnings on the owners of its pods.

    Such a warning may explain why pods are missing. The texts contain no characters that a terminal would interpret.
    Raises the exceptions of `Transport.open`, and `TooManyEventsError` at the limit.
    """
    meta, limit = manifest["metadata"], limit or ReadingLimit()
    yield from _events(transport, meta["namespace"], f"involvedObject.uid={meta['uid']}", limit)
    owners = {owner["uid"]: None for owner in meta.get("ownerReferences", ())}
    owners |= {owner.uid: None for pod in pods for owner in pod.metadata.owner_references if owner.controller}
    for uid in list(owners)[:_OWNERS_ASKED]:
        for event in _events(transport, meta["namespace"], f"involvedObject.uid={uid}", limit):
            if event.get("reportingComponent") != REPORTING_CONTROLLER and event.get("type") == "Warning":
                yield event


def warnings(transport: Transport, pods: Sequence[Pod], limit: ReadingLimit | None = None) -> Iterator[Manifest]:
    """Yield the warning events on these pods. Raises the exceptions of `Transport.open`, and `TooManyEventsError`."""
    limit = limit or ReadingLimit()
    uids = {each.metadata.uid for each in pods}
    for namespace in sorted({each.metadata.namespace for each in pods}):
        for event in _events(transport, namespace, POD_WARNINGS, limit):
            if event["involvedObject"].get("uid") in uids:
                yield event


def events_path(namespace: str) -> str:
    """Return the API path of the events of a namespace."""
    return f"/api/v1/namespaces/{namespace}/events"


def _events(transport: Transport, namespace: str, selector: str, limit: ReadingLimit) -> Iterable[Manifest]:
    token = None
    while True:
        query = {"fieldSelector": selector, "limit": PAGE, "continue": token}
        page = transport.request("GET", events_path(namespace), query=query, timeout=limit.next_page())
        yield from one_line_each(page["items"])
        token = page["metadata"].get("continue")
        if not token:
            return
