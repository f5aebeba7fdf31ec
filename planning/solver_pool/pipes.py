"""Sends messages through pipes between a caller and its worker processes: the length in eight bytes, then the body."""

import math
import os
import select
import time
from collections.abc import Iterator
from typing import BinaryIO

_HEAD = 8
_PIECE = 1 << 16
_LONGEST_WAIT = 1 << 30
"""Milliseconds. The timeout of poll(2) is a 32-bit integer."""


def write(sink: BinaryIO, body: bytes) -> None:
    """Send a message, without a time limit. Raises `OSError` if the other end is closed."""
    sink.write(len(body).to_bytes(_HEAD, "big"))
    sink.write(body)
    sink.flush()


def read(source: BinaryIO) -> bytes | None:
    """Return the next message, without a time limit; None if the other side has ended."""
    head = source.read(_HEAD)
    if len(head) < _HEAD:
        return None
    length = int.from_bytes(head, "big")
    body = source.read(length)
    return body if len(body) == length else None


class Channel:
    """The caller's ends of the two pipes to one worker. Every operation ends at `end`, a time of `time.monotonic`.

    Two threads must not use a channel at the same time.
    """

    def __init__(self, sink: BinaryIO, source: BinaryIO) -> None:
        self._sink, self._source = sink.fileno(), source.fileno()
        os.set_blocking(self._sink, False)
        os.set_blocking(self._source, False)
        self._received = bytearray()

    def send(self, body: bytes, end: float) -> None:
        """Send a message. Raises `TimeoutError` at `end`, or another `OSError` if the other end is closed."""
        for part in (len(body).to_bytes(_HEAD, "big"), body):
            rest = memoryview(part)
            while rest:
                try:
                    rest = rest[os.write(self._sink, rest) :]
                except BlockingIOError:
                    _await(self._sink, select.POLLOUT, end)

    def receive(self, end: float) -> bytes | None:
        """Return the next message; None if the other side has ended. Raises `TimeoutError` at `end`."""
        for length in self._wanted():
            while len(self._received) < length:
                _await(self._source, select.POLLIN, end)
                piece = os.read(self._source, _PIECE)
                if not piece:
                    return None
                self._received += piece
        return self._taken()

    def _wanted(self) -> Iterator[int]:
        """Yield how many bytes must have arrived, first to read the message's length, then to read all of it."""
        yield _HEAD
        yield _HEAD + self._length()

    def _length(self) -> int:
        return int.from_bytes(self._received[:_HEAD], "big")

    def _taken(self) -> bytes:
        length = _HEAD + self._length()
        body = bytes(self._received[_HEAD:length])
        del self._received[:length]
        return body


def _await(pipe: int, event: int, end: float) -> None:
    poll = select.poll()
    poll.register(pipe, event)
    while (left := end - time.monotonic()) > 0:
        if poll.poll(min(math.ceil(left * 1000), _LONGEST_WAIT)):
            return
    raise TimeoutError
