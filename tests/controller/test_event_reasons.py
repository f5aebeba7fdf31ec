"""The table of event reasons, the page that explains them, and a recorder whose API server does not answer."""

import re
import socket
import time
from pathlib import Path

import pytest
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport
from controller.telemetry import events
from controller.telemetry import recorder as recording
from controller.telemetry.events import REASONS, Reason
from controller.telemetry.recorder import EVENTS, Recorder
from gangs.model import ObjectRef

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"


def row(reason: Reason) -> str:
    return f"| `{reason.name}` | {reason.kind.value} | {reason.action} | {reason.doc} |"


def test_the_page_explains_every_reason_and_no_other() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [row(reason) for reason in REASONS]


@pytest.mark.parametrize("reason", REASONS, ids=lambda each: each.name)
def test_a_reason_is_one_word_in_camel_case_explained_in_a_sentence(reason: Reason) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", reason.name)
    assert re.fullmatch(r"[A-Z][a-z]+", reason.action)
    assert reason.doc.endswith(".")


def test_no_two_reasons_share_a_name() -> None:
    assert len({reason.name for reason in REASONS}) == len(REASONS) > 10


def test_a_full_queue_drops_and_counts_instead_of_blocking() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        settings = Configuration()
        settings.host = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        settings.retries = False
        recorder = Recorder(Transport(ApiClient(settings)), instance="test-0")
        dropped = EVENTS.labels(events.GANG_PLACED.name, "dropped")
        before = dropped._value.get()  # noqa: SLF001 - the library has no public reader
        for number in range(3000):
            recorder.record(ObjectRef("v1", "Pod", "default", "p", "u"), events.GANG_PLACED, f"bound {number}")
        assert dropped._value.get() - before >= 990  # noqa: SLF001 - as above
        begun = time.monotonic()
        recorder.close(0.2)
        assert time.monotonic() - begun < recording._TIMEOUT[1]  # noqa: SLF001 - how long one event would take here
