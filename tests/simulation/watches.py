"""Watch events on their way to the processes: late, repeated, or lost with the watch, which then lists again."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from local_api.resources import Resource, address
from local_api.server import LocalApi
from local_api.store import Event

from cluster.caches.reflector import Reflector
from simulation.choices import Choices
from simulation.engine import Engine
from simulation.network import Process

DELAYS = (0.003, 0.0, 0.05, 0.6, 3.0)
"""Seconds until an event arrives: usual, none, slow, late, very late."""
_EXPIRED = msgspec.json.encode({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "simulated"}})
_GOES_ON, _REPEATS, _EXPIRES = range(3)


class WatchHub:
    """Holds the feeds of all processes, and passes on every change of the store.

    `delay_weights`: of `DELAYS`. `mishap_weights`: that an event arrives once, twice, or that the watch expires.
    """

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.delay_weights: Sequence[int] = (1, 0, 0, 0, 0)
        self.mishap_weights: Sequence[int] = (1, 0, 0)
        self._feeds: defaultdict[Resource, list[Feed | PlainFeed]] = defaultdict(list)
        self._sent = 0
        self._encoded: dict[int, bytes] = {}

    def pass_on(self) -> None:
        """Send each new change to every feed of its resource."""
        history = self.api.store.history
        while self._sent < len(history):
            event = history[self._sent]
            self._sent += 1
            for feed in self._feeds[event.resource]:
                feed.send(event)

    def encoded(self, event: Event) -> bytes:
        """The event as a line of a watch."""
        line = self._encoded.get(event.version)
        if line is None:
            line = self._encoded[event.version] = msgspec.json.encode({"type": event.kind, "object": event.object})
        return line

    def add(self, feed: "Feed | PlainFeed") -> None:
        """Add a feed."""
        self._feeds[feed.resource].append(feed)

    def drop(self, process: Process) -> None:
        """Forget what a process watched."""
        for resource, feeds in self._feeds.items():
            self._feeds[resource] = [feed for feed in feeds if feed.process is not process]

    def delay(self, site: str) -> float:
        """How long an event takes."""
        return self.choices.one_of(site, DELAYS, self.delay_weights)


class Feed:
    """One watch of a controller's reflector."""

    def __init__(self, hub: WatchHub, process: Process, reflector: Reflector[Any], wake: Callable[[], None]) -> None:
        self.hub, self.process, self._reflector, self._wake = hub, process, reflector, wake
        found = address(reflector.name, hub.api.served)
        assert found is not None, reflector.name
        self.resource: Resource = found.resource
        self._site = f"{process.name}/watch/{self.resource.plural}"
        self._last = 0.0
        self._listing = False

    def begin(self) -> None:
        """List for the first time."""
        self._list()

    def send(self, event: Event) -> None:
        """Let the event arrive in its time, after all before it."""
        hub = self.hub
        self._last = max(self._last, hub.engine.now + hub.delay(self._site))
        hub.engine.at(self._last, lambda: self.process.do(lambda: self._arrive(event)))

    def _arrive(self, event: Event) -> None:
        if self._listing or not self._reflector.listed or event.version <= self._reflector.seen:
            return  # the list that is under way, or was last taken, shows it
        mishap = self.hub.choices.pick(f"{self._site}/mishap", self.hub.mishap_weights)
        if mishap == _EXPIRES:
            rest = self._reflector.take(_EXPIRED)
            self.process.later(rest.seconds, self._list)
            return
        line = self.hub.encoded(event)
        self._reflector.take(line)
        if mishap == _REPEATS:
            self._reflector.take(line)
        self._wake()

    def _list(self) -> None:
        """List until that succeeds, then catch up with what has happened since the list was made."""
        self._listing = True
        try:
            rest = self._reflector.list_once()
        finally:
            self._listing = False
        if not self._reflector.listed:
            self.process.later(max(rest.seconds, 0.1), self._list)
            return
        for event in self.hub.api.store.history:
            if event.version > self._reflector.seen and event.resource == self.resource:
                self.send(event)
        self._wake()


class PlainFeed:
    """One watch of a model, which takes the events as they are."""

    def __init__(self, hub: WatchHub, process: Process, resource: Resource, take: Callable[[Event], None]) -> None:
        self.hub, self.process, self.resource, self._take = hub, process, resource, take
        self._site = f"{process.name}/watch/{resource.plural}"
        self._last = 0.0

    def send(self, event: Event) -> None:
        """Let the event arrive in its time, after all before it."""
        self._last = max(self._last, self.hub.engine.now + self.hub.delay(self._site))
        self.hub.engine.at(self._last, lambda: self.process.do(lambda: self._take(event)))
