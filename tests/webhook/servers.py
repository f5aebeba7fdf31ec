"""Servers under test: a real process on a free port, stopped at the end."""

import contextlib
import http.client
import json
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controlplane.running.ports import free_ports

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds. Only a test that fails takes so long."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A started server process and how to reach it."""

    process: subprocess.Popen[bytes]
    port: int
    health_port: int
    certificates: Path

    def context(self) -> ssl.SSLContext:
        """A client's context that trusts this server's authority."""
        return ssl.create_default_context(cafile=self.certificates / "ca.crt")

    def connect(self, timeout: float = PATIENCE) -> http.client.HTTPSConnection:
        """A connection after its handshake."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context())
        connection.connect()
        return connection

    def post(self, path: str = "/mutate", body: bytes = b"{}", timeout: float = PATIENCE) -> tuple[int, bytes]:
        """Status and body of a POST on a connection of its own."""
        with contextlib.closing(self.connect(timeout)) as connection:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def health(self, path: str) -> tuple[int, str]:
        """Status and text of a path on the plain port."""
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=PATIENCE)
        ) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def wait(self, path: str, status: int, seconds: float = PATIENCE) -> str:
        """Wait until a health path answers `status`; its text."""
        return self.wait_for_text(path, status, "", seconds)

    def wait_for_text(self, path: str, status: int, pattern: str, seconds: float = PATIENCE) -> str:
        """Wait until a health path answers `status` with a text in which `pattern` is found; the text."""
        deadline = time.monotonic() + seconds
        last: object = None
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}")
            try:
                last = self.health(path)
            except OSError as error:
                last = error
            if isinstance(last, tuple) and last[0] == status and re.search(pattern, last[1]):
                return str(last[1])
            time.sleep(0.05)
        raise AssertionError(f"{path} did not answer {status} {pattern} in {seconds} s: {last}")


@contextlib.contextmanager
def echo_server(certificates: Path, **settings: object) -> Iterator[RunningServer]:
    """`echo_server.py` in a process of its own; `settings` are those of `webhook.serving.Settings`."""
    port, health_port = free_ports(2)
    arguments = {
        "certificates": str(certificates),
        "host": "127.0.0.1",
        "port": port,
        "health_port": health_port,
        "notice": 0,
        **settings,
    }
    command = [sys.executable, str(Path(__file__).with_name("echo_server.py")), json.dumps(arguments)]
    process = subprocess.Popen(command, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)})
    try:
        yield RunningServer(process, port, health_port, certificates)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server as a cluster would, then by force."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
