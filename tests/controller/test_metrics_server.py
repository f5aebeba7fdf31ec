"""The controller's numbers over TLS, with tokens as they come."""

import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection

import pytest

from cluster.api.token_reviews import Access, AccessError
from controller.telemetry.metrics import Metrics
from controller.telemetry.metrics_server import metrics_server
from serving.background import BackgroundPort

VERDICTS = {"good": Access.ALLOWED, "poor": Access.FORBIDDEN, "bad": Access.UNKNOWN_USER}


class Tokens:
    """An access check that knows three tokens; it cannot check any other."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """By the token alone."""
        assert (verb, path) == ("get", "/metrics")
        if token not in VERDICTS:
            raise AccessError("TokenReview failed: connection refused")
        return VERDICTS[token]


@pytest.fixture
def server() -> Iterator[BackgroundPort]:
    """One on a free port."""
    serving = metrics_server("127.0.0.1", 0, Metrics(), Tokens())
    serving.start()
    yield serving
    serving.stop()


def asked(server: BackgroundPort, *, bearer: str = "", path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {bearer}"} if bearer else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("token", "status", "said"),
    [
        ("", 401, "a bearer token is needed"),
        ("bad", 401, "the token is not valid"),
        ("poor", 403, "you may not get the path /metrics"),
        ("other", 503, "TokenReview failed"),
        ("good", 200, "phalanx_leader 0.0"),
    ],
)
def test_only_who_may_read_the_path_reads_it(server: BackgroundPort, token: str, status: int, said: str) -> None:
    found, text = asked(server, bearer=token)
    assert found == status
    assert said in text


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405)])
def test_nothing_else_is_served(server: BackgroundPort, method: str, path: str, status: int) -> None:
    assert asked(server, bearer="good", path=path, method=method)[0] == status


def test_silent_and_senseless_clients_hold_up_nobody(server: BackgroundPort) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port)),
        socket.create_connection(("127.0.0.1", server.port)) as plain,
    ):
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert asked(server, bearer="good")[0] == 200


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        metrics_server("127.0.0.1", taken.getsockname()[1], Metrics(), Tokens())
