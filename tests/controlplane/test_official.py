"""Programs of the official releases, from a server on this machine in place of the real one."""

import hashlib
import platform
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controlplane.programs import official
from controlplane.programs.binaries import PROGRAMS, build
from controlplane.progress import Progress

VERSION = "v1.37.1"
PROGRAM = b"#!/bin/sh\necho Kubernetes v1.37.1\n"
SUM = hashlib.sha256(PROGRAM).hexdigest()
ARCHITECTURE = next(iter(official._ARCHITECTURES.values()))  # noqa: SLF001 - the machine's own is patched below


@contextmanager
def releases(files: Mapping[str, bytes]) -> Iterator[str]:
    """A server that has these files, by path; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


def served(*names: str, wanted: str = SUM) -> dict[str, bytes]:
    """The paths of these programs, each with the sum that is published."""
    paths = {name: f"/{VERSION}/bin/linux/{ARCHITECTURE}/{name}" for name in names}
    sums = {f"{path}.sha256": wanted.encode() for path in paths.values()}
    return {**dict.fromkeys(paths.values(), PROGRAM), **sums}


def test_programs_are_downloaded_and_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with releases(served("kubectl", "kube-apiserver")) as address:
        monkeypatch.setenv(official.VARIABLE, address)
        assert official.download(["kubectl", "kube-apiserver"], VERSION, tmp_path) == ["kubectl", "kube-apiserver"]
    assert (tmp_path / "kubectl").read_bytes() == PROGRAM
    assert (tmp_path / "kubectl").stat().st_mode & 0o111
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kube-apiserver", "kubectl"]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="no release of that version"),
        pytest.param(served("kubectl", wanted="0" * 64), id="another sum"),
        pytest.param(served("kubectl", wanted=""), id="an empty sum"),
    ],
)
def test_what_is_missing_or_differs_is_left_to_the_build(
    files: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with releases(files) as address:
        monkeypatch.setenv(official.VARIABLE, address)
        assert official.download(["kubectl"], VERSION, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:9"])
def test_without_a_network_nothing_is_downloaded(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(official.VARIABLE, address)
    assert official.download(["kubectl"], VERSION, tmp_path) == []


def test_a_build_uses_what_path_or_a_release_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH has kube-scheduler in the wanted version and kubectl in another; the release has the rest."""
    path, folder = tmp_path / "path", tmp_path / "cache"
    path.mkdir()
    for name, text in (("kube-scheduler", PROGRAM), ("kubectl", PROGRAM.replace(b"1.37.1", b"1.36.0"))):
        (path / name).write_bytes(text)
        (path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}:/bin:/usr/bin")
    wanted = [each for each in PROGRAMS if each.name.startswith("kube")]
    with releases(served(*(each.name for each in wanted))) as address:
        monkeypatch.setenv(official.VARIABLE, address)
        build(wanted, folder, Progress(None))
    assert (folder / "kube-scheduler").readlink() == path / "kube-scheduler"
    assert sorted(each.name for each in folder.iterdir()) == sorted(["lock", *(each.name for each in wanted)])
