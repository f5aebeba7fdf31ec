"""The image: what is in it, and both servers run from it, on a control plane, with what the manifests grant them.

Without a container runtime, the tests use the result of the Dockerfile's steps in a clean directory. `make test-image`
builds the image and runs the same tests on it (`PHALANX_IMAGE` names its archive). They then run in containers whose
user, mounts, limits and read-only root file system are those of the manifests.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import distributions, packages_distributions
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import yaml
from documented_examples import happens_as_documented
from emptying import empty
from image_bundle import ACCOUNT, Bundle, mark
from image_steps import ROOT, Image, build, context
from installation import Installation

from controlplane.scenarios import folders
from image.leave_out import DISTRIBUTIONS, FILES, normalised
from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900), pytest.mark.long]

MEGABYTES = 245
"""Most that we may add to the base; CP-SAT and numpy are more than half of it, and the engine of CEL has 33 MB."""
NOBODY = 65532
CONTROLLER = next(yaml.safe_load_all((ROOT / "manifests" / "system" / "controller.yaml").read_text()))
POD = CONTROLLER["spec"]["template"]["spec"]
NOT_MET = {
    "kubernetes.client": "names all of its classes, and imports each when it is asked for",
    "kubernetes.client.models": "as above",
    "kubernetes.utils.metrics": "usage of nodes and pods, which we do not read",
    "msgspec._utils": "for classes made with attrs",
    "ortools.sat.python.cp_model": "pandas, for which solver.cp_model has a stand-in while it is loaded",
    "numpy": "numpy.f2py and numpy.distutils when they are asked for by name",
    "numpy._pytesttester": "numpy's own tests",
}
"""By loaded module that names an omitted module: the reason why it never imports the omitted one."""


@pytest.fixture(scope="module")
def image() -> Iterator[Image | Bundle]:
    """The image's files, readable by the image's user."""
    folder = Path(tempfile.mkdtemp(prefix="phalanx-image-"))
    folder.chmod(0o755)
    archive = os.environ.get("PHALANX_IMAGE")
    try:
        yield Bundle(Path(archive), folder) if archive else build(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def nothing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The mounts of a command that reaches no cluster: the examples."""
    shared = Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))
    shutil.copytree(ROOT / "examples", shared / "examples")
    (shared / "account").mkdir()
    readable(shared)
    return {ACCOUNT: shared / "account", "/examples": shared / "examples"}


def readable(folder: Path) -> None:
    """Make a folder and its files readable by every user, and its parent folders in the temporary folder passable."""
    for each in [folder, *folder.rglob("*")]:
        each.chmod(0o755 if each.is_dir() else 0o644)
    for above in folder.parents:
        if above.owner() == folder.owner() and above.is_relative_to(tempfile.gettempdir()):
            above.chmod(above.stat().st_mode | 0o011)


def run(command: list[str]) -> str:
    """Run a command, check that it succeeds, and return its standard output."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def files_of(image: Image | Bundle) -> dict[Path, int]:
    """Return every file that the image adds, with its time of last modification in nanoseconds."""
    return {each: each.lstat().st_mtime_ns for each in (image.root / "venv").rglob("*")}


def packages_of(image: Image | Bundle) -> Path:
    """Where Python's packages are."""
    (packages,) = image.root.glob("venv/lib/*/site-packages")
    return packages


def test_the_manifests_and_the_image_agree_on_the_user(image: Image | Bundle) -> None:
    assert image.user == NOBODY
    assert image.environment["PATH"].startswith("/venv/bin:")
    for name in ("webhook", "controller"):
        deployment = next(yaml.safe_load_all((ROOT / "manifests" / "system" / f"{name}.yaml").read_text()))
        assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == NOBODY


def test_it_holds_what_runs_and_nothing_that_builds(image: Image | Bundle) -> None:
    assert image.added() == {"venv"}
    installed = {normalised(each.name) for each in distributions(path=[str(packages_of(image))])}
    assert {"phalanx", "ortools", "kubernetes"} <= installed
    assert not {"pip", "setuptools", "pytest", "mypy", *DISTRIBUTIONS} & installed
    files = [each for each in (image.root / "venv").rglob("*") if each.is_file() and not each.is_symlink()]
    size = sum(each.stat().st_size for each in files)
    assert size < MEGABYTES * 1_000_000, f"{size / 1e6:.0f} MB"


def test_it_holds_every_file_of_the_packages_it_has(image: Image | Bundle) -> None:
    packages = packages_of(image)
    shipped = [each for each in context() if (packages / each.parent / "__init__.py").exists()]
    missing = [str(each) for each in shipped if len(each.parts) > 1 and not (packages / each).exists()]
    assert missing == []


def test_its_lists_of_installed_files_are_true(image: Image | Bundle) -> None:
    """Scanners compare the lists of installed files with the files, and an uninstallation removes the listed files."""
    for each in distributions(path=[str(packages_of(image))]):
        missing = [str(file) for file in each.files or () if not Path(str(each.locate_file(file))).exists()]
        assert missing == [], each.name


def test_all_is_compiled_once_because_where_it_runs_nothing_can_be_written(image: Image | Bundle) -> None:
    sources = [each for each in packages_of(image).rglob("*.py") if "__pycache__" not in each.parts]
    assert [str(each) for each in sources if not list(each.parent.glob(f"__pycache__/{each.stem}.*.pyc"))] == []


def test_what_was_left_out_is_never_imported(image: Image | Bundle, nothing: dict[str, Path]) -> None:
    """Import every module of Phalanx: only the modules in `NOT_MET` name an omitted module."""
    program = ["python", "-c", (Path(__file__).parent / "image_contents.py").read_text()]
    told = json.loads(run(image.command("contents", POD, [], nothing, program=program)))
    assert told["failed"] == {"controller.telemetry.tracing": "No module named 'opentelemetry'"}
    owners, packages = packages_distributions(), packages_of(image)
    named = {(module, target) for module, target in told["named"] if left_out(target, packages, owners)}
    assert {each for each in named if each[0] not in NOT_MET} == set()
    assert NOT_MET.keys() - {module for module, _ in named} == set()


def left_out(name: str, packages: Path, owners: Mapping[str, Sequence[str]]) -> bool:
    """Whether a name that is imported is that of a module, or of something in a module, that the image has not.

    :param owners: the distributions of each first name.
    """
    if {each.lower() for each in owners.get(name.partition(".")[0], ())} & DISTRIBUTIONS.keys():
        return True
    path = Path(*name.split("."))
    if any((packages / each).with_suffix(".py").exists() for each in (path, path.parent)):
        return False
    return any(fnmatchcase(str(at), rule) for at in (path.with_suffix(".py"), path / "__init__.py") for rule in FILES)


@pytest.mark.parametrize(("example", "output"), [("koordinator", "table"), ("lingjun", "yaml"), ("own", "json")])
def test_the_command_line_plans(image: Image | Bundle, nothing: dict[str, Path], example: str, output: str) -> None:
    before = files_of(image)
    arguments = ["solve", "-f", f"/examples/{example}", "-o", output]
    assert "Placed" in run(image.command("solve", POD, arguments, nothing))
    assert files_of(image) == before


class FromTheImage(Installation):
    """Phalanx installed from the manifests, whose containers are the image's."""

    def __init__(self, image: Image | Bundle, more: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(more)
        self._image = image

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, what is left of containers too."""
        super().__exit__(kind, error, trace)
        if isinstance(self._image, Bundle):
            for name in self.health:
                self._image.remove(name)

    def command(self, name: str, arguments: list[str], kubeconfig: Path) -> list[str]:
        """The container as the kubelet would make it."""
        account = self.certificates.parent / f"account-of-{name}"
        account.mkdir(exist_ok=True)
        config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        (account / "token").write_text(config["users"][0]["user"]["token"])
        (account / "namespace").write_text(SYSTEM_NAMESPACE)
        shutil.copy(self.plane.ca_file, account / "ca.crt")
        config["clusters"][0]["cluster"]["certificate-authority"] = str(account / "ca.crt")
        if not isinstance(self._image, Bundle):
            (account / "kubeconfig").write_text(yaml.safe_dump(config))
        readable(self.certificates.parent)
        host, _, port = self.plane.server.removeprefix("https://").rpartition(":")
        variables = [f"KUBERNETES_SERVICE_HOST={host}", f"KUBERNETES_SERVICE_PORT={port}", mark(self.plane.directory)]
        mounts = {ACCOUNT: account} | ({"/certificates": self.certificates} if name == "webhook" else {})
        return self._image.command(name, self.pod(name), arguments, mounts, variables)


@pytest.fixture(scope="module")
def installation(image: Image | Bundle) -> Iterator[Installation]:
    """An installation from the image with both servers ready. Its end checks that no file of the image has changed."""
    before = files_of(image)
    with FromTheImage(image) as installed:
        yield installed
    assert files_of(image) == before


def examples() -> list[Path]:
    """Return the folders of all examples if the tests use a built image, otherwise of one example.

    `tests/system/test_install.py` runs all examples from the checkout.
    """
    return [each for each in folders() if os.environ.get("PHALANX_IMAGE") or each.name == "koordinator"]


@pytest.mark.parametrize("folder", examples(), ids=lambda folder: folder.name)
def test_the_example_happens_as_documented(installation: Installation, folder: Path) -> None:
    empty(installation.plane, webhooks=False)
    happens_as_documented(installation.plane, folder)


def test_its_contents_and_their_licences_are_listed(image: Image | Bundle) -> None:
    """`make sbom` lists the contents of the image and nothing else.

    For a built image, it lists an environment that is created by the same steps.
    """
    runtime = [] if isinstance(image, Bundle) else [f"RUNTIME={image.root / 'venv' / 'bin' / 'python'}"]
    made = subprocess.run(["make", "sbom", *runtime], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    listed = json.loads((ROOT / "dist" / "phalanx.cdx.json").read_text())
    components = {(normalised(each["name"]), each["version"]) for each in listed["components"]}
    installed = list(distributions(path=[str(packages_of(image))]))
    assert components == {(normalised(each.name), each.version) for each in installed} - {("phalanx", "0.1.0")}
    licences = (ROOT / "dist" / "licences.md").read_text()
    assert [each.name for each in installed if f"| {each.name} " not in licences] == []
    assert "GPL" not in licences.replace("LGPL", "")
    page = json.loads((ROOT / "dist" / "phalanx-page.cdx.json").read_text())["components"]
    script = (ROOT / "webhook" / "live_view" / "page.js").read_text()
    assert page
    for each in page:
        assert each["licenses"]
    bundled = [each for each in page if f"{each['name']} {each['version']} (" in script]
    assert {"preact", "d3-zoom"} <= {each["name"] for each in bundled}, "their licences are in the script"
