"""The live feed of the live page, `/v1/changes`: long polling for changes of gangs and nodes.

A viewer is an open live page. One thread reads the caches twice a second for all viewers, and stops when no viewer
requests changes. A viewer sends the stamp of its last answer. It gets an answer when something has changed since then,
or after `WAIT_SECONDS`. The answer has the changed gangs and nodes, and the names of removed ones. The answer has
everything if the viewer is new, if another replica sent its last answer, or if a topology has changed.
"""

import gzip
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import msgspec

from gangs.mirrors import key_text
from timing.clock import SYSTEM_CLOCK, Clock
from webhook.following import Follower, Observation
from webhook.live_view import data
from webhook.live_view.answer_rates import AnswerRates

LOG = logging.getLogger(__name__)

CHANGES = "/v1/changes"
"""The path of the feed. Its requests wait for changes, so they have their own pool of threads (`webhook.serving`)."""
LOOK_SECONDS = 0.5
"""Seconds between two reads of the caches."""
WAIT_SECONDS = 10.0
"""Seconds after which a viewer is answered even if nothing has changed."""
IDLE_SECONDS = 60.0
"""Seconds without a request after which the feed stops reading the caches."""
MOST_GONE = 10_000
"""The most names of removed gangs or nodes in memory. If there are more, all names are dropped. Then a viewer with an
older answer gets all data anew, because the server does not know any more what to remove from the viewer's data.
"""
ANSWERS_A_SECOND, ANSWERS_AT_ONCE = 2, 8
"""The rate and the burst of answers to one viewer that do not wait for a change."""
MOST_KEPT = 8
"""The most encoded answers in the cache. Most viewers have the same stamp and share an answer."""

Json = dict[str, Any]
Following = Callable[[], AbstractContextManager[Follower]]


COMPRESSED_FROM = 100_000
"""The size in bytes from which sending an answer costs more than compressing it."""


class FeedAnswer:
    """An answer of the live feed `/v1/changes` as JSON, encoded once for all viewers with the same stamp."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain

    @cached_property
    def compressed(self) -> bytes | None:
        """The answer compressed by gzip; None if it is smaller than `COMPRESSED_FROM`.

        The compression level is 1, because higher levels take three times as long and save a fifth.
        """
        return gzip.compress(self.plain, 1, mtime=0) if len(self.plain) >= COMPRESSED_FROM else None


class Tracked:
    """The JSON data of gangs or nodes by name, and for each name the version of the live feed that last changed it."""

    def __init__(self) -> None:
        self.shown: dict[str, Json] = {}
        """The JSON data by name."""
        self._made_of: dict[str, tuple[object, ...]] = {}
        """By name: the objects from which its JSON data was computed."""
        self._changed: dict[str, int] = {}
        """By name: the version in which its JSON data last changed."""
        self._gone: dict[str, int] = {}
        """By removed name: the version in which it was removed."""

    def update(self, version: int, made_of: Mapping[str, tuple[object, ...]], show: Callable[[str], Json]) -> bool:
        """Update the data to a new version of the feed. Return whether the data of any name has changed.

        :param made_of: all names, each with the objects from which its JSON data is computed. The data of other names
            is removed.
        :param show: computes the JSON data of a name. It is called only if one of the name's objects is a different
            Python object than before.
        """
        different = False
        for name, parts in made_of.items():
            if _same(self._made_of.get(name, ()), parts):
                continue
            shown = show(name)
            if self.shown.get(name) != shown:
                self.shown[name], self._changed[name] = shown, version
                self._gone.pop(name, None)
                different = True
        for name in self._made_of.keys() - made_of.keys():
            del self.shown[name], self._changed[name]
            self._gone[name] = version
            different = True
        self._made_of = dict(made_of)
        return different

    def since(self, version: int) -> tuple[dict[str, Json], list[str]]:
        """Return the JSON data that has changed after this version, by name, and the names removed after it."""
        changed = {name: self.shown[name] for name, at in self._changed.items() if at > version}
        return changed, [name for name, at in self._gone.items() if at > version]

    def forget_gone(self) -> bool:
        """If more than `MOST_GONE` names of removed entries are kept, drop all of them. Return whether they were
        dropped.
        """
        if len(self._gone) <= MOST_GONE:
            return False
        self._gone.clear()
        return True


def _same(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether both sequences hold the same Python objects in the same order."""
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


class LiveFeed:
    """Answers `/v1/changes`. While viewers send requests, a thread of its own reads the caches.

    Safe to share between threads.
    """

    def __init__(
        self,
        following: Following,
        *,
        look_seconds: float = LOOK_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._following = following
        self._look_seconds = look_seconds
        self._idle_seconds = idle_seconds
        self._news = threading.Condition()
        self._looking = False
        self._closed = False
        self._asked = 0.0
        self._waiting = 0
        self._failures = 0
        self._rates = AnswerRates(ANSWERS_A_SECOND, ANSWERS_AT_ONCE)
        self._clear()

    def changes(self, since: str, seconds: float = WAIT_SECONDS, who: str = "") -> FeedAnswer | None:
        """Wait up to `seconds` for a change. Return the changes since the answer with the stamp `since`.

        None if no read of the caches has succeeded yet.

        :param since: the stamp of the viewer's last answer. A viewer with an old stamp does not wait for a change.
        :param who: an identifier of the viewer, by which its rate of answers is limited; "": no limit.
        """
        until = self._clock.monotonic() + min(max(seconds, 0.0), WAIT_SECONDS)
        with self._news:
            self._asked = self._clock.monotonic()
            self._ensure_looking()
            failures = self._failures

            def over() -> bool:
                return self._closed or self._failures != failures

            self._waiting += 1
            try:
                self._news.wait_for(lambda: self._version or over(), self._left(until))
                if who and since != self._stamp:
                    self._news.wait_for(over, self._rates.pause(who, self._clock.monotonic()))
                self._news.wait_for(lambda: over() or since != self._stamp, self._left(until))
            finally:
                self._waiting -= 1
            return self._answer(since) if self._version else None

    def latest(self, seconds: float) -> Observation | None:
        """Return the last observation of the cluster; None if there is none within `seconds`.

        The feed reads the caches for `IDLE_SECONDS` after the call, as for a viewer.
        """
        until = self._clock.monotonic() + seconds
        with self._news:
            self._asked = self._clock.monotonic()
            self._ensure_looking()
            failures = self._failures
            self._waiting += 1
            try:
                self._news.wait_for(
                    lambda: self._version or self._closed or self._failures != failures, self._left(until)
                )
            finally:
                self._waiting -= 1
            return self._look

    def close(self) -> None:
        """Answer all waiting viewers, and stop reading the caches."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _left(self, until: float) -> float:
        return max(0.0, until - self._clock.monotonic())

    def _clear(self) -> None:
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._whole_since = 0
        """A viewer whose last answer has an earlier version gets everything."""
        self._look: Observation | None = None
        self._gangs, self._nodes = Tracked(), Tracked()
        self._topologies: list[Json] = []
        self._trees: tuple[object, ...] = ()
        self._encoded: dict[int, FeedAnswer] = {}

    @property
    def _stamp(self) -> str:
        return f"{self._epoch}-{self._version}"

    def _answer(self, since: str) -> FeedAnswer:
        epoch, _, text = since.partition("-")
        known = epoch == self._epoch and text.isdecimal() and len(text) < 19  # noqa: PLR2004 -- a 64-bit number
        version = min(int(text), self._version) if known else -1
        version = version if version >= self._whole_since else -1
        if version not in self._encoded:
            if len(self._encoded) >= MOST_KEPT:
                self._encoded.clear()
            self._encoded[version] = FeedAnswer(msgspec.json.encode(self._content(version)))
        return self._encoded[version]

    def _content(self, version: int) -> Json:
        gangs, gone_gangs = self._gangs.since(version)
        nodes, gone_nodes = self._nodes.since(version)
        answer = {"stamp": self._stamp, "whole": version < 0, "gangs": gangs, "nodes": nodes}
        gone = {"goneGangs": gone_gangs, "goneNodes": gone_nodes}
        return {**answer, "topologies": self._topologies} if version < 0 else {**answer, **gone}

    def _ensure_looking(self) -> None:
        if not self._looking and not self._closed:
            self._looking = True
            threading.Thread(target=self._run, name="live-feed", daemon=True).start()

    def _run(self) -> None:
        """Read the caches repeatedly until the feed is closed or idle. Runs in the feed's thread."""
        try:
            with self._following() as follower:
                while self._wanted():
                    if (look := follower.look()) is not None:
                        self._take(look)
                    self._clock.sleep(self._look_seconds)
        except Exception:
            LOG.exception("the live feed ends; it begins anew when somebody asks")
            with self._news:
                self._failures += 1
                self._end()

    def _wanted(self) -> bool:
        """Whether the thread must go on reading the caches. An idle feed ends here; the next request restarts it."""
        with self._news:
            if self._closed:
                return False
            if not self._waiting and self._clock.monotonic() - self._asked >= self._idle_seconds:
                self._end()
            return self._looking

    def _end(self) -> None:
        self._looking = False
        self._clear()
        self._news.notify_all()

    def _take(self, look: Observation) -> None:
        """Compare an observation of the cluster with the last one. If the data of the live page differ, begin a new
        version of the feed and answer the waiting viewers.
        """
        shown = data.GangsShown(look.sources, look.topologies)
        gangs = {key_text(each.key): each for each in look.gangs}
        states = {state.name: state for state in look.snapshot.nodes}
        trees = data.trees(look.topologies, states)
        with self._news:
            self._look = look
            version = self._version + 1
            different = self._gangs.update(
                version,
                {name: (gang, shown.status(gang), *look.topologies) for name, gang in gangs.items()},
                lambda name: shown.gang(gangs[name]),
            )
            different |= self._nodes.update(
                version, {name: (state,) for name, state in states.items()}, lambda name: data.cell(states[name])
            )
            paths = tuple(each.path_of for each in trees)
            if paths != self._trees:
                self._trees = paths
                self._topologies = [data.places(each) for each in trees]
                self._whole_since, different = version, True
            if self._gangs.forget_gone() | self._nodes.forget_gone():
                self._whole_since = version
            if different or not self._version:
                self._version = version
                self._encoded = {}
                self._news.notify_all()
