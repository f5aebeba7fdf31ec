"""An API server answers 429 for several reasons, of which a disruption budget is only one.

A request that the server throttled is retried, but not before the time that the server asks for.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport
from controller.writes.writer import Result, Writer

BUDGET = {
    "kind": "Status",
    "status": "Failure",
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "reason": "TooManyRequests",
    "details": {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }
        ],
        "retryAfterSeconds": 10,
    },
    "code": 429,
}
"""As kube-apiserver 1.37 answers (pkg/registry/core/pod/storage/eviction.go)."""
FAIRNESS = "Too many requests, please try again later."
"""As its priority and fairness does (staging/src/k8s.io/apiserver/pkg/server/httplog and filters)."""
TWO_BUDGETS = {
    "kind": "Status",
    "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    "code": 500,
}


@contextmanager
def answering(status: int, body: str, headers: dict[str, str]) -> Iterator[Writer]:
    """A writer to a server that always answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Suppress the log line of each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    settings = Configuration(host=f"http://127.0.0.1:{server.server_port}")
    settings.retries = False
    with ApiClient(settings) as client:
        writer = Writer(Transport(client))
        try:
            yield writer
        finally:
            writer.close()
            server.shutdown()
            thread.join()
            server.server_close()


ANSWERS = {
    "a disruption budget": (429, json.dumps(BUDGET), {"Retry-After": "10"}, Result.REFUSED, 0.0),
    "priority and fairness": (429, FAIRNESS, {"Retry-After": "7"}, Result.LATER, 7.0),
    "too much to do, for no time": (429, FAIRNESS, {}, Result.LATER, 1.0),
    "for very long": (429, FAIRNESS, {"Retry-After": "86400"}, Result.LATER, 30.0),
    "for a time that is no number": (
        429,
        FAIRNESS,
        {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"},
        Result.LATER,
        1.0,
    ),
    "unavailable": (503, "etcd is starting", {"Retry-After": "3"}, Result.LATER, 3.0),
    "two budgets, which it cannot weigh": (500, json.dumps(TWO_BUDGETS), {}, Result.FAILED, 0.0),
    "not allowed": (403, json.dumps({"kind": "Status", "message": "no", "code": 403}), {}, Result.FAILED, 0.0),
}


@pytest.mark.parametrize(("status", "body", "headers", "result", "pause"), ANSWERS.values(), ids=ANSWERS)
def test_an_eviction_is_told_as_what_refused_it(
    status: int, body: str, headers: dict[str, str], result: Result, pause: float
) -> None:
    with answering(status, body, headers) as writer:
        assert writer.evict("default", "web-0", "uid-web-0").result is result
        assert pause - 1.0 < writer.pause <= pause


def test_a_server_that_is_not_there_is_asked_again() -> None:
    settings = Configuration(host="http://127.0.0.1:1")
    settings.retries = False
    with ApiClient(settings) as client:
        writer = Writer(Transport(client))
        assert writer.evict("default", "web-0", "uid-web-0").result is Result.LATER
        writer.close()
