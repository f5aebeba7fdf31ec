"""Long steps are seen to go on."""

import io
import re
import time

import pytest

from controlplane import progress
from controlplane.progress import Progress


def test_a_step_is_announced_and_its_time_told() -> None:
    stream = io.StringIO()
    with Progress(stream).step("1/6 etcd"):
        assert stream.getvalue() == "  1/6 etcd … "
    assert stream.getvalue() == "  1/6 etcd … 0 s\n"


def test_a_long_step_says_how_long_it_takes_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.05)
    stream = io.StringIO()
    with Progress(stream).step("waiting"):
        deadline = time.monotonic() + 60
        while stream.getvalue().count(" s … ") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert re.match(r"  waiting … \d+ s … \d+ s … ", stream.getvalue())


def test_a_step_that_fails_says_so() -> None:
    stream = io.StringIO()
    with pytest.raises(OSError, match="disk full"), Progress(stream).step("writing"):
        raise OSError("disk full")
    assert stream.getvalue() == "  writing … failed\n"


def test_without_a_stream_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(None).step("anything"):
        pass
    assert capsys.readouterr() == ("", "")
