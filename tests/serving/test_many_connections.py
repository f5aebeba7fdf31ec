"""One replica with more connections than threads: 200 that say nothing after their handshake, and 100 busy clients."""

import contextlib
import json
import statistics
import threading
import time

import pytest
from replica import MEMBER, PATIENCE, Replica

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800), pytest.mark.long]

IDLE = 200
BUSY = 100
EACH = 10
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "a3bb857c-0000-4000-8000-000000000000",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "member",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin"},
        "object": MEMBER,
    },
}


def test_every_admission_of_a_hundred_busy_clients_beside_two_hundred_idle_ones_is_answered(
    replica: Replica, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps(REVIEW)
    seconds: list[float] = []
    wrong: list[str] = []

    def client() -> None:
        with contextlib.closing(replica.connect()) as connection:
            for _ in range(EACH):
                started = time.monotonic()
                connection.request("POST", "/mutate?timeout=30s", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = json.loads(response.read())
                seconds.append(time.monotonic() - started)
                if response.status != 200 or not answer["response"].get("patch"):
                    wrong.append(f"{response.status} {answer}")

    with contextlib.ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(contextlib.closing(replica.connect()))
        clients = [threading.Thread(target=client) for _ in range(BUSY)]
        began = time.monotonic()
        for each in clients:
            each.start()
        for each in clients:
            each.join(PATIENCE)
        took = time.monotonic() - began
    centiles = statistics.quantiles(seconds, n=100)
    with capsys.disabled():
        text = (
            f"{len(seconds)} admissions of {BUSY} clients beside {IDLE} idle connections: {len(seconds) / took:.0f}/s"
        )
        print(f"\n{text}, p50 {centiles[49] * 1000:.0f} ms, p99 {centiles[98] * 1000:.0f} ms")  # noqa: T201
    assert wrong == []
    assert len(seconds) == BUSY * EACH
