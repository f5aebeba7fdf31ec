"""`phalanx ui` never prints a URL behind which nothing answers, and says what to do instead."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from certs.files import write_self_signed
from cli.port_forward import COMMAND
from cli.ui import ui

CLOSED = "https://127.0.0.1:1"
"""No server listens on this port."""


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """A kubeconfig with a token, and the certificate of an authority."""
    write_self_signed(tmp_path, ["localhost"], ["127.0.0.1"])
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": CLOSED}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    return [f"--kubeconfig={tmp_path / 'config'}", f"--ca-file={tmp_path / 'ca.crt'}", "--no-open"]


def test_without_kubectl_the_command_to_type_is_named(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    answer = CliRunner().invoke(ui, options)
    assert answer.exit_code == 1
    assert COMMAND in answer.output
    assert "http" not in answer.output


def test_a_server_that_does_not_answer_is_named_with_the_reason(options: list[str]) -> None:
    answer = CliRunner().invoke(ui, [*options, f"--server={CLOSED}"])
    assert answer.exit_code == 1
    assert f"Error: nothing answers at {CLOSED}: " in answer.output
    assert "refused" in answer.output
