"""Whose turn it is: requests wait for a thread by source, and sources take turns.

When more wait than may, the source that has the most waiting loses the request that came last ("longest queue drop",
B. Suter et al., Infocom 1998): whoever asks little is not refused because of one who asks much.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class OverloadedError(Exception):
    """Too many requests wait already."""


class OverdrawnError(OverloadedError):
    """Too many of this source's requests are being answered already."""


class Turns:
    """At most `threads` are answered at a time, at most `waiting` wait; of one source there are at most `most_each`.

    For one event loop.
    """

    def __init__(self, threads: int, waiting: int, most_each: int | None = None) -> None:
        self.waiting = waiting
        self.most_each = most_each
        self._of_each: Counter[str] = Counter()
        self._free = threads
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._queued = 0

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """Wait for a thread, and give it back at the end. Raises `OverloadedError`."""
        with self._counted(source):
            if self._free:
                self._free -= 1
            else:
                await self._wait(source)
            try:
                yield
            finally:
                self._next()

    @contextmanager
    def _counted(self, source: str) -> Iterator[None]:
        """One more of that source is here, until the end. Raises `OverdrawnError`."""
        if self.most_each is None:
            yield
            return
        if self._of_each[source] >= self.most_each:
            raise OverdrawnError
        self._of_each[source] += 1
        try:
            yield
        finally:
            self._of_each[source] -= 1
            if not self._of_each[source]:
                del self._of_each[source]

    async def _wait(self, source: str) -> None:
        if self._queued >= self.waiting and not self._make_room(source):
            raise OverloadedError
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(source, deque()).append(place)
        self._queued += 1
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._next()  # it was given a thread that it will not use
            else:
                self._forget(source, place)
            raise

    def _make_room(self, source: str) -> bool:
        """Refuse the last request of the source that has the most waiting; False where that is `source` itself."""
        longest = max(self._queues, key=lambda each: len(self._queues[each]), default=source)
        if len(self._queues.get(source, ())) + 1 >= len(self._queues.get(longest, ())):
            return False
        place = self._queues[longest].pop()
        self._queued -= 1
        place.set_exception(OverloadedError())
        return True

    def _next(self) -> None:
        """A thread is free: it goes to the source whose turn is longest ago."""
        while self._queues:
            source, queue = self._queues.popitem(last=False)
            place = queue.popleft()
            self._queued -= 1
            if queue:
                self._queues[source] = queue
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _forget(self, source: str, place: asyncio.Future[None]) -> None:
        queue = self._queues.get(source)
        if queue is not None and place in queue:
            queue.remove(place)
            self._queued -= 1
            if not queue:
                del self._queues[source]
