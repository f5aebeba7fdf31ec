"""Any client that reaches the port can open connections. Honest clients must not notice.

One attacker opens more connections than there are places.
"""

import contextlib
import http.client
import os
import select
import signal
import socket
import ssl
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import PATIENCE, RunningServer, echo_server

from certs.files import write_self_signed
from serving.limits import ConnectionLimits

PLACES = 60
ATTACKERS = 70
"""Connections that the attacker always holds or opens again."""
MANY = 400
"""Connections at a time that ask for nothing."""
HONEST = 4
AT_ONCE = 800
"""Connections that arrive while the server accepts none: fewer than the 1,024 files that a shell's process may open."""
FEW_MEBIBYTES = 40
REQUESTS = 15
"""Of each honest client."""
SLOWEST_SECONDS = 4.0
"""At the 99th centile, for an honest client that shares a slow machine with its attackers. A client that waits for a
stalled connection waits 10 s."""
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """An echo server with few places."""
    folder = tmp_path_factory.mktemp("certificates")
    write_self_signed(folder, ["localhost"], ["127.0.0.1"])
    with echo_server(folder, threads=4, connections=PLACES) as running:
        running.wait("/readyz", 200)
        yield running


ATTACKS = {
    "connections that say nothing": (False, b"", b""),
    "no TLS": (False, b"GET / HTTP/1.1\r\n\r\n", b"x"),
    "handshakes, then silence": (True, b"", b""),
    "heads that never end": (True, HEAD, b"X-A: b\r\n"),
    "bodies that never end": (True, HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 65536, b"x"),
    "chunks for ever": (True, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}
"""By name: whether over TLS, the first bytes of each connection, and the bytes that follow twice a second."""


@pytest.mark.timed
@pytest.mark.parametrize(
    ("sources", "pause"),
    [(1, 0.5), (1, 0.0), (ATTACKERS, 0.5)],
    ids=["from one address", "from one address, back at once", "each from its own"],
)
@pytest.mark.parametrize("attack", ATTACKS)
def test_honest_clients_are_answered_in_time_beside_more_connections_than_places(
    server: RunningServer, attack: str, sources: int, pause: float
) -> None:
    """A stock server would fail here: the attackers would hold its threads, or all of its places.

    If the attackers have as many sources as there are places, a new client has to try again. A client that has been
    answered before keeps its connection.
    """
    over = threading.Event()
    attackers = [
        threading.Thread(target=_attack, args=(server, over, f"127.0.1.{1 + index % sources}", attack, pause))
        for index in range(ATTACKERS)
    ]
    kept = [_known(server) for _ in range(HONEST)]
    for each in attackers:
        each.start()
    try:
        time.sleep(1.0)
        seconds = _asked_honestly(server, kept, anew=sources == 1)
    finally:
        over.set()
        for each in attackers:
            each.join(PATIENCE)
    assert statistics.quantiles(seconds, n=100)[98] <= SLOWEST_SECONDS
    assert _files(server) < 4 * PLACES


@pytest.mark.parametrize("port", ["port", "health_port"])
def test_a_crowd_that_comes_at_once_keeps_nobody_from_the_door(server: RunningServer, port: str) -> None:
    """A client that finds the kernel's accept queue full gets no answer. It tries again after 1 s, 2 s and 4 s more."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    waiting = select.poll()
    with contextlib.ExitStack() as stack:
        for pid in (server.process.pid, *map(int, children)):
            os.kill(pid, signal.SIGSTOP)
            stack.callback(os.kill, pid, signal.SIGCONT)
        for _ in range(AT_ONCE):
            each = stack.enter_context(socket.socket())
            each.setblocking(False)  # noqa: FBT003 -- the signature is socket's
            each.connect_ex(("127.0.0.1", getattr(server, port)))
            waiting.register(each, select.POLLOUT)
        assert sum(ready == select.POLLOUT for _, ready in waiting.poll(500)) == AT_ONCE
    assert server.post() == (200, b"{}")
    assert server.health("/readyz")[0] == 200


@pytest.mark.long
def test_the_memory_of_connections_is_given_back(tmp_path: Path) -> None:
    """Some 300 KB each while they shake hands. Left to the C library, a process stays as large as it was then."""
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    with echo_server(tmp_path, threads=4) as server:
        server.wait("/readyz", 200)
        before, largest = _mebibytes(server), 0.0
        for _ in range(3):
            with contextlib.ExitStack() as stack:
                for _ in range(MANY):
                    raw = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
                    stack.enter_context(_trusting().wrap_socket(raw))
                largest = max(largest, _mebibytes(server) - before)
        deadline = time.monotonic() + PATIENCE
        while _mebibytes(server) > before + largest / 3 and time.monotonic() < deadline:
            time.sleep(0.5)
        assert _mebibytes(server) <= before + largest / 3, f"{before:.0f} MiB before, {largest:.0f} more beside them"


@pytest.mark.thorough
def test_nothing_is_kept_of_connections_that_are_reset_after_their_answer(tmp_path: Path) -> None:
    """Some 260 KB each, until the time was over for which an idle connection is kept: 300 MB for these."""
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    with echo_server(tmp_path, threads=4) as server:
        server.wait("/readyz", 200)
        before = _mebibytes(server)
        for _ in range(3 * MANY):
            raw = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            with _trusting().wrap_socket(raw) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert connection.recv(1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        deadline = time.monotonic() + PATIENCE
        while _mebibytes(server) > before + FEW_MEBIBYTES and time.monotonic() < deadline:
            time.sleep(0.5)
        assert _mebibytes(server) <= before + FEW_MEBIBYTES, f"{before:.0f} MiB before"


def test_a_head_without_end_is_cut_off(server: RunningServer) -> None:
    with contextlib.closing(server.connect()) as connection, contextlib.suppress(OSError):
        connection.sock.sendall(HEAD + b"X-Long: ")
        for _ in range(100):
            connection.sock.sendall(b"x" * 16384)
        connection.sock.settimeout(ConnectionLimits().request_seconds / 2)
        assert connection.sock.recv(1) == b""


def test_health_is_answered_beside_connections_that_say_nothing(server: RunningServer) -> None:
    before = _threads(server)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.health_port)))
        assert server.health("/healthz") == (200, "ok\n")
        assert _threads(server) < before + 10  # its pools begin threads when they first need one, and have a few


def _files(server: RunningServer) -> int:
    """Open files of the server's worker, its connections among them."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return max(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in children)


def _mebibytes(server: RunningServer) -> float:
    """Return the resident memory (MiB) of the server's worker."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    pages = max(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in children)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _threads(server: RunningServer) -> int:
    """Threads of the server and its worker."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in (server.process.pid, *children))


def _attack(server: RunningServer, over: threading.Event, source: str, attack: str, pause: float) -> None:
    """Hold a connection, and open another so many seconds after it is closed.

    Only one thread reads and writes a connection: Python 3.11's TLS ends the process if two do so at a time.
    """
    secured, start, more = ATTACKS[attack]
    while not over.is_set():
        with contextlib.suppress(OSError):
            raw = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(source, 0))
            with _trusting().wrap_socket(raw) if secured else raw as connection:
                connection.sendall(start)
                connection.settimeout(0.5)
                while not over.is_set():
                    try:
                        if not connection.recv(1024):
                            break
                    except TimeoutError:
                        connection.sendall(more)
        over.wait(pause)


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _asked_honestly(server: RunningServer, kept: list[http.client.HTTPSConnection], *, anew: bool) -> list[float]:
    """Return the seconds of each request of clients that keep their connection, and, if `anew`, of some that do not."""
    seconds: list[float] = []

    def client(connection: http.client.HTTPSConnection, *, anew: bool) -> None:
        for _ in range(REQUESTS):
            started = time.monotonic()
            if anew:
                connection.close()
                connection = server.connect()
            connection.request("POST", "/mutate", b"{}")
            assert _status(connection) == 200
            seconds.append(time.monotonic() - started)
            time.sleep(0.02)
        connection.close()

    clients = [
        threading.Thread(target=client, args=(each,), kwargs={"anew": anew and index % 2 == 1})
        for index, each in enumerate(kept)
    ]
    for each in clients:
        each.start()
    for each in clients:
        each.join(PATIENCE)
    assert len(seconds) == HONEST * REQUESTS, "honest clients have failed"
    return seconds


def _known(server: RunningServer) -> http.client.HTTPSConnection:
    """A connection that has asked once."""
    connection = server.connect()
    connection.request("POST", "/mutate", b"{}")
    assert _status(connection) == 200
    return connection


def _status(connection: http.client.HTTPSConnection) -> int:
    response = connection.getresponse()
    response.read()
    return response.status
