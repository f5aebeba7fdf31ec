"""A port that is taken ends a server at once, with a line that names the option."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from thorough import mostly

NOBODY = {"server": "https://127.0.0.1:1"}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A cluster that does not answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": NOBODY}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    return str(path)


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A server, until it ends by itself."""
    program = [sys.executable, "-c", "from cli.main import main; main()", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"HOME": str(tmp_path)}
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "option", "line"),
    mostly(
        [("webhook", "--port", "Can't connect to ('127.0.0.1', {})")],
        [
            ("controller", "--health-port", "--health-address=127.0.0.1 --health-port={}: [Errno 98] Address"),
            ("controller", "--metrics-port", "--health-address=127.0.0.1 --metrics-port={}: [Errno 98] Address"),
            ("webhook", "--health-port", "--host=127.0.0.1 --health-port={}: [Errno 98] Address"),
        ],
    ),
)
def test_a_port_that_is_taken_is_named(kubeconfig: str, tmp_path: Path, command: str, option: str, line: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        others = {
            "controller": ["--health-address=127.0.0.1", "--health-port=0", "--metrics-port=0"],
            "webhook": ["--host=127.0.0.1", f"--cert-dir={tmp_path}", "--health-port=0", "--port=0"],
        }[command]
        answer = run(tmp_path, command, f"--kubeconfig={kubeconfig}", *others, f"{option}={port}")
    assert answer.returncode != 0
    assert line.format(port) in answer.stderr


@pytest.mark.parametrize("command", mostly(["controller"], ["webhook"]))
def test_without_any_cluster_the_option_is_named(tmp_path: Path, command: str) -> None:
    others = [f"--cert-dir={tmp_path}"] if command == "webhook" else []
    answer = run(tmp_path, command, *others)
    assert answer.returncode == 1
    assert "(--kubeconfig)" in answer.stderr
