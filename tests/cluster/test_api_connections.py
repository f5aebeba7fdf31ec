"""A connection sends each request in one piece, and accepts valid responses only."""

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from function_calls import function_calls
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import UNREACHABLE, Transport
from controller.writes.writer import Writer

OBJECT = b'{"metadata": {"uid": "u1", "resourceVersion": "7"}}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
READ_WHOLE = HEAD % len(OBJECT) + OBJECT
MOST_CALLS = 350
"""Function calls of one write. They were 676 when urllib3 and http.client wrote and parsed the heads."""


@dataclass
class Heard:
    """The requests that a server has received, by connection: the data of each read that began a request."""

    connections: list[list[bytes]] = field(default_factory=list)


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[Transport, Heard]]:
    """Serve these answers, one for each request. The server closes a connection only if the answer says so."""
    heard, listener, left = Heard(), socket.create_server(("127.0.0.1", 0)), iter(answers)

    def serve() -> None:
        with contextlib.suppress(OSError):  # the test is over
            while True:
                connection, _ = listener.accept()
                heard.connections.append([])
                with connection:
                    serve_one(connection)

    def serve_one(connection: socket.socket) -> None:
        while asked := connection.recv(65_536):
            heard.connections[-1].append(asked)
            answer = next(left)
            connection.sendall(answer)
            if b"Connection: close" in answer or b"HTTP/1.0" in answer or not answer.endswith(OBJECT):
                return

    threading.Thread(target=serve, daemon=True).start()
    settings = Configuration()
    settings.host, settings.retries = f"http://127.0.0.1:{listener.getsockname()[1]}", False
    try:
        yield Transport(ApiClient(settings)), heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def got(transport: Transport, times: int = 1) -> list[str]:
    """Read an object so many times; return its versions."""
    return [transport.request("GET", "/it")["metadata"]["resourceVersion"] for _ in range(times)]


def test_head_and_body_are_sent_together_over_one_connection() -> None:
    with answering(READ_WHOLE, READ_WHOLE) as (transport, heard):
        for _ in range(2):
            transport.request("PATCH", "/it", body={"a": 1}, content_type="text/a", query={"b": "c d", "e": None})
    ((first, second),) = heard.connections
    assert first == second
    head, _, body = first.partition(b"\r\n\r\n")
    assert body == b'{"a":1}'
    lines = head.decode().split("\r\n")
    assert lines[0] == "PATCH /it?b=c+d HTTP/1.1"
    assert {"Content-Length: 7", "Content-Type: text/a", "Accept-Encoding: identity"} <= set(lines)
    assert len([each for each in lines if each.startswith("Host: 127.0.0.1:")]) == 1


@pytest.mark.parametrize(
    "answers",
    [
        (READ_WHOLE.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), READ_WHOLE),
        (READ_WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"), READ_WHOLE),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + OBJECT, READ_WHOLE),
    ],
    ids=["close", "HTTP/1.0", "no length"],
)
def test_a_server_may_close_the_connection_after_its_answer(answers: Sequence[bytes]) -> None:
    with answering(*answers) as (transport, heard):
        assert got(transport, 2) == ["7", "7"]
        assert len(heard.connections) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + READ_WHOLE,
        READ_WHOLE.replace(b"OK", b""),
        READ_WHOLE.replace(b"\r\n", b"\n"),
        READ_WHOLE.replace(b"Content-Length: ", b"content-length:"),
    ],
    ids=["continue", "no reason", "line feeds", "lower case"],
)
def test_answers_that_are_written_otherwise_are_read(answer: bytes) -> None:
    with answering(answer, answer) as (transport, heard):
        assert got(transport, 2) == ["7", "7"]
        assert len(heard.connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 20x OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        READ_WHOLE.partition(b"\r\n\r\n")[0],
        READ_WHOLE.replace(b"OK\r\n", b"OK\r\nno header\r\n"),
        READ_WHOLE.replace(b"OK\r\n", b"OK\r\nA: b\r\n c\r\n"),
        READ_WHOLE.replace(b"OK\r\n", b"OK\r\n" + b"A: b\r\n" * 101),
        READ_WHOLE.replace(b"OK\r\n", b"OK\r\nA: " + b"b" * 70_000 + b"\r\n"),
        READ_WHOLE[:-10],
    ],
    ids=[
        *("nothing", "empty", "no HTTP", "no status", "HTTP/2", "half a head", "no header"),
        *("folded", "too many headers", "a line too long", "half a body"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_unreachable_server(answer: bytes) -> None:
    """The next request uses another connection."""
    with answering(answer, READ_WHOLE) as (transport, heard):
        with pytest.raises(UNREACHABLE):
            got(transport)
        assert got(transport) == ["7"]
        assert len(heard.connections) == 2


def test_a_connection_with_an_unread_answer_sends_no_further_request() -> None:
    with answering(READ_WHOLE, READ_WHOLE) as (transport, heard):
        unread = transport.open("GET", "/it")
        unread.release_conn()
        with pytest.raises(UNREACHABLE):
            got(transport)
        unread.close()
        assert got(transport) == ["7"]
        assert [len(each) for each in heard.connections] == [1, 1]


def test_a_token_cannot_add_headers() -> None:
    with answering(READ_WHOLE) as (transport, heard):
        with pytest.raises(ValueError, match="line break"):
            transport.for_bearers()("a\r\nImpersonate-User: admin").request("GET", "/it")
        assert heard.connections == []


def test_a_write_takes_few_function_calls(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)  # as in a server
    with answering(READ_WHOLE, READ_WHOLE) as (transport, heard):
        writer = Writer(transport.within(lambda: 5.0), 1)
        try:
            assert writer.create("/it", {}).version == "7"
            assert function_calls(lambda: writer.create("/it", {})) < MOST_CALLS
        finally:
            writer.close()
    first = heard.connections[0][0].split()[1]
    assert first == b"/it?fieldManager=phalanx&fieldValidation=Ignore&timeout=5.000s"
