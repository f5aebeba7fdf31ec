"""The real gunicorn under the loads that stop a stock one."""

import contextlib
import http.client
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from servers import PATIENCE, RunningServer, echo_server

from certs.authority import ServerNames, issue, new_authority
from certs.files import write_self_signed
from controlplane.control_plane import wait_until
from serving.limits import LARGEST_BODY, ConnectionLimits

READ_SECONDS = ConnectionLimits().request_seconds

THREADS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """An echo server with few threads."""
    folder = tmp_path_factory.mktemp("certificates")
    write_self_signed(folder, ["localhost"], ["127.0.0.1"])
    with echo_server(folder, threads=THREADS, certificate_poll=0.1) as running:
        running.wait("/readyz", 200)
        yield running


def test_idle_tls_connections_do_not_stop_a_request(server: RunningServer) -> None:
    """A stock thread worker gives no answer once THREADS connections are idle."""
    with contextlib.ExitStack() as stack:
        for _ in range(THREADS + 1):
            stack.callback(server.connect().close)
        assert_answered_at_once(server)


def test_an_idle_connection_is_answered_when_it_asks_at_last(server: RunningServer) -> None:
    with contextlib.closing(server.connect()) as connection:
        time.sleep(0.5)
        connection.request("POST", "/mutate", b"{}")
        assert connection.getresponse().status == 200


def test_head_and_body_of_an_answer_come_in_one_tls_record(server: RunningServer) -> None:
    """Python's `recv` on a TLS socket returns the data of one record."""
    with contextlib.closing(server.connect()) as connection:
        assert connection.sock is not None
        for _ in range(2):
            connection.sock.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
            head, _, body = connection.sock.recv(65536).partition(b"\r\n\r\n")
            assert (head.partition(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"{}")


def test_a_request_for_the_head_alone_is_answered(server: RunningServer) -> None:
    """Such an answer has no body with which its head could be sent together."""
    with contextlib.closing(server.connect(timeout=10.0)) as connection:
        connection.request("HEAD", "/mutate")
        assert connection.getresponse().read() == b""


def test_a_client_may_wait_for_the_interim_answer_before_it_sends_the_body(server: RunningServer) -> None:
    with contextlib.closing(server.connect()) as connection:
        assert connection.sock is not None
        connection.sock.sendall(HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert connection.sock.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sock.sendall(b"{}")
        head, _, body = connection.sock.recv(65536).partition(b"\r\n\r\n")
        assert (head.partition(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"{}")


HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\n"
HELLO = b"\x16\x03\x01\x02\x00\x01\x00"
"""The beginning of a ClientHello."""


@pytest.mark.parametrize("greeting", [b"", HELLO], ids=["silent", "half a handshake"])
def test_connections_that_do_not_finish_their_handshake_do_not_stop_a_request(
    server: RunningServer, greeting: bytes
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(THREADS + 1):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            raw.sendall(greeting)
        assert_answered_at_once(server)


@pytest.mark.parametrize(
    "begun",
    [b"P", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{", HEAD + b"Content-Length: 2\r\n\r\n{}" + HEAD],
    ids=["a byte", "half the headers", "the body stalled", "a second one after a whole one"],
)
def test_requests_that_do_not_end_do_not_stop_another_one(server: RunningServer, begun: bytes) -> None:
    """A stock worker reads each in a thread, for as long as it takes."""
    with contextlib.ExitStack() as stack:
        for _ in range(THREADS + 1):
            stack.enter_context(contextlib.closing(server.connect())).sock.sendall(begun)
        assert_answered_at_once(server)


def assert_answered_at_once(server: RunningServer, seconds: float = READ_SECONDS / 2) -> None:
    """Well before those that stall are given up: within `seconds` more than twice the time of another request."""
    time.sleep(0.3)
    took = []
    for _ in range(2):
        started = time.monotonic()
        assert server.post(body=b'{"a": 1}') == (200, b'{"a": 1}')
        took.append(time.monotonic() - started)
    assert took[0] - 2 * took[1] < seconds


@pytest.mark.thorough
@pytest.mark.parametrize("begun", [b"", b"POST /mut"], ids=["a handshake", "a request"])
def test_what_does_not_end_is_given_up_in_time(server: RunningServer, begun: bytes) -> None:
    with contextlib.ExitStack() as stack:
        if begun:
            stalled: socket.socket = stack.enter_context(contextlib.closing(server.connect())).sock
            stalled.sendall(begun)
        else:
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            stalled.sendall(HELLO)
        stalled.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionResetError):
            assert stalled.recv(1) == b""


def test_a_request_may_come_byte_by_byte_and_be_large(server: RunningServer) -> None:
    body = b"x" * 300_000
    with contextlib.closing(server.connect()) as connection:
        head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
        for index in range(len(head)):
            connection.sock.send(head[index : index + 1])
        for start in range(0, len(body), 50_000):
            connection.sock.sendall(body[start : start + 50_000])
            time.sleep(0.01)
        response = http.client.HTTPResponse(connection.sock, method="POST")
        response.begin()
        assert (response.status, response.read()) == (200, body)


def test_two_requests_at_once_on_one_connection_are_both_answered(server: RunningServer) -> None:
    request = HEAD + b"Content-Length: 2\r\n\r\n{}"
    with contextlib.closing(server.connect()) as connection:
        connection.sock.sendall(request + request)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 2 or not received.endswith(b"{}"):
            piece = connection.sock.recv(65536)
            assert piece, f"the connection ends after {received!r}"
            received += piece


def test_clients_that_do_not_close_after_their_last_answer_do_not_stop_a_request(server: RunningServer) -> None:
    """A stock worker waits for each of them, up to two seconds, in the thread that accepts connections."""
    with contextlib.ExitStack() as stack:
        for _ in range(THREADS * 4):
            lingering = stack.enter_context(contextlib.closing(server.connect()))
            lingering.request("POST", "/mutate", b"{}", {"Connection": "close"})
        assert_answered_at_once(server, THREADS * 4)


def broken_handshake(server: RunningServer) -> socket.socket:
    """A connection that speaks no TLS, and stays open."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=MANY_CLOSED_SECONDS)
    connection.sendall(b"no handshake at all, as a port scan sends it\r\n\r\n")
    return connection


def last_request(server: RunningServer) -> socket.socket:
    """A connection that has asked its last request, and stays open."""
    connection = server.connect(timeout=MANY_CLOSED_SECONDS).sock
    connection.sendall(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
    return connection


MANY = 300
MANY_CLOSED_SECONDS = 60.0
"""With a second for each, four at a time, they would take 75."""


@pytest.mark.timed
@pytest.mark.parametrize("left_open", [broken_handshake, last_request])
def test_hundreds_of_connections_that_the_other_side_leaves_open_are_closed_soon(
    server: RunningServer, left_open: Callable[[RunningServer], socket.socket]
) -> None:
    """Each connection counts towards the limit of a thousand until it is closed. Beyond the limit none is accepted."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(left_open(server)) for _ in range(MANY)]
        started = time.monotonic()
        assert server.post(timeout=MANY_CLOSED_SECONDS)[0] == 200
        for each in connections:
            with contextlib.suppress(ConnectionResetError):
                while each.recv(65536):
                    pass
        assert time.monotonic() - started < MANY_CLOSED_SECONDS


def test_every_one_of_many_clients_at_once_is_answered(server: RunningServer) -> None:
    clients, answered = 32, []

    def client() -> None:
        with contextlib.closing(server.connect()) as connection:
            for _ in range(10):
                connection.request("POST", "/mutate", b"{}")
                response = connection.getresponse()
                response.read()
                answered.append(response.status)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert answered == [200] * clients * 10


def test_a_connection_is_kept_longer_than_gunicorns_two_seconds(server: RunningServer) -> None:
    with contextlib.closing(server.connect()) as connection:
        for pause in (0, 3):
            time.sleep(pause)
            connection.request("POST", "/mutate", b"{}")
            response = connection.getresponse()
            response.read()
            assert (response.status, response.will_close) == (200, False)


def test_certificates_change_under_load_without_a_failed_request(server: RunningServer) -> None:
    """New connections as fast as they come, the pair exchanged again and again; clients trust old and new."""
    failures: list[str] = []
    serials: set[bytes] = set()
    done = threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def client() -> None:
        while not done.is_set():
            try:
                with contextlib.closing(
                    http.client.HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE, context=context)
                ) as connection:
                    connection.request("POST", "/mutate", b"{}")
                    assert isinstance(connection.sock, ssl.SSLSocket)
                    serials.add(connection.sock.getpeercert(binary_form=True) or b"")
                    assert connection.getresponse().status == 200
            except (OSError, http.client.HTTPException, AssertionError) as error:
                failures.append(repr(error))

    def are_more_than(count: int) -> bool:
        return len(serials) > count

    threads = [threading.Thread(target=client) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        for _ in range(10):
            before = len(serials)
            write_self_signed(server.certificates, ["localhost"], ["127.0.0.1"])
            wait_until(partial(are_more_than, before), PATIENCE, "the new certificate to be served")
    finally:
        done.set()
        for each in threads:
            each.join(PATIENCE)
    assert failures == []


def test_an_unusable_pair_leaves_the_old_one_in_service(server: RunningServer) -> None:
    good = (server.certificates / "tls.key").read_bytes()
    (server.certificates / "tls.key").write_bytes(b"garbage")
    try:
        time.sleep(0.5)
        assert server.post()[0] == 200
        assert server.health("/readyz")[0] == 200
    finally:
        (server.certificates / "tls.key").write_bytes(good)


def test_the_plain_port_serves_two_paths_and_nothing_else(server: RunningServer) -> None:
    assert server.health("/healthz") == (200, "ok\n")
    assert server.health("/readyz") == (200, "caches: ok\ncertificate: ok\ntls: ok\nstay: ok\n")
    assert server.health("/metrics")[0] == 404


def test_it_is_alive_but_not_ready_until_the_first_whole_certificate_comes(tmp_path: Path) -> None:
    """`/readyz` names the reason for each broken state of the folder. No state needs a restart."""
    now = datetime.now(UTC)
    authority = new_authority("test", now)
    names = ServerNames(("localhost",), ("127.0.0.1",))
    good, other = issue(authority, names, now), issue(authority, names, now)
    expired = issue(authority, names, now - timedelta(days=2), timedelta(days=1))
    states = [
        (None, None, "No such file"),
        (good.certificate, None, "No such file"),
        (b"garbage", good.key, "not usable"),
        (good.certificate[:300], good.key, "not usable"),
        (good.certificate, other.key, "KEY_VALUES_MISMATCH|key values mismatch"),
        (expired.certificate, expired.key, "it expired at"),
    ]
    with echo_server(tmp_path, certificate_poll=0.1) as server:
        server.wait("/healthz", 200)
        for certificate, key, reason in states:
            put(tmp_path, certificate, key)
            server.wait_for_text("/readyz", 503, f"certificate: no valid certificate: .*({reason})")
        put(tmp_path, good.certificate, good.key)
        (tmp_path / "ca.crt").write_bytes(authority.certificate)
        server.wait("/readyz", 200)
        assert server.post()[0] == 200


def put(folder: Path, certificate: bytes | None, key: bytes | None) -> None:
    """Write the certificate and the key, except a part that is None."""
    for name, content in (("tls.crt", certificate), ("tls.key", key)):
        if content is not None:
            (folder / name).write_bytes(content)


@pytest.mark.thorough
def test_it_is_not_ready_when_its_certificate_has_expired(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    short = issue(new_authority("test", now), ServerNames(("localhost",)), now, timedelta(seconds=6))
    put(tmp_path, short.certificate, short.key)
    with echo_server(tmp_path, certificate_poll=0.1) as server:
        server.wait_for_text("/readyz", 503, "no valid certificate: .*it expired at")
        write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
        server.wait("/readyz", 200)


@pytest.mark.thorough
def test_too_many_requests_at_once_are_refused_with_a_word(tmp_path: Path) -> None:
    """Both of two threads sleep, and three requests may wait. The other requests are asked to try again."""
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    answers: list[tuple[int, bytes]] = []
    with echo_server(tmp_path, threads=2, most_waiting=3) as server:
        server.wait("/readyz", 200)
        clients = [threading.Thread(target=lambda: answers.append(server.post("/mutate?sleep=2"))) for _ in range(16)]
        for each in clients:
            each.start()
        for each in clients:
            each.join(PATIENCE)
        assert len(answers) == 16
        assert {status for status, _ in answers} == {200, 429}
        assert all(b"overloaded: more than 3 requests wait" in text for status, text in answers if status == 429)
        assert server.post()[0] == 200


def test_a_body_that_is_too_large_is_refused_with_a_word(tmp_path: Path) -> None:
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    with echo_server(tmp_path) as server:
        server.wait("/readyz", 200)
        status, text = server.post(body=b"x" * (LARGEST_BODY + 1))
        assert status == 413
        assert text == b'{"error":"the body is of 8388609 bytes; at most 8388608 are read"}'


def test_after_sigterm_it_goes_on_for_a_while_but_says_that_it_ends(tmp_path: Path) -> None:
    """Not ready at once; new connections are answered; every connection is closed after its answer."""
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    with echo_server(tmp_path, notice=600) as server:
        server.wait("/readyz", 200)
        with contextlib.closing(server.connect()) as kept, contextlib.closing(server.connect()) as idle:
            assert told_to_close(kept) is False
            server.process.send_signal(signal.SIGTERM)
            assert "stay: this replica is about to end" in server.wait("/readyz", 503)
            assert server.health("/healthz")[0] == 200
            assert told_to_close(kept) is True
            assert server.post()[0] == 200
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(PATIENCE) == 0
            assert idle.sock is not None


def told_to_close(connection: http.client.HTTPSConnection) -> bool:
    """Whether a request's good answer is the last one of its connection."""
    connection.request("POST", "/mutate", b"{}")
    response = connection.getresponse()
    response.read()
    assert response.status == 200
    return response.will_close


def test_a_second_sigterm_cuts_the_notice_short(tmp_path: Path) -> None:
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    with echo_server(tmp_path, notice=600) as server:
        server.wait("/readyz", 200)
        server.process.send_signal(signal.SIGTERM)
        server.wait("/readyz", 503)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0


@pytest.mark.thorough
def test_a_request_in_flight_is_answered_after_sigterm(tmp_path: Path) -> None:
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    come, over = tmp_path / "come", tmp_path / "over"
    with echo_server(tmp_path, notice=1) as server:
        server.wait("/readyz", 200)
        answers: list[tuple[int, bytes]] = []
        path = f"/mutate?come={come}&until={over}"
        request = threading.Thread(target=lambda: answers.append(server.post(path, b'{"last": 1}')))
        request.start()
        wait_until(come.exists, PATIENCE, "the request to be in flight")
        server.process.send_signal(signal.SIGTERM)
        server.wait("/readyz", 503)
        over.touch()
        request.join(PATIENCE)
        assert answers == [(200, b'{"last": 1}')]
        assert server.process.wait(PATIENCE) == 0
