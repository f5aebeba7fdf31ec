"""Whether the kinds that are served have changed: by the tag of the one document in which they stand."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes.client import ApiClient, Configuration
from waiting import wait_for

from cluster.api.transport import Transport
from cluster.caches import discovery as discovery_module
from cluster.caches.discovery import Discovery


class _Api(ThreadingHTTPServer):
    """Has one document. `tag`: its present one, "" where it has none; `status`: of its answers where it has failed."""

    daemon_threads = True
    tag = '"1"'
    status = 200
    whole = spared = 0
    """How often it was sent, and how often it was not needed."""
    pause = 0.0
    """Seconds before each answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Api

    def do_GET(self) -> None:
        time.sleep(self.server.pause)
        same = bool(self.server.tag) and self.headers.get("If-None-Match") == self.server.tag
        status = self.server.status if self.server.status != 200 or not same else 304
        body = b"{}" if status == 200 else b""
        self.server.whole += status == 200
        self.server.spared += status == 304
        self.send_response(status)
        if self.server.tag and status in {200, 304}:
            self.send_header("ETag", self.server.tag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving() -> Iterator[_Api]:
    with _Api(("127.0.0.1", 0), _Handler) as api:
        thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            api.shutdown()
            thread.join()


@contextmanager
def looking(api: _Api) -> Iterator[list[float]]:
    """Run discovery over the server; yield the times (monotonic) at which it reported a change."""
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{api.server_address[1]}"
    told: list[float] = []
    discovery = Discovery(Transport(ApiClient(configuration)), lambda: told.append(time.monotonic()), seconds=0.02)
    discovery.start()
    try:
        yield told
    finally:
        discovery.stop()
        assert discovery.join(10)


def until(api: _Api, *, spared: int) -> None:
    """Wait until the server has answered so many more requests with "not modified"."""
    wanted = api.spared + spared
    wait_for(lambda: api.spared >= wanted, "the discovery to ask again")


def test_a_change_is_told_once_and_nothing_is_sent_while_there_is_none() -> None:
    with serving() as api, looking(api) as told:
        until(api, spared=3)
        assert (told, api.whole) == ([], 1)
        api.tag = '"2"'
        until(api, spared=3)
        assert (len(told), api.whole) == (1, 2)


def test_a_server_without_tags_or_that_fails_tells_no_change() -> None:
    for tag, status in (("", 200), ('"1"', 500), ('"1"', 403)):
        with serving() as api:
            api.tag, api.status = tag, status
            with looking(api) as told:
                time.sleep(0.2)
            assert told == []
            assert api.whole <= 1  # it is not asked again soon


def test_what_changes_as_soon_as_the_start_is_over_is_told() -> None:
    with serving() as api:
        api.pause = 0.1
        with looking(api) as told:
            api.tag, api.pause = '"2"', 0.0
            until(api, spared=2)
            assert len(told) == 1


def test_the_first_answer_after_one_that_failed_is_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller may have requested a kind during the failure and received no answer."""
    monkeypatch.setattr(discovery_module, "_VAIN_SECONDS", 0.02)
    with serving() as api:
        api.status = 500
        with looking(api) as told:
            api.status = 200
            until(api, spared=2)
            assert len(told) == 1
