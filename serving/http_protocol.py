"""uvicorn's HTTP/1.1 over one connection, with limits in time and size, and a word when the server is about to end."""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from serving.connections import Connection, Connections, State
from serving.limits import ConnectionLimits

PEER_CERTIFICATE = "peer_certificate"
"""Where a request's ASGI state holds the certificate that the client has shown (`ssl.SSLSocket.getpeercert`)."""


class Protocol(HttpToolsProtocol):
    """One connection that has shaken hands. `leaving` is asked once a request: whether this answer is the last one."""

    def __init__(
        self, config: Config, state: ServerState, place: Connection, connections: Connections, limits: ConnectionLimits
    ) -> None:
        super().__init__(config, state, {})
        self._place, self._connections, self._limits = place, connections, limits
        self._head = 0
        self.leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        """The handshake is done."""
        super().connection_made(transport)
        self.app_state[PEER_CERTIFICATE] = transport.get_extra_info("peercert")
        self._place.close, self._place.finish = transport.abort, self.finish
        self._enter(State.STRANGER, self._limits.keep_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended. What would lead back to it is forgotten: its buffers wait for no collector, and for
        no timer either, which uvicorn lets run where the connection was reset.
        """
        self._connections.remove(self._place)
        self._place.close, self._place.finish = _nothing, None
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.cycle = None  # type: ignore[assignment]  # as before the first request

    def data_received(self, data: bytes) -> None:
        """Something has come: the whole request is due from its first byte on."""
        if self._place.state in (State.STRANGER, State.IDLE) and not self._head:
            state = State.STRANGER if self._place.state is State.STRANGER else State.SENDING
            self._enter(state, self._limits.request_seconds)
        self._head += len(data)
        super().data_received(data)
        if self._in_head() and self._head > self._limits.head_bytes:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """The head is there: httptools has no limit of its own for it."""
        super().on_headers_complete()
        if self.leaving:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The whole request is there."""
        super().on_message_complete()
        self._head = 0
        self._enter(State.ANSWERED, self._limits.answer_seconds)

    def on_response_complete(self) -> None:
        """It is answered."""
        self._enter(State.IDLE, self._limits.keep_seconds)
        super().on_response_complete()

    def finish(self) -> None:
        """Close after the answer that is being given; at once where there is none."""
        self.shutdown()

    def _in_head(self) -> bool:
        cycle: Any = self.cycle
        return self._head > 0 and (cycle is None or cycle.response_complete)

    def _enter(self, state: State, seconds: float) -> None:
        self._connections.enter(self._place, state, self.loop.time() + seconds)


def _nothing() -> None:
    """There is nothing to close any more."""
