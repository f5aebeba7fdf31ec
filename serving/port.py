"""One port: it accepts connections, secures them, enforces limits on their number and times, and stops gracefully."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from uvicorn.config import Config
from uvicorn.server import ServerState

from serving.application import Application
from serving.connections import Connection, Connections, State
from serving.http_protocol import Protocol
from serving.limits import ConnectionLimits
from serving.memory import give_back

log = logging.getLogger(__name__)

ContextOf = Callable[[], ssl.SSLContext | None]
"""A function that returns the TLS context of the next connection; None while there is no certificate yet."""
LOOK_SECONDS = 0.25
"""Seconds between two checks for connections whose time limit is over."""
GIVE_BACK_SECONDS = 10.0
"""The least seconds between two calls that return the memory of ended connections to the system."""
ACCEPT_PAUSE_SECONDS = 0.1
"""The pause in seconds after an error of accept itself, such as too many open files."""


class Port:
    """Serves an application on one listening socket, in the running event loop.

    :param context_of: returns the TLS context of the next connection. None: the port is served without TLS.
    """

    def __init__(
        self,
        listening: socket.socket,
        application: Application,
        limits: ConnectionLimits,
        context_of: ContextOf | None = None,
    ) -> None:
        listening.setblocking(False)  # noqa: FBT003 -- the signature is socket's
        self._listening = listening
        self._context_of = context_of
        self._limits = limits
        self._config = Config(
            application,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.keep_seconds,
        )
        self._config.load()
        self._state = ServerState()
        self._leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self.connections = Connections(limits.connections)

    async def serve(self) -> None:
        """Accept and serve connections, and close the ones that exceed their time limits, until cancelled."""
        loop = asyncio.get_running_loop()
        watching = loop.create_task(self._watch())
        try:
            while True:
                try:
                    accepted, address = await loop.sock_accept(self._listening)
                except OSError as error:
                    log.warning("cannot accept a connection: %s", error)
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                    continue
                self._begin(accepted, str(address[0]))
                await self._give_way()
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def leave(self) -> None:
        """From now on, close each connection after its next answer, because the server is about to stop."""
        self._leaving = True
        for each in tuple(self._state.connections):
            if isinstance(each, Protocol):
                each.leaving = True

    async def end(self, seconds: float) -> None:
        """Stop the port: accept no connection, finish answering the received requests, and close all connections.

        :param seconds: the most time for the answers.
        """
        self.leave()
        self._listening.close()
        for each in self.connections:
            if each.state is not State.ANSWERED:
                (each.finish or each.close)()
            elif each.finish is not None:
                each.finish()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (pending := [*self._state.tasks, *self._tasks]) and loop.time() < end:
            await asyncio.wait(pending, timeout=end - loop.time())
        for each in self.connections:
            each.close()

    def _begin(self, accepted: socket.socket, source: str) -> None:
        loop = asyncio.get_running_loop()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        place = Connection(source, _closing(accepted), loop.time() + self._limits.handshake_seconds)
        self.connections.add(place)
        task = loop.create_task(self._secured(accepted, place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_way(self) -> None:
        """Let the event loop process the present connections before the next one is accepted.

        `sock_accept` does not yield to the loop while a client waits to connect. Clients that reconnect as soon as
        their connection is closed would occupy the loop for ever. Also wait while too many handshakes run, because a
        handshake needs some 300 KB.
        """
        await asyncio.sleep(0)
        while len(self._tasks) > self.connections.half:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _secured(self, accepted: socket.socket, place: Connection) -> None:
        """Do the TLS handshake of a connection, and then serve HTTP on it. Close it if the handshake fails."""

        def protocol() -> Protocol:
            made = Protocol(self._config, self._state, place, self.connections, self._limits)
            made.leaving = self._leaving
            return made

        if place not in self.connections:
            accepted.close()
            return
        context = self._context_of() if self._context_of is not None else None
        if context is None and self._context_of is not None:
            self._give_up(accepted, place)
            return
        seconds = self._limits.handshake_seconds if context is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol, accepted, ssl=context, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError is an OSError
            log.debug("no handshake with %s: %s", place.source, error)
            self._give_up(accepted, place)
            _without_frames(error)

    def _give_up(self, accepted: socket.socket, place: Connection) -> None:
        self.connections.remove(place)
        accepted.close()

    async def _watch(self) -> None:
        """Repeatedly close connections over their time limit, and return the memory of ended ones to the system."""
        loop = asyncio.get_running_loop()
        due, before = loop.time(), (0, 0)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for each in self.connections.overdue(loop.time()):
                self.connections.remove(each)
                each.close()
            now = self._accepted, len(self.connections)
            if self._context_of is not None and now != before and loop.time() >= due:
                due, before = loop.time() + GIVE_BACK_SECONDS, now
                await asyncio.to_thread(give_back)


def _closing(accepted: socket.socket) -> Callable[[], None]:
    """Return a function that ends a connection during its handshake, which then fails."""

    def close() -> None:
        with suppress(OSError):
            accepted.shutdown(socket.SHUT_RDWR)

    return close


def _without_frames(error: BaseException | None) -> None:
    """Remove the tracebacks of an error and its causes, whose frames would keep the connection's buffers in memory."""
    while error is not None:
        error.__traceback__, error = None, error.__context__
