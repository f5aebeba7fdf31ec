"""uvicorn's HTTP/1.1 protocol for one connection, with limits of time and size, and a graceful end before a stop."""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from serving.connections import Connection, Connections, State
from serving.limits import ConnectionLimits

PEER_CERTIFICATE = "peer_certificate"
"""The key of the client certificate in a request's ASGI state (`ssl.SSLSocket.getpeercert`)."""


_CONTINUE = b"HTTP/1.1 100 "
"""The beginning of the interim answer to a client that waits before it sends its body (`Expect: 100-continue`)."""


class _AnswerTransport:
    """The transport for one answer that has a body. It writes the answer's head with the first part of the body.

    uvicorn writes the two separately. Together they take one TLS record and one packet, which costs both sides less.
    """

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None
        """The head of the answer until it is written; then empty. None: uvicorn has not written it yet."""

    def write(self, data: bytes) -> None:
        """Write a part of the answer. The head waits for the next part, which uvicorn writes even if it is empty."""
        if data.startswith(_CONTINUE) and self._head is None:
            self._transport.write(data)
        elif self._head is None:
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def close(self) -> None:
        """Close the connection after the written data is sent."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._transport.is_closing()


class Protocol(HttpToolsProtocol):
    """The HTTP protocol of one connection after its handshake.

    `leaving`: whether the connection is closed after the answer to its next request, because the server is about to
    stop.
    """

    def __init__(
        self, config: Config, state: ServerState, place: Connection, connections: Connections, limits: ConnectionLimits
    ) -> None:
        super().__init__(config, state, {})
        self._place, self._connections, self._limits = place, connections, limits
        self._head = 0
        self.leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        """Called by asyncio when the handshake is done. The time limit for the first request begins."""
        super().connection_made(transport)
        self.app_state[PEER_CERTIFICATE] = transport.get_extra_info("peercert")
        self._place.close, self._place.finish = transport.abort, self.finish
        self._enter(State.STRANGER, self._limits.keep_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio at the end of the connection. Drop all references to it, so its buffers are freed at once.

        Otherwise they would wait for the garbage collector, or for a timer that uvicorn does not stop after a reset.
        """
        self._connections.remove(self._place)
        self._place.close, self._place.finish = _nothing, None
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.cycle = None  # type: ignore[assignment]  # as before the first request

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with received data. The time limit of a request begins with its first byte.

        The connection is aborted if the head of the request is too large.
        """
        if self._place.state in (State.STRANGER, State.IDLE) and not self._head:
            state = State.STRANGER if self._place.state is State.STRANGER else State.SENDING
            self._enter(state, self._limits.request_seconds)
        self._head += len(data)
        super().data_received(data)
        if self._in_head() and self._head > self._limits.head_bytes:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """Called by the parser when a request's headers are complete. If the server is about to stop, this request is
        the last one of the connection.
        """
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # no body follows the head of this answer
            self.cycle.transport = _AnswerTransport(self.transport)  # type: ignore[assignment]  # all that uvicorn uses
        if self.leaving:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Called by the parser when a request is complete. The time limit for its answer begins."""
        super().on_message_complete()
        self._head = 0
        self._enter(State.ANSWERED, self._limits.answer_seconds)

    def on_response_complete(self) -> None:
        """Called by uvicorn when an answer is sent. The connection is idle now, and its idle time limit begins."""
        self._enter(State.IDLE, self._limits.keep_seconds)
        super().on_response_complete()

    def finish(self) -> None:
        """Close the connection after the present answer, or at once if there is none."""
        self.shutdown()

    def _in_head(self) -> bool:
        cycle: Any = self.cycle
        return self._head > 0 and (cycle is None or cycle.response_complete)

    def _enter(self, state: State, seconds: float) -> None:
        self._connections.enter(self._place, state, self.loop.time() + seconds)


def _nothing() -> None:
    """Do nothing, as the `close` of a connection that has ended already."""
