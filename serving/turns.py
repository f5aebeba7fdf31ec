"""A fair queue in which requests wait for a thread: the sources of requests, such as client addresses, take turns.

If too many requests wait, the latest request of the source with the most waiting ones is refused ("longest queue drop",
B. Suter et al., Infocom 1998). So a source with few requests is not refused because of a source with many.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class OverloadedError(Exception):
    """The request is refused, because too many requests wait already."""


class OverdrawnError(OverloadedError):
    """The request is refused, because its source has too many requests that wait or are being answered."""


class Turns:
    """A fair queue of requests, for one event loop.

    :param threads: the most requests that are answered at a time.
    :param waiting: the most requests that wait.
    :param most_each: the most requests of one source that wait or are answered; None: no such limit.
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
        """Wait until a request of this source may use a thread, which it does during the `with` block.

        :raises OverloadedError: if too many requests wait, or if the source has too many requests.
        """
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
        """Count one more request of the source during the `with` block.

        :raises OverdrawnError: if the source has `most_each` requests already.
        """
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
                self._next()  # the request got a thread that it will not use
            else:
                self._forget(source, place)
            raise

    def _make_room(self, source: str) -> bool:
        """Refuse the latest request of the source with the most waiting requests, so that `source` can wait.

        Return False, without a refusal, if `source` itself has the most.
        """
        longest = max(self._queues, key=lambda each: len(self._queues[each]), default=source)
        if len(self._queues.get(source, ())) + 1 >= len(self._queues.get(longest, ())):
            return False
        place = self._queues[longest].pop()
        self._queued -= 1
        place.set_exception(OverloadedError())
        return True

    def _next(self) -> None:
        """Give a free thread to the next waiting request: of the source whose last turn is longest ago."""
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
