"""A flood of unknown tokens, each a different one, runs beside honest admissions.

The webhook asks the API server about each token, but in a separate pool. It keeps nothing of these tokens for long.
"""

import contextlib
import http.client
import json
import ssl
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from replica import PATIENCE, Replica
from test_many_connections import REVIEW

from controlplane.control_plane import ControlPlane, wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800), pytest.mark.timed]

PATHS = (("GET", "/v1/gangs"), ("GET", "/v1/topology"), ("POST", "/v1/solve"), ("GET", "/metrics"), ("GET", "/"))
HONEST, EACH, PAUSE_SECONDS = 4, 100, 0.02
ATTACKERS = 60
"""More than the pool of tokens has threads and places to wait."""
TOKENS = 2000
"""Tokens shown before the memory is measured, and again after: twice as many as the webhook remembers."""
P99_SECONDS = 1.0
SLOW_MACHINE = 5
"""How much longer than without the flood admissions may take, where the machine is too slow for the second."""
MEGABYTES = 16
"""Memory (MB) that the allocator may keep after one more flood."""


class Flood:
    """Clients that show a token of their own with each request, until the end."""

    def __init__(self, replica: Replica, sources: int) -> None:
        self.answers: Counter[int] = Counter()
        self._replica = replica
        self._over = threading.Event()
        self._numbers = iter(range(10**9))
        self._threads = [
            threading.Thread(target=self._ask, args=(f"127.0.1.{1 + index % sources}",)) for index in range(ATTACKERS)
        ]

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Meanwhile."""
        for each in self._threads:
            each.start()
        try:
            yield
        finally:
            self._over.set()
            for each in self._threads:
                each.join(PATIENCE)

    def _ask(self, source: str) -> None:
        while not self._over.is_set():
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                contextlib.closing(connected(self._replica, source)) as connection,
            ):
                while not self._over.is_set():
                    self._show(connection)

    def _show(self, connection: http.client.HTTPSConnection) -> None:
        number = next(self._numbers)
        method, path = PATHS[number % len(PATHS)]
        connection.request(method, path, headers={"Authorization": f"Bearer unknown-{id(self)}-{number}"})
        response = connection.getresponse()
        response.read()
        self.answers[response.status] += 1
        if response.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            self._over.wait(0.1)  # else these clients, not the server, would be what takes the machine's time


def connected(replica: Replica, source: str) -> http.client.HTTPSConnection:
    """Return a connection from a loopback address. The certificate is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(
        "127.0.0.1", replica.port, timeout=PATIENCE, context=context, source_address=(source, 0)
    )


def admitted(replica: Replica) -> list[float]:
    """Return the duration (seconds) of each admission that a few clients request. All requests are answered."""
    seconds: list[float] = []
    wrong: list[str] = []
    body, headers = json.dumps(REVIEW), {"Content-Type": "application/json"}

    def client() -> None:
        with contextlib.closing(connected(replica, "127.0.0.1")) as connection:
            for _ in range(EACH):
                started = time.monotonic()
                connection.request("POST", "/mutate?timeout=30s", body, headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
                seconds.append(time.monotonic() - started)
                if response.status != http.HTTPStatus.OK or not answer["response"].get("patch"):
                    wrong.append(f"{response.status} {answer}")
                time.sleep(PAUSE_SECONDS)

    clients = [threading.Thread(target=client) for _ in range(HONEST)]
    for each in clients:
        each.start()
    for each in clients:
        each.join(PATIENCE)
    assert wrong == []
    assert len(seconds) == HONEST * EACH
    return seconds


def p99(seconds: list[float]) -> float:
    """The 99th centile."""
    return statistics.quantiles(seconds, n=100)[98]


def memory(pid: int) -> float:
    """Return the resident memory of a process and its children (MB)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return pages * 4096 / 1e6 + sum(memory(int(each)) for each in children)


@pytest.mark.parametrize(
    "sources",
    [pytest.param(1, id="from one address"), pytest.param(ATTACKERS, id="each from its own")],
)
def test_unknown_tokens_delay_no_admission_and_leave_nothing_behind(
    replica: Replica, sources: int, capsys: pytest.CaptureFixture[str]
) -> None:
    calm = p99(admitted(replica))
    held, flooded, answers = [], [], Counter[int]()
    for _ in range(2):
        flood = Flood(replica, sources)
        with flood.going_on():
            flooded += admitted(replica)
            wait_until(lambda: flood.answers[401] >= TOKENS, PATIENCE, "the tokens to be refused")  # noqa: B023
        answers += flood.answers
        held.append(memory(replica.program.pid))
    with capsys.disabled():
        text = f"p99 of admissions {calm * 1000:.0f} ms, beside unknown tokens {p99(flooded) * 1000:.0f} ms"
        print(f"\n{text}; answers {dict(answers)}; {held[0]:.0f}, then {held[1]:.0f} MB")  # noqa: T201
    assert answers.keys() <= {401, 429}
    assert p99(flooded) <= max(P99_SECONDS, SLOW_MACHINE * calm)
    assert held[1] - held[0] <= MEGABYTES


def test_tokens_about_which_nobody_can_be_asked_delay_no_admission(
    plane: ControlPlane, replica: Replica, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each such request holds its thread until the API server's time is over; admission is answered from memory."""
    calm = p99(admitted(replica))
    flood = Flood(replica, ATTACKERS)
    plane.program("kube-apiserver").freeze()
    try:
        with flood.going_on():
            wait_until(lambda: flood.answers[429] > 0 or flood.answers[503] > 0, PATIENCE, "the first refusals")
            slow = p99(admitted(replica))
    finally:
        plane.program("kube-apiserver").thaw()
        plane.await_ready("kube-apiserver")
    with capsys.disabled():
        text = f"p99 of admissions {calm * 1000:.0f} ms, beside tokens that wait {slow * 1000:.0f} ms"
        print(f"\n{text}; answers {dict(flood.answers)}")  # noqa: T201
    assert flood.answers.keys() <= {401, 429, 503}
    assert slow <= max(P99_SECONDS, SLOW_MACHINE * calm)
