"""The cookie of `phalanx ui` is safe from other servers on the machine, although cookies do not distinguish ports."""

import socket
import sys
import threading
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

import pytest
from werkzeug.serving import make_server

from certs.files import write_self_signed
from cli.ui import LOOPBACK, Gateway, own_host


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[Gateway, int]]:
    """A served gateway and its port. The gateway's webhook is not reachable."""
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    made = Gateway("https://127.0.0.1:1", (tmp_path / "ca.crt").read_text(), lambda: "token")
    server = make_server(LOOPBACK, 0, made.application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made, server.server_port
    server.shutdown()


def resolving(jar: CookieJar, monkeypatch: pytest.MonkeyPatch) -> OpenerDirector:
    """A client like a browser: it keeps cookies, and resolves every name below localhost to this machine."""
    found = socket.getaddrinfo

    def here(host: str, *rest: Any, **options: Any) -> object:
        return found(LOOPBACK if host.endswith(".localhost") else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    return build_opener(HTTPCookieProcessor(jar))


def sent_to(jar: CookieJar, address: str) -> str:
    """The cookies that the browser sends there."""
    request = Request(address)  # noqa: S310 -- it is not opened
    jar.add_cookie_header(request)
    return request.get_header("Cookie") or ""


def test_its_key_is_sent_to_no_other_port_of_the_machine(
    gateway: tuple[Gateway, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's server on this machine would need no more to see what our user may see."""
    served, port = gateway
    monkeypatch.setattr(sys, "platform", "linux")
    address = served.address(port)
    jar = CookieJar()
    browser = resolving(jar, monkeypatch)
    with pytest.raises(OSError, match="502"):  # past the key, to a webhook that is not there
        browser.open(address)
    host = urlsplit(address).hostname
    assert served.key in sent_to(jar, f"http://{host}:{port}/")
    for other in (LOOPBACK, "localhost", "other.localhost"):
        assert not sent_to(jar, f"http://{other}:8888/")


def test_every_run_has_a_name_of_its_own_that_nobody_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    hosts = {own_host() for _ in range(100)}
    assert len(hosts) == 100
    assert all(host.endswith(".localhost") and len(host) > 20 for host in hosts)


def test_where_browsers_do_not_know_such_names_it_is_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Safari asks the system, which may not."""
    monkeypatch.setattr(sys, "platform", "darwin")

    def unknown(*_: object) -> object:
        raise OSError("nodename nor servname provided, or not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert own_host() == LOOPBACK
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [()])
    assert own_host() != LOOPBACK
