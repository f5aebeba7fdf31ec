"""The image without a container runtime: the Dockerfile's steps in a clean directory, and what comes of them runs."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml
from image_steps import ROOT, Image, build, context

from certs.files import write_self_signed
from cli.installing import custom_resource_definitions, system_objects
from controlplane.control_plane import ControlPlane, free_ports
from controlplane.rendering import MANIFESTS
from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

MEGABYTES = 520
"""Most that the environment may take on disk; CP-SAT, numpy and pandas are four fifths of it."""
NOBODY = 65532


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image's files, readable by the image's user."""
    folder = Path(tempfile.mkdtemp(prefix="phalanx-image-"))
    folder.chmod(0o755)
    try:
        yield build(folder)
    finally:
        shutil.rmtree(folder)


def start(image: Image, *arguments: str) -> subprocess.Popen[str]:
    """Run the entry point, as the image's user where this one may become it and that one may run Python."""
    program = image.root / "venv" / "bin" / image.entry_point[0]
    user = image.user if os.geteuid() == 0 and _open_to_all(image.root / "venv" / "bin" / "python") else None
    environment = {"PATH": str(program.parent), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [program, *arguments],
        cwd=image.root,
        env=environment,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _open_to_all(path: Path) -> bool:
    folders = path.resolve().parents
    return all(each.stat().st_mode & stat.S_IXOTH for each in folders)


def files_of(image: Image) -> dict[Path, int]:
    """Every file, and when it was changed last."""
    return {each: each.lstat().st_mtime_ns for each in image.root.rglob("*")}


def test_the_manifests_and_the_image_agree_on_the_user(image: Image) -> None:
    assert image.user == NOBODY
    assert image.environment["PATH"] == "/venv/bin:$PATH"
    for name in ("webhook", "controller"):
        deployment = next(yaml.safe_load_all((MANIFESTS / "system" / f"{name}.yaml").read_text()))
        assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == NOBODY


def test_it_holds_what_runs_and_nothing_that_builds(image: Image) -> None:
    assert [each.name for each in image.root.iterdir()] == ["venv"]
    installed = {each.name.split("-")[0].lower() for each in image.root.glob("venv/lib/*/site-packages/*.dist-info")}
    assert {"phalanx", "ortools", "kubernetes"} <= installed
    assert not {"pip", "setuptools", "pytest", "mypy"} & installed
    size = sum(each.stat().st_size for each in image.root.rglob("*") if each.is_file() and not each.is_symlink())
    assert size < MEGABYTES * 1_000_000, f"{size / 1e6:.0f} MB"


def test_it_holds_every_file_of_the_packages_it_has(image: Image) -> None:
    (packages,) = image.root.glob("venv/lib/*/site-packages")
    shipped = [each for each in context() if (packages / each.parent / "__init__.py").exists()]
    missing = [str(each) for each in shipped if len(each.parts) > 1 and not (packages / each).exists()]
    assert missing == []


def test_the_entry_point_answers(image: Image) -> None:
    before = files_of(image)
    helped = start(image, "--help")
    assert "Gangs of pods" in helped.communicate()[0]
    assert helped.returncode == 0
    assert files_of(image) == before


def test_both_servers_start_from_it_and_write_nothing_where_they_run(image: Image, cluster: ControlPlane) -> None:
    cluster.apply(custom_resource_definitions())
    cluster.apply(system_objects())
    before = files_of(image)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        write_self_signed(folder / "certificates", dns_names=["localhost"], addresses=["127.0.0.1"])
        https, health, other = map(str, free_ports(3))
        webhook = ["webhook", "--host", "127.0.0.1", "--port", https, "--health-port", health]
        webhook += ["--cert-dir", str(folder / "certificates"), "--kubeconfig", _kubeconfig(cluster, folder, "webhook")]
        controller = ["controller", "--health-address", "127.0.0.1", "--health-port", other, "--metrics-port", "0"]
        controller += ["--kubeconfig", _kubeconfig(cluster, folder, "controller"), "--identity", "from-the-image"]
        _readable(folder)
        with _running(image, webhook, health), _running(image, controller, other):
            assert files_of(image) == before
    assert files_of(image) == before


def _kubeconfig(cluster: ControlPlane, folder: Path, name: str) -> str:
    """A service account's kubeconfig with everything in it, in a folder that others may read."""
    config = yaml.safe_load(cluster.kubeconfig_for(SYSTEM_NAMESPACE, f"phalanx-{name}").read_text())
    authority = folder / "ca.crt"
    shutil.copy(cluster.ca_file, authority)
    config["clusters"][0]["cluster"]["certificate-authority"] = str(authority)
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def _readable(folder: Path) -> None:
    for each in folder.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)


class _running:  # noqa: N801 - used as a function
    """A server that has become ready; ended politely on leaving."""

    def __init__(self, image: Image, arguments: list[str], port: str) -> None:
        self._program = start(image, *arguments)
        self._port = port

    def __enter__(self) -> None:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self._program.poll() is None:
            with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.1)
        self._program.kill()
        pytest.fail(self._program.communicate()[0])

    def __exit__(self, *_: object) -> None:
        self._program.terminate()
        said = self._program.communicate(timeout=180)[0]
        assert self._program.returncode == 0, said


def test_its_contents_and_their_licences_are_listed(image: Image) -> None:
    python = image.root / "venv" / "bin" / "python"
    made = subprocess.run(["make", "sbom", f"RUNTIME={python}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    listed = json.loads((ROOT / "dist" / "phalanx.cdx.json").read_text())
    components = {each["name"]: each for each in listed["components"]}
    assert {"ortools", "kubernetes", "gunicorn"} <= components.keys()
    licences = (ROOT / "dist" / "licences.md").read_text()
    for name in ("ortools", "gunicorn"):
        assert components[name]["version"] in licences
    assert "GPL" not in licences.replace("LGPL", "")
