"""Events of a watch that have already arrived are taken together: none of them waits for a pause in the stream."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kubernetes.client import ApiClient, Configuration

from certs.authority import ServerNames, issue, new_authority
from cluster.api.incoming import Incoming
from cluster.api.transport import Transport, lines_of
from cluster.caches.reflector import Reflector
from kube.objects import Pod

EVENTS = 300
BUSY = 2
PATIENCE = 60.0
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """As HTTP/1.1 sends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(number: int) -> bytes:
    """A pod that is new."""
    meta = {"name": f"p{number}", "namespace": "default", "resourceVersion": str(number + 2)}
    pod = {"metadata": {**meta, "annotations": {"text": "x" * 400}}}
    return json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n"


def tls_contexts(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's, and the file with the authority that signed it."""
    now = datetime.now(UTC)
    authority = new_authority("test", now)
    leaf = issue(authority, ServerNames(addresses=("127.0.0.1",)), now)
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context, folder / "ca.crt"


class Server:
    """Lists nothing; a watch gets all its chunks at once, and stays open."""

    def __init__(self, context: ssl.SSLContext | None, chunks: Sequence[bytes]) -> None:
        self._context = context
        self._chunks = chunks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.sent = threading.Event()
        self.over = threading.Event()

    def run(self) -> None:
        """Until the listener is closed."""
        while not self.over.is_set():
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def close(self) -> None:
        """Accept no further connection."""
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, plain: socket.socket) -> None:
        with ExitStack() as stack:
            connection = stack.enter_context(
                plain if self._context is None else self._context.wrap_socket(plain, server_side=True)
            )
            reader = stack.enter_context(connection.makefile("rb"))
            while asked := reader.readline():
                while reader.readline().strip():
                    pass
                if b"watch=true" not in asked:
                    page = json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode()
                    connection.sendall(HEAD + chunk(page) + chunk(b""))
                    continue
                connection.sendall(HEAD + b"".join(map(chunk, self._chunks)))
                self.sent.set()
                self.over.wait(PATIENCE)
                return


class Taken:
    """A sink that counts events; the first event waits until the server has sent all."""

    def __init__(self, sent: threading.Event) -> None:
        self._sent = sent
        self.names: set[str] = set()
        self.all = threading.Event()

    def replace(self, objects: Sequence[Pod], api_version: str) -> None:
        """The list."""

    def put(self, item: Pod) -> None:
        """An event."""
        assert self._sent.wait(PATIENCE)
        self.names.add(item.metadata.name)
        if len(self.names) == EVENTS:
            self.all.set()

    def drop(self, item: Pod) -> None:
        """Ignore the deletion: no pod is deleted."""


class Pausing(Reflector[Pod]):
    """Remembers how much had come when it paused."""

    def __init__(self, transport: Transport, sink: Taken) -> None:
        super().__init__(transport, ["/api/v1/pods"], Pod, sink)
        self._taken = sink
        self.paused_after: list[int] = []

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self.paused_after.append(len(self._taken.names))
        super()._pause(seconds)


@contextmanager
def busy() -> Iterator[None]:
    """Run other threads that compete for the interpreter all the time."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            sum(range(2000))

    threads = [threading.Thread(target=spin) for _ in range(BUSY)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


@contextmanager
def serving(folder: Path, chunks: Sequence[bytes], *, secured: bool) -> Iterator[tuple[Server, Transport]]:
    """Run a server that sends these chunks; yield it and its client."""
    context, authority = tls_contexts(folder) if secured else (None, None)
    server = Server(context, chunks)
    thread = threading.Thread(target=server.run)
    thread.start()
    settings = Configuration(host=f"{'https' if secured else 'http'}://127.0.0.1:{server.port}")
    settings.retries = False
    settings.ssl_ca_cert = str(authority) if authority else None
    try:
        with ApiClient(settings) as client:
            yield server, Transport(client)
            client.rest_client.pool_manager.clear()
    finally:
        server.close()
        thread.join()


SHAPES: dict[str, Callable[[], list[bytes]]] = {
    "an event in a chunk": lambda: [event(number) for number in range(EVENTS)],
    "many in a chunk": lambda: [b"".join(map(event, range(EVENTS)))],
    "events cut in two": lambda: [
        part for number in range(EVENTS) for part in (event(number)[:100], event(number)[100:])
    ],
}


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_has_come_is_read_without_a_pause_however_busy_other_threads_are(
    shape: str, *, secured: bool, tmp_path: Path
) -> None:
    """To read gives up the interpreter, and it takes 5 ms to get it back: that is no sign of a quiet watch."""
    with serving(tmp_path, SHAPES[shape](), secured=secured) as (server, transport):
        taken = Taken(server.sent)
        reflector = Pausing(transport, taken)
        with busy():
            reflector.start()
            assert taken.all.wait(PATIENCE)
        reflector.stop()
        assert reflector.join(PATIENCE)
    assert [each for each in reflector.paused_after if each < EVENTS] == []


class Tunnel:
    """A proxy that opens tunnels (CONNECT), spoken to in the clear or over TLS."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.opened = 0

    def run(self) -> None:
        """One tunnel, until one of its ends is closed."""
        plain, _ = self._listener.accept()
        client = plain if self._context is None else self._context.wrap_socket(plain, server_side=True)
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            request += client.recv(1)
        host, _, port = request.split()[1].decode().partition(":")
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.opened += 1
        back = threading.Thread(target=self._copy, args=(server, client))
        back.start()
        self._copy(client, server)
        back.join()
        for each in (client, server, self._listener):
            each.close()

    def _copy(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(65_536):
                there.sendall(data)
        for each in (here, there):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_a_watch_goes_through_a_proxy(*, secured: bool, tmp_path: Path) -> None:
    """Over TLS within TLS the client cannot tell what has arrived, so it does not pause to gather more events."""
    context, authority = tls_contexts(tmp_path)
    server, proxy = Server(context, SHAPES["an event in a chunk"]()), Tunnel(context if secured else None)
    threads = [threading.Thread(target=each) for each in (server.run, proxy.run)]
    for each in threads:
        each.start()
    settings = Configuration(host=f"https://127.0.0.1:{server.port}")
    settings.retries, settings.ssl_ca_cert = False, str(authority)
    settings.proxy = f"{'https' if secured else 'http'}://127.0.0.1:{proxy.port}"
    with ApiClient(settings) as client:
        taken = Taken(server.sent)
        reflector = Pausing(Transport(client), taken)
        reflector.start()
        assert taken.all.wait(PATIENCE)
        server.close()
        reflector.stop()
        assert reflector.join(PATIENCE)
        client.rest_client.pool_manager.clear()
    for each in threads:
        each.join()
    assert proxy.opened == 1
    assert [each for each in reflector.paused_after if each < EVENTS] == []


def test_lines_end_with_a_sign_when_all_that_has_come_was_given(tmp_path: Path) -> None:
    chunks = [b"one\ntwo\n", b"three\n\n", b"four\nhalf"]
    with serving(tmp_path, chunks, secured=False) as (server, transport):
        lines = lines_of(transport.open("GET", "/", query={"watch": "true"}), drained=True)
        assert next(lines) == b"one"
        assert server.sent.wait(PATIENCE)
        assert [next(lines) for _ in range(3)] == [b"two", b"three", b"four"]
        lines.close()


def pair(folder: Path, *, secured: bool) -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection: the client's and the server's."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    if not secured:
        return ours, theirs
    context, authority = tls_contexts(folder)
    trust = ssl.create_default_context(cafile=str(authority))
    made: list[socket.socket] = []
    thread = threading.Thread(target=lambda: made.append(context.wrap_socket(theirs, server_side=True)))
    thread.start()
    client = trust.wrap_socket(ours, server_hostname="127.0.0.1")
    thread.join()
    return client, made[0]


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_it_is_known_what_is_at_hand(*, secured: bool, tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path, secured=secured)
    with ours, theirs:
        answer = Incoming(ours)
        theirs.sendall(b"one\n")
        assert answer.fp.readline() == b"one\n"  # and whatever else TLS had to say
        assert not answer.at_hand()
        theirs.sendall(b"two\nthree\n")
        assert answer.at_hand()
        assert answer.fp.readline() == b"two\n"
        assert answer.at_hand()
        assert answer.fp.readline() == b"three\n"
        assert not answer.at_hand()
        theirs.sendall(b"x" * 100_000)
        assert answer.fp.read(99_999) == b"x" * 99_999
        assert answer.at_hand()
        assert answer.fp.read(1) == b"x"
        assert not answer.at_hand()
        answer.close()
        assert not answer.at_hand()


def test_what_tls_has_deciphered_is_at_hand(tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path, secured=True)
    with ours, theirs:
        theirs.sendall(b"0123456789")
        assert ours.recv(1) == b"0"
        answer = Incoming(ours)
        assert answer.at_hand()
        assert answer.fp.read(9) == b"123456789"
        answer.close()


def test_the_end_is_at_hand_as_well() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        answer = Incoming(ours)
        theirs.close()
        assert answer.at_hand()
        assert answer.fp.read() == b""
        answer.close()
