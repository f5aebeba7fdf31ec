"""What changes, as it changes: objects of a list, or a text that is made anew."""

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
"""Seconds between two looks at what is made anew."""
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""An empty screen, on a terminal (ECMA-48): home, erase the screen, erase what was scrolled away."""

Change = tuple[Manifest, bool]
"""An object, and whether it is there (False: it is gone; this is how it was last)."""


class Changes:
    """A `cluster.caches.reflector.Sink` that hands on what is not known yet, once. `keep`: which objects are meant."""

    def __init__(
        self, known: Iterable[Manifest], to: Callable[[Change], None], keep: Callable[[Manifest], bool] = bool
    ) -> None:
        self._known = {_uid(each): each for each in known}
        self._to = to
        self._keep = keep

    def replace(self, objects: Sequence[dict[str, Any]], api_version: str) -> None:  # noqa: ARG002 -- the protocol's
        """These are all there are."""
        gone = self._known.keys() - {_uid(each) for each in objects}
        for uid in sorted(gone):
            self.drop(dict(self._known[uid]))
        for each in objects:
            self.put(each)

    def put(self, thing: dict[str, Any]) -> None:
        """This one is new or changed."""
        known = self._known.get(_uid(thing))
        newer = known is None or known["metadata"]["resourceVersion"] != thing["metadata"]["resourceVersion"]
        if newer and self._keep(thing):
            self._known[_uid(thing)] = thing
            self._to((one_line_each(thing), True))

    def drop(self, thing: dict[str, Any]) -> None:
        """This one is gone."""
        if self._known.pop(_uid(thing), None) is not None:
            self._to((one_line_each(thing), False))


def _uid(manifest: Manifest) -> str:
    return str(manifest["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class Source:
    """Objects to be watched: where they are, which of them are known already, and which are meant."""

    path: str
    known: Sequence[Manifest]
    selector: str | None = None
    keep: Callable[[Manifest], bool] = bool


def changes(transport: Transport, *sources: Source) -> Iterator[Change]:
    """Every change, as it comes, until Ctrl-C: that is how a watch ends, no fault."""
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
    """Show what is seen, again whenever it has changed, until stopped: in place of the last on a terminal.

    :param render: the text at a time; that only the time has passed is no change.
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
