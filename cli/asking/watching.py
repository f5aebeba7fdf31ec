"""Implements `--watch`: yields the changes of objects (`changes`), or prints a text again if it changes (`redraw`)."""

import queue
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from cluster.api.transport import Transport
from cluster.caches.reflector import Reflector
from gangs.model import Manifest
from kube.text import one_line_each

INTERVAL = 1.0
"""Seconds between two renderings in `redraw`."""
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""The control sequence that clears a terminal (ECMA-48): home, erase the screen, erase the lines scrolled away."""

Change = tuple[Manifest, bool]
"""A new or changed object with True, or the last version of a deleted object with False."""


class Changes:
    """A sink for a reflector (`cluster.caches.reflector.Sink`) that passes each change of an object on, once.

    :param known: the objects that the caller has printed already. They are passed on only when they change.
    :param to: called with each change.
    :param keep: returns whether an object is of interest. Other objects are ignored.
    """

    def __init__(
        self, known: Iterable[Manifest], to: Callable[[Change], None], keep: Callable[[Manifest], bool] = bool
    ) -> None:
        self._known = {_uid(each): each for each in known}
        self._to = to
        self._keep = keep

    def replace(self, objects: Sequence[dict[str, Any]], api_version: str) -> None:  # noqa: ARG002 -- the protocol's
        """Compare the known objects with a full list, and pass on each difference. A known object that is not in the
        list is passed on as deleted.
        """
        gone = self._known.keys() - {_uid(each) for each in objects}
        for uid in sorted(gone):
            self.drop(dict(self._known[uid]))
        for each in objects:
            self.put(each)

    def put(self, item: dict[str, Any]) -> None:
        """Pass an object on to `to` if it is new or its resourceVersion has changed, and `keep` selects it."""
        known = self._known.get(_uid(item))
        newer = known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]
        if newer and self._keep(item):
            self._known[_uid(item)] = item
            self._to((one_line_each(item), True))

    def drop(self, item: dict[str, Any]) -> None:
        """Pass the deletion of an object on to `to`, if the object was known."""
        if self._known.pop(_uid(item), None) is not None:
            self._to((one_line_each(item), False))


def _uid(manifest: Manifest) -> str:
    return str(manifest["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class Source:
    """Objects to watch.

    `path`: the API path of their collection. `known`: the objects that the caller has printed already. `selector`: a
    field selector; None: all. `keep`: returns whether an object is of interest.
    """

    path: str
    known: Sequence[Manifest]
    selector: str | None = None
    keep: Callable[[Manifest], bool] = bool


def changes(transport: Transport, *sources: Source) -> Iterator[Change]:
    """Watch the objects of these sources, and yield each change when it arrives. Return at Ctrl-C."""
    coming: queue.SimpleQueue[Change] = queue.SimpleQueue()
    reflectors = [
        Reflector(
            transport,
            [each.path],
            dict[str, Any],
            Changes(each.known, coming.put, each.keep),
            field_selector=each.selector,
        )
        for each in sources
    ]
    for each in reflectors:
        each.start()
    try:
        while True:
            yield coming.get()
    except KeyboardInterrupt:
        return
    finally:
        for each in reflectors:
            each.stop()


Seen = TypeVar("Seen")


def redraw(look: Callable[[], Seen], render: Callable[[Seen, datetime], str]) -> None:
    """Print a text, and print it again whenever it changes, until Ctrl-C. A terminal is cleared before each print.

    :param look: reads the present state.
    :param render: returns the text for a state and the present time. If only the time changes the text, it is not
        printed again.
    """
    begun, shown = datetime.now(UTC), ""
    with suppress(KeyboardInterrupt):
        while True:
            seen = look()
            if (text := render(seen, begun)) != shown:
                apart = _CLEAR if sys.stdout.isatty() else "\n" if shown else ""
                click.echo(f"{apart}{render(seen, datetime.now(UTC))}", nl=False)
                shown = text
            time.sleep(INTERVAL)
