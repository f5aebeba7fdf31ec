"""The plugin for krew, judged by krew itself: its manifest by krew's own validator, its archive by an installation."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from cli.demo import NO_CONTROL_PLANE
from controlplane.checkers import checker
from controlplane.programs.binaries import find_binaries
from krew.__main__ import archive, manifest

ROOT = Path(__file__).parents[2]
SCENE = ("nodes", "topology", "running", "small")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, as it is now."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture
def served(wheel: Path, tmp_path: Path) -> Iterator[Path]:
    """The manifest of the plugin, with the archive served at the manifest's address."""
    content = archive(wheel)
    (tmp_path / "phalanx.tar.gz").write_bytes(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    written = tmp_path / "phalanx.yaml"
    uri = f"http://127.0.0.1:{server.server_port}/phalanx.tar.gz"
    written.write_text(manifest(content, uri=uri, homepage="https://example.com"))
    yield written
    server.shutdown()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's name
        """Suppress the log line of each request."""


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment in which `kubectl krew` is krew, with a home of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").symlink_to(find_binaries()["kubectl"])
    (folder / "kubectl-krew").symlink_to(checker("krew"))
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    homes = {"HOME": str(tmp_path / "home"), "KREW_ROOT": str(tmp_path / "krew")}
    return {**os.environ, "PATH": path, **homes, "PIP_COMPILE": "0"}  # no bytecode: each program runs only twice


@pytest.mark.controlplane
@pytest.mark.long
def test_krews_own_validator_accepts_the_manifest_and_installs_the_archive(
    served: Path, programs: dict[str, str]
) -> None:
    command = [str(checker("validate-krew-manifest")), "-manifest", str(served)]
    answer = subprocess.run(command, env=programs, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "installed fine" in answer.stderr
    assert "exceeds" not in answer.stderr


@pytest.mark.controlplane
@pytest.mark.long
def test_an_archive_that_is_another_one_is_not_installed(served: Path, programs: dict[str, str]) -> None:
    (served.parent / "phalanx.tar.gz").write_bytes(b"another one")
    command = [str(checker("validate-krew-manifest")), "-manifest", str(served)]
    answer = subprocess.run(command, env=programs, capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    assert "checksum does not match" in answer.stderr


def test_the_wheel_holds_the_product_alone(wheel: Path) -> None:
    with ZipFile(wheel) as content:
        folders = {name.partition("/")[0] for name in content.namelist()}
    tools = {"benchmarks", "controlplane", "image", "krew", "release", "tests"}
    assert {"cli", "controller", "manifests", "timing", "webhook"} <= folders
    assert not folders & tools


def test_the_demo_of_an_installed_package_says_where_it_runs(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from cli.main import main; main()", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    answer = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (1, f"Error: {NO_CONTROL_PLANE}\n")


def test_the_same_files_give_the_same_archive(wheel: Path) -> None:
    assert archive(wheel) == archive(wheel)


def test_an_old_python_is_told_so(tmp_path: Path) -> None:
    launcher = (ROOT / "krew" / "kubectl-phalanx").read_text()
    old = tmp_path / "kubectl-phalanx"
    old.write_text(launcher.replace("OLDEST = (3, 11)", "OLDEST = (99, 0)"))
    answer = subprocess.run([sys.executable, str(old)], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr.split(";")[0]) == (1, "error: kubectl phalanx needs Python 3.11 or newer")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_krew_has_installed_runs(served: Path, programs: dict[str, str]) -> None:
    install = ["kubectl", "krew", "install", "--manifest", str(served)]
    subprocess.run(install, env=programs, check=True, capture_output=True)
    plugins = os.pathsep.join((str(Path(programs["KREW_ROOT"]) / "bin"), programs["PATH"]))
    files = [part for name in SCENE for part in ("-f", f"examples/first-gang/{name}.yaml")]
    solve = ["kubectl", "phalanx", "solve", *files]
    for first in (True, False):
        answer = subprocess.run(
            solve, env={**programs, "PATH": plugins}, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ("installing its locked dependencies" in answer.stderr) is first
        assert "default/small  Placed  optimal" in answer.stdout
    receipt = Path(programs["KREW_ROOT"]) / "receipts" / "phalanx.yaml"
    assert yaml.safe_load(receipt.read_text())["metadata"]["name"] == "phalanx"
