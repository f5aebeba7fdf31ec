"""An HTTP response that can report, without waiting, whether more data has arrived.

The reader of a watch uses this report to know when a burst of events is over. The duration of a read does not show the
end of a burst, because each read releases the interpreter lock. Beside a busy thread, it takes 5 ms to get the lock
back. For the same reason the response is read in large pieces.
"""

import contextlib
import http.client
import io
import socket
import ssl
from typing import Any

from urllib3.util import wait_for_read

_PIECE = 65_536
"""The most bytes of one read. http.client's own buffer has 8,192 bytes, which is two or three pods."""


class Incoming(http.client.HTTPResponse):
    """A response of http.client with a larger buffer, which can report whether data is available."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._socket = sock
        self._raw = _Raw(self.fp.detach())
        self.fp = io.BufferedReader(self._raw, _PIECE)

    def at_hand(self) -> bool:
        """Whether data or the end of the response can be read without waiting. Only the reading thread may call it."""
        if self.fp is None:
            return False
        return bool(self._buffered()) or _readable(self._socket)

    def _buffered(self) -> bytes:
        """Return some of the buffered data without removing it; empty if there is none.

        `peek` alone would fill an empty buffer from the connection and wait for data.
        """
        self._raw.held = True
        try:
            return self.fp.peek(1)
        finally:
            self._raw.held = False


class _Raw(io.RawIOBase):
    """The raw stream of a connection. While `held` is True, a read does not wait for data: it returns None immediately.

    So the buffer above it can be inspected without waiting.
    """

    def __init__(self, below: io.RawIOBase) -> None:
        super().__init__()
        self._below = below
        self.held = False

    def readable(self) -> bool:
        """Return True: the stream is for reading."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read bytes into the buffer and return their number; None while the stream is held."""
        return None if self.held else self._below.readinto(buffer)

    def fileno(self) -> int:
        """Return the file descriptor of the connection."""
        return self._below.fileno()

    def close(self) -> None:
        """Close the stream, because the response does not need the connection any more."""
        super().close()
        self._below.close()


def _readable(sock: socket.socket) -> bool:
    """Whether a connection has data to read. True if that is unknown, because waiting could delay the reader."""
    # a connection of TLS within TLS, which an HTTPS proxy needs, cannot be asked
    if not isinstance(sock, socket.socket):
        return True
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    # the connection was closed meanwhile: the next read raises the error
    with contextlib.suppress(OSError, ValueError):
        return wait_for_read(sock, timeout=0.0)
    return True
