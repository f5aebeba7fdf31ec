"""A proxy between the controller and the API server that can kill the controller at an exact write."""

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import yaml

from certs.files import write_self_signed

WRITES = ("POST", "PATCH", "PUT", "DELETE")


@dataclass(frozen=True, slots=True)
class Request:
    """A write on its way: its verb, path and decoded body."""

    verb: str
    path: str
    body: Any


class _Server(ThreadingHTTPServer):
    """A server that logs no error when a client disconnects: crash tests kill their clients."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._accepted: WeakSet[socket.socket] = WeakSet()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._accepted.add(request)
        super().process_request(request, client_address)

    def cut(self) -> None:
        """End what clients keep open: one that is left behind would go on by it for as long as it opens no other."""
        for each in list(self._accepted):
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # below TLS, which another thread may be reading

    def handle_error(self, request: object, client_address: object) -> None:
        del request, client_address


def chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the parts of an answer as they arrive."""
    while chunk := answer.read1(65536):
        yield chunk


class Proxy:
    """Passes everything on; asks `before` and `after` about every write, and tells `answered` its status code.

    They are called in the request's thread; one that kills the client makes its answer go nowhere, as in a real crash.
    """

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._settings = yaml.safe_load(kubeconfig.read_text())
        cluster = self._settings["clusters"][0]["cluster"]
        self.upstream = str(cluster["server"]).removeprefix("https://")
        self.trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self.before: Callable[[Request], None] = lambda _: None
        self.after: Callable[[Request], None] = lambda _: None
        self.answered: Callable[[Request, int], None] = lambda *_: None
        self.lag = 0.0
        """Seconds by which events of watches come later."""
        self.directory = directory
        self._server = _Server(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> Self:
        """Listen, with a certificate of its own."""
        authority = write_self_signed(self.directory, addresses=["127.0.0.1"])
        (self.directory / "ca.crt").write_bytes(authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "tls.crt", self.directory / "tls.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more, and pass nothing on."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut()

    def kubeconfig(self) -> Path:
        """Write a kubeconfig with the same identity that leads through this proxy; return its path."""
        cluster = self._settings["clusters"][0]["cluster"]
        cluster["server"] = f"https://127.0.0.1:{self._server.server_address[1]}"
        cluster["certificate-authority"] = str(self.directory / "ca.crt")
        path = self.directory / "kubeconfig"
        path.write_text(yaml.safe_dump(self._settings))
        return path

    def late(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """Yield the parts of an answer, each part `lag` seconds after its arrival."""
        came: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

        def read() -> None:
            # The client has gone, and the answer was closed meanwhile: then http.client stumbles, too.
            with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
                for chunk in chunks(answer):
                    came.put((time.monotonic(), chunk))
            came.put((time.monotonic(), b""))

        threading.Thread(target=read, daemon=True).start()
        while (part := came.get())[1]:
            time.sleep(max(0.0, part[0] + self.lag - time.monotonic()))
            yield part[1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path, json.loads(body) if body else None)
                if self.command in WRITES:
                    proxy.before(request)
                upstream = http.client.HTTPSConnection(proxy.upstream, context=proxy.trust)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                with closing(upstream):
                    upstream.request(self.command, self.path, body or None, headers)
                    with upstream.getresponse() as answer:
                        if self.command in WRITES:
                            proxy.answered(request, answer.status)
                            proxy.after(request)
                        self._pass_on(answer)

            def _pass_on(self, answer: http.client.HTTPResponse) -> None:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for chunk in proxy.late(answer) if proxy.lag and "watch=true" in self.path else chunks(answer):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of the base class

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the base class
                del format, args

        return Handler
