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
from http import HTTPStatus
from typing import Any

from urllib3 import HTTPHeaderDict
from urllib3.util import wait_for_read

_PIECE = 65_536
"""The most bytes of one read. http.client's own buffer has 8,192 bytes, which is two or three pods."""
_LONGEST_LINE = 65_536
"""The most bytes of a line in the head of a response, as in http.client."""
_MOST_HEADERS = 100
"""The most headers of a response, as in http.client."""
_VERSION = "HTTP/1."
"""The protocol versions that can be read. Responses of HTTP/1.0 count as such of a connection that closes."""


class Incoming(http.client.HTTPResponse):
    """A response of http.client with a larger buffer, which can report whether data is available.

    It reads the head of the response itself: http.client parses each head as an e-mail, which costs more than to
    receive and to decrypt it.
    """

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._asked = arguments[1] if len(arguments) > 1 else options.get("method")
        """The method of the request."""
        self._socket = sock
        self._raw = _Raw(self.fp.detach())
        self.fp = io.BufferedReader(self._raw, _PIECE)
        self.fields = HTTPHeaderDict()
        """The headers of the response, after `begin`."""

    def begin(self) -> None:
        """Read the head of the response, which decides how the body is read.

        :raises http.client.HTTPException: the head is no valid HTTP/1.
        :raises ConnectionError: the server closed the connection without an answer.
        """
        if self.headers is not None:
            return
        version, status, reason, fields = self._head()
        while status == HTTPStatus.CONTINUE:
            version, status, reason, fields = self._head()
        self.version = 10 if version == f"{_VERSION}0" else 11
        self.code = self.status = status
        self.reason = reason
        self.headers = self.msg = self.fields = fields
        self.chunked = fields.get("Transfer-Encoding", "").lower() == "chunked"
        self.chunk_left = None
        length = fields.get("Content-Length", "")
        self.length = int(length) if length.isdecimal() and not self.chunked else None
        if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED) or self._asked == "HEAD":
            self.length = 0
        closing = self.version == 10 or "close" in fields.get("Connection", "").lower()  # noqa: PLR2004 - HTTP/1.0
        self.will_close = closing or not (self.chunked or self.length is not None)

    def _head(self) -> tuple[str, int, str, HTTPHeaderDict]:
        """Read one head. Return protocol version, status, reason and headers."""
        first, *lines = self._lines()
        version, _, rest = first.partition(" ")
        status, _, reason = rest.partition(" ")
        if not (version.startswith(_VERSION) and status.isdecimal() and len(status) == 3):  # noqa: PLR2004 - RFC 9112
            raise http.client.BadStatusLine(first)
        fields = HTTPHeaderDict()
        for line in lines:
            name, colon, value = line.partition(":")
            # A line that begins with a space would continue the line before it, which is obsolete (RFC 9112, 5.2).
            if not (colon and name) or name != name.strip():
                raise http.client.HTTPException(f"the response has an invalid header: {line!r}")
            fields.add(name, value.strip())
        return version, int(status), reason, fields

    def _lines(self) -> list[str]:
        """Read the lines of one head, without their ends. There is at least one line, which may be empty."""
        lines: list[bytes] = []
        while (line := self.fp.readline(_LONGEST_LINE + 1)) not in (b"\r\n", b"\n"):
            if not line:
                raise http.client.RemoteDisconnected("Remote end closed connection without response")
            if len(line) > _LONGEST_LINE:
                raise http.client.LineTooLong("head of the response")
            lines.append(line)
            if len(lines) > _MOST_HEADERS:
                raise http.client.HTTPException(f"the response has more than {_MOST_HEADERS} headers")
        return b"".join(lines).decode("latin-1").replace("\r\n", "\n").rstrip("\n").split("\n")

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
