"""The events of a gang: on its Gang object, on its pods, and on what makes these."""

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
"""Owners whose own events are looked up: a workload that cannot make its pods says so there."""


class TooManyEventsError(Exception):
    """There are more than may be read."""


class ReadingLimit:
    """How many pages of events may be read, and until when."""

    def __init__(self, pages: float = math.inf, seconds: float = math.inf, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pages = pages
        self._until = self._clock.monotonic() + seconds

    def next_page(self) -> Timeout:
        """The time for one more. Raises `TooManyEventsError`."""
        left = self._until - self._clock.monotonic()
        self._pages -= 1
        if left <= 0 or self._pages < 0:
            raise TooManyEventsError
        connect, read = TIMEOUT
        return min(connect, left), min(read, left)


def history(
    transport: Transport, manifest: Manifest, pods: Sequence[Pod], limit: ReadingLimit | None = None
) -> Iterator[Manifest]:
    """Events on the Gang object; and others' warnings on what makes its pods, which may be why some are missing.

    Nothing in them is left that a terminal would obey. Raises as `Transport.open` does, as all of this module, and
    `TooManyEventsError` at the limit.
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
    """Warnings on these pods."""
    limit = limit or ReadingLimit()
    uids = {each.metadata.uid for each in pods}
    for namespace in sorted({each.metadata.namespace for each in pods}):
        for event in _events(transport, namespace, POD_WARNINGS, limit):
            if event["involvedObject"].get("uid") in uids:
                yield event


def events_path(namespace: str) -> str:
    """Where the events of a namespace are."""
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
