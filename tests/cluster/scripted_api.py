"""An API server that fails on cue, for faults that a real one does not produce when asked to."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport


@dataclass(frozen=True)
class Answer:
    """One answer: what is sent, and whether the server then ends it, keeps it open or cuts the connection."""

    lines: tuple[bytes, ...] = ()
    status: int = 200
    then: str = "end"


@dataclass(frozen=True)
class Request:
    """One request that came."""

    path: str
    query: dict[str, str]

    @property
    def watch(self) -> bool:
        """Whether it asks for a watch, not a list."""
        return "watch" in self.query


def listed(version: int, *names: str, more: str = "") -> Answer:
    """A page with these pods."""
    page = {"metadata": {"resourceVersion": str(version), "continue": more}, "items": [_pod(each) for each in names]}
    return Answer((json.dumps(page).encode(),))


def watched(*events: tuple[str, int, str], then: str = "keep") -> Answer:
    """A watch that brings (type, resource version, pod name) events."""
    return Answer(tuple(json.dumps(_event(*each)).encode() + b"\n" for each in events), then=then)


def failed(status: int, message: str = "no") -> Answer:
    """An error, as the API server words it."""
    return Answer((json.dumps({"kind": "Status", "code": status, "message": message}).encode(),), status)


def _pod(name: str, version: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": str(version)}}


def _event(kind: str, version: int, name: str) -> dict[str, Any]:
    if kind == "ERROR":
        return {"type": kind, "object": {"kind": "Status", "status": "Failure", "code": version, "message": name}}
    return {"type": kind, "object": _pod(name, version)}


class ScriptedApi:
    """Answers in the order of the script; when that has run out, a watch stays open and a list is empty."""

    def __init__(self, lists: Iterable[Answer], watches: Iterable[Answer]) -> None:
        self.requests: list[Request] = []
        self.transport: Transport
        self.closing = threading.Event()
        self._lists = iter(lists)
        self._watches = iter(watches)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        """Note the request, and return the next scripted answer to a watch or to a list."""
        with self._lock:
            self.requests.append(request)
            if request.watch:
                return next(self._watches, watched())
            return next(self._lists, listed(1))

    def queries(self, *, watch: bool, key: str) -> list[str]:
        """One parameter of all lists or all watches so far."""
        return [each.query.get(key, "") for each in self.requests if each.watch is watch]


@contextmanager
def scripted(lists: Iterable[Answer] = (), watches: Iterable[Answer] = ()) -> Iterator[ScriptedApi]:
    """Serve a script on a free port."""
    api = ScriptedApi(lists, watches)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    settings = Configuration(host=f"http://127.0.0.1:{server.server_port}")
    settings.retries = False
    with ApiClient(settings) as client:
        api.transport = Transport(client)
        try:
            yield api
        finally:
            api.closing.set()
            server.shutdown()
            thread.join()
            server.server_close()
            client.rest_client.pool_manager.clear()


def _handler(api: ScriptedApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            answer = api.answer(Request(parts.path, query))
            self.send_response(answer.status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in answer.lines:
                self._chunk(line)
            if answer.then == "cut":
                self.close_connection = True
                return
            if answer.then == "keep":
                api.closing.wait(120)
            self._chunk(b"")

        def _chunk(self, data: bytes) -> None:
            try:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler
