"""The first connection of a program to an API server that refuses or does not answer: one request, one error."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from manual_clock import ManualClock

from cluster.api.connecting import connect, token_of
from cluster.api.transport import SIGNED_IN_SECONDS, UNREACHABLE, Transport

BUSY, SILENT, NOTHING = "/busy", "/silent", "/nothing"


class Troubled:
    """says of one path that it is busy, and of the other nothing at all."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.over = threading.Event()


@contextmanager
def troubled() -> Iterator[tuple[str, Troubled]]:
    """Run the server; yield its address and the requests that it received."""
    told = Troubled()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append(self.path)
            told.tokens.append(self.headers["Authorization"])
            if self.path == SILENT:
                told.over.wait()
                return
            self.send_response(HTTPStatus.NO_CONTENT if self.path == NOTHING else HTTPStatus.TOO_MANY_REQUESTS)
            self.send_header("Retry-After", "5")
            self.end_headers()

        do_PUT = do_DELETE = do_GET  # noqa: N815 -- the names are http.server's

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", told
    finally:
        told.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, server: str) -> str:
    """Write a kubeconfig of a server that needs no credentials; return its path."""
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(written))
    return str(file)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_refusal_is_handed_on_at_once_however_long_the_server_asks_to_wait(method: str, tmp_path: Path) -> None:
    with troubled() as (server, told):
        with pytest.raises(ApiException) as refused:
            connect(kubeconfig(tmp_path, server)).request(method, BUSY)
        assert refused.value.status == HTTPStatus.TOO_MANY_REQUESTS
        assert told.asked == [BUSY]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_server_that_says_nothing_costs_one_timeout(method: str, tmp_path: Path) -> None:
    with troubled() as (server, told):
        transport = connect(kubeconfig(tmp_path, server))
        with pytest.raises(UNREACHABLE):
            transport.request(method, SILENT, timeout=(30.0, 0.5))
        assert told.asked == [SILENT]


@pytest.mark.parametrize("text", [b"a: [", b"[]", b"\xff\xfe"], ids=["no YAML", "a list", "no text"])
@pytest.mark.parametrize("read", [connect, token_of])
def test_a_kubeconfig_that_cannot_be_read_is_named(read: Any, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(text)
    with pytest.raises(ConfigException) as caught:
        read(str(path))
    assert str(caught.value).startswith(f"kubeconfig {path} cannot be read: ")


def test_a_token_that_is_exchanged_is_soon_sent() -> None:
    """The client is asked for it again after a second, not for each request."""
    clock, tokens = ManualClock(100.0), iter(["first", "second"])
    settings = Configuration()
    hook: Any = lambda it: it.api_key.update(BearerToken=f"Bearer {next(tokens)}")  # noqa: E731 - untyped there
    settings.refresh_api_key_hook = hook
    settings.api_key = {"BearerToken": ""}
    with troubled() as (server, told):
        settings.host, settings.retries = server, False
        transport = Transport(ApiClient(settings), clock=clock)
        for pause in (0.0, SIGNED_IN_SECONDS * 0.9, SIGNED_IN_SECONDS * 0.2):
            clock.now += pause
            with pytest.raises(ApiException):
                transport.request("GET", BUSY)
        assert told.tokens == ["Bearer first", "Bearer first", "Bearer second"]


def test_a_proxy_is_asked_for_the_whole_url() -> None:
    settings = Configuration()
    with troubled() as (server, told):
        settings.host, settings.proxy, settings.retries = f"http://api.example{BUSY}", server, False
        with pytest.raises(ApiException):
            Transport(ApiClient(settings)).request("GET", "/pods", query={"limit": 1})
        assert told.asked == [f"http://api.example{BUSY}/pods?limit=1"]


def test_what_nobody_looks_at_is_not_decoded(tmp_path: Path) -> None:
    with troubled() as (server, _):
        answer = connect(kubeconfig(tmp_path, server)).request("GET", NOTHING, kind=msgspec.Raw)
    assert bytes(answer) == b"null"
