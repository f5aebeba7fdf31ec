"""A small HTTP port beside the main work of a process, for health probes and metrics. It runs in a thread of its
own.
"""

import asyncio
import socket
import threading
from contextlib import suppress

from serving.application import WSGI, Application, Pool
from serving.limits import BACKLOG, ConnectionLimits
from serving.port import ContextOf, Port

SMALL = ConnectionLimits(
    connections=100,
    handshake_seconds=5.0,
    request_seconds=5.0,
    answer_seconds=30.0,
    keep_seconds=30,
    head_bytes=16 * 1024,
    body_bytes=0,
    bodies_bytes=64 * 1024,
)
"""The limits of a port that only health probes and a few scrapers of metrics use."""
END_SECONDS = 2.0
"""The most seconds for answers to received requests when the port stops."""


class BackgroundPort:
    """Serves a WSGI application on a port, in an event loop and a few threads of its own, until `stop`.

    :param context_of: returns the TLS context of the next connection. None: the port is served without TLS.
    :raises OSError: if the port is not available.
    """

    def __init__(
        self, name: str, address: tuple[str, int], application: WSGI, context_of: ContextOf | None = None
    ) -> None:
        host, port = address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._name = name
        self._listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._application = application
        self._context_of = context_of
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.port = int(self._listening.getsockname()[1])

    def start(self) -> None:
        """Start to serve, in a thread. The port is open already, since the object was created."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close the port."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(END_SECONDS * 2)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._serve())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    def _cancel(self) -> None:
        self._task.cancel()

    async def _serve(self) -> None:
        application = Application(self._application, {self._name: Pool(2, 20)}, lambda _: self._name, SMALL)
        port = Port(self._listening, application, SMALL, self._context_of)
        try:
            await port.serve()
        finally:
            await port.end(END_SECONDS)
