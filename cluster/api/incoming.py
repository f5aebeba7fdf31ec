"""An answer of which can be told what has come already, without waiting for more.

How long a read takes says nothing about that: each gives up the interpreter, and beside a busy thread it takes 5 ms to
get it back. For the same reason it is read in large pieces.
"""

import contextlib
import http.client
import io
import socket
import ssl
from typing import Any

from urllib3.util import wait_for_read

_PIECE = 65_536
"""Bytes that are read at once: http.client's own buffer has 8,192, which is two or three pods."""


class Incoming(http.client.HTTPResponse):
    """An answer as http.client reads it, with another buffer."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._socket = sock
        self._raw = _Raw(self.fp.detach())
        self.fp = io.BufferedReader(self._raw, _PIECE)

    def at_hand(self) -> bool:
        """Whether something of it can be read without waiting; the end of it counts. For the thread that reads it."""
        if self.fp is None:
            return False
        return bool(self._buffered()) or _readable(self._socket)

    def _buffered(self) -> bytes:
        """What is in the buffer. To look there would fill it, and wait, where it is empty."""
        self._raw.held = True
        try:
            return self.fp.peek(1)
        finally:
            self._raw.held = False


class _Raw(io.RawIOBase):
    """The bytes of a connection as they are read from it; none while `held`."""

    def __init__(self, below: io.RawIOBase) -> None:
        super().__init__()
        self._below = below
        self.held = False

    def readable(self) -> bool:
        """They are to be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read some; None: there are none now."""
        return None if self.held else self._below.readinto(buffer)

    def fileno(self) -> int:
        """The connection's."""
        return self._below.fileno()

    def close(self) -> None:
        """The connection is not needed for this answer any more."""
        super().close()
        self._below.close()


def _readable(sock: socket.socket) -> bool:
    """Whether a connection has something to read. Where nobody can tell it has: to wait could mean to fall behind."""
    if not isinstance(sock, socket.socket):  # TLS within TLS, as a proxy may want it
        return True
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile: whoever reads next is told so
        return wait_for_read(sock, timeout=0.0)
    return True
