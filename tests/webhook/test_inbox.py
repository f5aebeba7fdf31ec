"""A request is whole when nothing more of it has to be waited for."""

import ssl
from collections.abc import Iterable

import pytest

from webhook.inbox import HELD_BYTES, Inbox

HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\n"


class Arriving:
    """A source with these chunks, then nothing yet."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = list(chunks)

    def recv(self, _buflen: int, /) -> bytes:
        """The next chunk."""
        if not self._chunks:
            raise ssl.SSLWantReadError
        return self._chunks.pop(0)


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", False),
        (b"POST", False),
        (HEAD, False),
        (HEAD + b"\r\n", True),
        (HEAD + b"Content-Length: 2\r\n\r\n", False),
        (HEAD + b"Content-Length: 2\r\n\r\n{", False),
        (HEAD + b"Content-Length: 2\r\n\r\n{}", True),
        (HEAD + b"content-length:2\r\n\r\n{}", True),
        (HEAD + b"Content-Length: 0\r\n\r\n", True),
        (HEAD + b"X: Content-Length: 9\r\n\r\n", True),
        (HEAD + b"Content-Length: 2\r\n\r\n{}POST /mu", True),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", True),
        (HEAD + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", True),
        (HEAD + b"Content-Length: 99999999\r\n\r\n" + b"x" * HELD_BYTES, True),
        (b"x" * HELD_BYTES, True),
    ],
)
def test_a_request_is_whole_or_not_however_it_is_cut(data: bytes, *, whole: bool) -> None:
    for size in (1, 7, 1024, HELD_BYTES):
        inbox = Inbox()
        seen = [inbox.collect(Arriving([data[start : start + size]])) for start in range(0, len(data), size)]
        assert (bool(seen and seen[-1]), inbox.begun) == (whole, bool(data))
        taken = inbox.take()
        assert data.startswith(taken)
        assert len(taken) >= min(len(data), HELD_BYTES)
        assert not inbox.begun


def test_the_end_of_the_connection_is_nothing_to_wait_for() -> None:
    inbox = Inbox()
    assert inbox.collect(Arriving([b"POST", b""]))
    assert inbox.take() == b"POST"
