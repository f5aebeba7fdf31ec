"""Collects a request as it arrives, so that no thread has to wait for the rest of it."""

import re
import ssl
from typing import Protocol

HELD_BYTES = 64 * 1024
"""What has arrived of a request is held here up to this size; a larger one is read by the thread that answers it."""
CHUNK_BYTES = 16 * 1024

_END_OF_HEADERS = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_OPEN_ENDED = re.compile(rb"\r\n(?:transfer-encoding|expect):", re.IGNORECASE)
"""Bodies whose end is not known beforehand, or that wait for a word from us."""


class Source(Protocol):
    """A socket that does not block."""

    def recv(self, buflen: int, /) -> bytes:
        """What is there, b"" at the end. Raises ssl.SSLWantReadError where nothing is."""


class Inbox:
    """The bytes of one request. `take` them when `collect` has said that it is whole."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._searched = 0
        self._size: int | None = None

    @property
    def begun(self) -> bool:
        """Whether anything has arrived."""
        return bool(self._data)

    def add(self, data: bytes) -> None:
        """Put in what has been read already."""
        self._data += data

    def collect(self, source: Source) -> bool:
        """Add what is there; whether there is nothing more to wait for.

        That is so for a whole request, one that is larger than what is held, one whose length cannot be known, and for
        the end of the connection. Raises OSError where the connection is broken.
        """
        while len(self._data) < HELD_BYTES:
            try:
                chunk = source.recv(CHUNK_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return self._whole()
            if not chunk:
                return True
            self._data += chunk
        return True

    def take(self) -> bytes:
        """Everything; the next request begins empty."""
        data = bytes(self._data)
        self._data, self._searched, self._size = bytearray(), 0, None
        return data

    def _whole(self) -> bool:
        if self._size is None:
            end = self._data.find(_END_OF_HEADERS, self._searched)
            self._searched = max(len(self._data) - len(_END_OF_HEADERS) + 1, 0)
            if end < 0:
                return False
            self._size = _size(self._data[: end + 2]) + len(_END_OF_HEADERS) - 2
        return len(self._data) >= self._size


def _size(head: bytearray) -> int:
    """How much a request with this head has, up to the empty line and after it; the head alone where that is open."""
    length = None if _OPEN_ENDED.search(head) else _LENGTH.search(head)
    return len(head) + (int(length[1]) if length else 0)
