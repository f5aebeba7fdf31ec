"""What the page shows, as it changes: `/v1/changes`. Two looks a second for all viewers, and none where nobody asks.

A viewer asks with the stamp of its last answer, and is answered once something has changed since, or after a while. It
gets the gangs and nodes that read differently, and the names of those that are gone; where that cannot be told (it has
just come, another replica answered it before, a topology is another one) it gets everything.
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
"""Whoever asks here waits for his answer: he has a thread of a pool of its own (`webhook.serving`)."""
LOOK_SECONDS = 0.5
"""From the end of one look to the next."""
WAIT_SECONDS = 10.0
"""After this long a viewer is answered even if nothing has changed."""
IDLE_SECONDS = 60.0
"""When nobody has asked for so long, nobody looks any more."""
MOST_GONE = 10_000
"""Names that are remembered as gone; who has not heard of more gets everything."""
ANSWERS_A_SECOND, ANSWERS_AT_ONCE = 2, 8
"""Of those that need not wait for a change, to one who asks; once, so many at once."""
MOST_KEPT = 8
"""Answers that are kept as they are: most viewers have heard of the same."""

Json = dict[str, Any]
Following = Callable[[], AbstractContextManager[Follower]]


COMPRESSED_FROM = 100_000
"""Bytes of an answer from which the way to a viewer costs more than to compress it."""


class FeedAnswer:
    """An answer as JSON, worked out once for all who ask for the same."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain

    @cached_property
    def compressed(self) -> bytes | None:
        """By gzip; None where that is not worth it. At its lowest level: others take thrice as long for a fifth."""
        return gzip.compress(self.plain, 1, mtime=0) if len(self.plain) >= COMPRESSED_FROM else None


class Tracked:
    """Things by name, as they are shown, each with the version at which that last changed."""

    def __init__(self) -> None:
        self.shown: dict[str, Json] = {}
        self._made_of: dict[str, tuple[object, ...]] = {}
        self._changed: dict[str, int] = {}
        self._gone: dict[str, int] = {}

    def update(self, version: int, made_of: Mapping[str, tuple[object, ...]], show: Callable[[str], Json]) -> bool:
        """Take over what there is: by name the objects that it is made of. Whether anything is shown otherwise now.

        `show` is asked where one of these is another object than before.
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
        """What has changed after a version, by name, and the names of what is gone."""
        changed = {name: self.shown[name] for name, at in self._changed.items() if at > version}
        return changed, [name for name, at in self._gone.items() if at > version]

    def forget_gone(self) -> bool:
        """Forget what is gone, where that is much. Whether it was."""
        if len(self._gone) <= MOST_GONE:
            return False
        self._gone.clear()
        return True


def _same(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether these are the same objects, one by one."""
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


class LiveFeed:
    """The answers of `/v1/changes`. Safe to share between threads; it has one of its own while somebody asks."""

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
        """What has changed since an answer with this stamp; waits so long for something to change.

        None where nobody could look so far. `who` asks, where it is to be minded how often that is: whoever has not
        heard of the last change is answered without waiting, but not again and again.
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

    def close(self) -> None:
        """Answer everybody who waits, and look no more."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _left(self, until: float) -> float:
        return max(0.0, until - self._clock.monotonic())

    def _clear(self) -> None:
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._whole_since = 0
        """Who has last heard of an earlier version gets everything."""
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
        """Look until nobody asks any more."""
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
        """Whether anybody asks. Else nobody looks from this very moment on: who asks next has it begun anew."""
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
        """Work out what is shown otherwise now; only that is done while nobody is answered."""
        shown = data.GangsShown(look.sources, look.topologies)
        gangs = {key_text(each.key): each for each in look.gangs}
        states = {state.name: state for state in look.snapshot.nodes}
        trees = data.trees(look.topologies, states)
        with self._news:
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
