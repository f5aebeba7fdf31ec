"""A small TCP balancer that does what a Service does: new connections go to the backends that are ready, in turn.

A thread for each backend asks the backend's own `/readyz` now and then, as a kubelet does. A slow backend therefore
does not delay the readiness of the others. A connection stays with its backend until one side closes it. The balancer
retries nothing.
"""

import asyncio
import contextlib
import itertools
import threading
from http import HTTPStatus
from types import TracebackType
from typing import Protocol, Self

PROBE_SECONDS = 0.2
PATIENCE = 60.0


class Backend(Protocol):
    """A server on a port of the loopback that reports whether it is ready."""

    @property
    def port(self) -> int:
        """Where connections are led to."""

    def readiness(self) -> tuple[int, str]:
        """Status and text of its `/readyz`."""


class Balancer:
    """Listens on a port of the loopback while it is used as a context manager."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.refused = 0
        self._backends: list[Backend] = []
        self._ready: tuple[Backend, ...] = ()
        self._changing = threading.Lock()
        self._turn = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)]

    def __enter__(self) -> Self:
        """Listen."""
        self._threads[0].start()
        started = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = started.result(PATIENCE)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more, and cut what is left."""
        self._over.set()
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        for each in self._threads:
            each.join(PATIENCE)
        self._loop.close()

    @property
    def ready(self) -> tuple[Backend, ...]:
        """The backends that new connections go to."""
        return self._ready

    def add(self, backend: Backend) -> None:
        """Add a backend; it gets connections once it is ready."""
        self._backends = [*self._backends, backend]
        thread = threading.Thread(target=self._probe, args=(backend,), name=f"probes of {backend.port}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def remove(self, backend: Backend) -> None:
        """Forget a backend that has ended."""
        with self._changing:
            self._backends = [each for each in self._backends if each is not backend]
            self._ready = tuple(each for each in self._ready if each is not backend)

    def _probe(self, backend: Backend) -> None:
        while backend in self._backends and not self._over.wait(PROBE_SECONDS):
            ready = backend.readiness()[0] == HTTPStatus.OK
            with self._changing:
                others = [each for each in self._ready if each is not backend]
                known = ready and backend in self._backends
                self._ready = (*others, backend) if known else tuple(others)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = self._ready
        self.connections += 1
        if not ready:
            self.refused += 1
            writer.close()
            return
        port = ready[next(self._turn) % len(ready)].port
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self.refused += 1
            writer.close()
            return
        try:
            await asyncio.gather(_pass_on(reader, to_writer), _pass_on(to_reader, writer))
        finally:
            for each in (writer, to_writer):
                each.close()

    async def _cut(self) -> None:
        self._server.close()
        tasks = [each for each in asyncio.all_tasks(self._loop) if each is not asyncio.current_task()]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until it ends, then end it on the other side too."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
