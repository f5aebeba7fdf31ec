"""The real gunicorn under the loads that stop a stock one."""

import contextlib
import http.client
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RunningServer, echo_server

from certs.files import write_self_signed

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
        started = time.monotonic()
        assert server.post(body=b'{"a": 1}', timeout=5) == (200, b'{"a": 1}')
        assert time.monotonic() - started < 2


def test_an_idle_connection_is_answered_when_it_asks_at_last(server: RunningServer) -> None:
    with contextlib.closing(server.connect()) as connection:
        time.sleep(0.5)
        connection.request("POST", "/mutate", b"{}")
        assert connection.getresponse().status == 200


def test_silent_and_half_open_connections_do_not_stop_a_request(server: RunningServer) -> None:
    """Sockets that say nothing, half a ClientHello, and a request whose body never comes."""
    with contextlib.ExitStack() as stack:
        for greeting in (b"", b"\x16\x03\x01\x02\x00\x01\x00"):
            for _ in range(THREADS - 2 if greeting else THREADS * 2):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                raw.sendall(greeting)
        stalled = stack.enter_context(contextlib.closing(server.connect()))
        stalled.putrequest("POST", "/mutate")
        stalled.putheader("Content-Length", "100")
        stalled.endheaders()
        time.sleep(0.3)
        assert server.post(timeout=5)[0] == 200


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
        each.join(30)
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
                    http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
                ) as connection:
                    connection.request("POST", "/mutate", b"{}")
                    assert isinstance(connection.sock, ssl.SSLSocket)
                    serials.add(connection.sock.getpeercert(binary_form=True) or b"")
                    assert connection.getresponse().status == 200
            except (OSError, http.client.HTTPException, AssertionError) as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(10):
        write_self_signed(server.certificates, ["localhost"], ["127.0.0.1"])
        time.sleep(0.25)
    done.set()
    for each in threads:
        each.join(30)
    assert failures == []
    assert len(serials) > 3


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
    assert server.health("/readyz") == (200, "caches: ok\ncertificate: ok\ntls: ok\n")
    assert server.health("/metrics")[0] == 404


def test_it_is_alive_but_not_ready_until_the_first_certificate_comes(tmp_path: Path) -> None:
    with echo_server(tmp_path, certificate_poll=0.1) as server:
        server.wait("/healthz", 200)
        assert "certificate: no valid certificate" in server.wait("/readyz", 503)
        write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
        server.wait("/readyz", 200)
        assert server.post()[0] == 200


def test_a_request_in_flight_is_answered_after_sigterm(tmp_path: Path) -> None:
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    with echo_server(tmp_path) as server:
        server.wait("/readyz", 200)
        answers: list[tuple[int, bytes]] = []
        request = threading.Thread(target=lambda: answers.append(server.post("/mutate?sleep=2", b'{"last": 1}')))
        request.start()
        time.sleep(0.7)
        server.process.send_signal(signal.SIGTERM)
        request.join(20)
        assert answers == [(200, b'{"last": 1}')]
        assert server.process.wait(20) == 0
