"""The programs of the control plane: taken from `KUBEBUILDER_ASSETS` where they are there, else built once and kept.

They are built from the modules pinned in `controlplane/build`, one go.mod each because their dependencies clash, into
the user's cache directory, under a name that changes with the pins.
"""

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.programs.toolchain import find_go
from controlplane.progress import Progress

VERSION = "v1.37.1"
"""Of Kubernetes; without it in the binaries the server reports v0.0.0 and clients misjudge it."""

_BUILD = Path(__file__).parent.parent / "build"


def version_flags(version: str) -> str:
    """What the linker is told, so that the programs know their version."""
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    return f"-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"


_FLAGS = version_flags(VERSION)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One binary and what it is built from: a package, in the versions of the go.mod in `module`."""

    name: str
    module: Path
    package: str
    flags: tuple[str, ...] = ("-ldflags", _FLAGS)


PROGRAMS = (
    Recipe("etcd", _BUILD / "etcd", "go.etcd.io/etcd/server/v3"),
    Recipe("kubectl", _BUILD / "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Recipe("kube-apiserver", _BUILD / "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Recipe("kube-scheduler", _BUILD / "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Recipe("kube-controller-manager", _BUILD / "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Recipe("kwok", _BUILD / "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)


class BuildError(Exception):
    """A program could not be built; the text is the end of what the toolchain said."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where each program is, by name."""

    paths: dict[str, Path]

    def __getitem__(self, name: str) -> str:
        """Path of a program."""
        return str(self.paths[name])


def find_binaries(progress: Progress | None = None) -> Binaries:
    """Every program, built now where it is not there yet (some minutes, once).

    :raises BuildError: with the toolchain's last words.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go and none to be had.
    """
    progress = progress or Progress()
    given = _given()
    if len(given) == len(PROGRAMS):
        return Binaries(given)
    folder = cache_directory() / "controlplane" / _pins()
    build([each for each in PROGRAMS if each.name not in given], folder, progress)
    return Binaries({each.name: given.get(each.name, folder / each.name) for each in PROGRAMS})


def build(recipes: Sequence[Recipe], folder: Path, progress: Progress) -> None:
    """Build those that are not in `folder` yet. Raises as `find_binaries`."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock", progress):
        wanted = [each for each in recipes if not (folder / each.name).exists()]
        if wanted:
            _build(find_go(cache_directory(), progress), wanted, folder, progress)


def module_files(pins: Path, *module: str) -> Path:
    """The files of a module that `pins` requires (the only one, or the one named), in Go's own cache, checked against
    its sum.

    :raises BuildError: it cannot be had; with the toolchain's last words.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go and none to be had.
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
    """One program by itself, kept under a name that changes with its own pins. Raises as `find_binaries`."""
    digest = hashlib.sha256(" ".join(recipe.flags).encode())
    for path in sorted(recipe.module.glob("go.*")):
        digest.update(path.read_bytes())
    folder = cache_directory() / family / recipe.name / digest.hexdigest()[:16]
    build([recipe], folder, progress)
    return folder / recipe.name


def cache_directory() -> Path:
    """Where everything is kept that takes long to make, outside of any checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phalanx"


def _given() -> dict[str, Path]:
    """What the envtest convention offers."""
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
    """One build at a time, whoever asks."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("waiting for another process that builds the same")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, programs: Sequence[Recipe], folder: Path, progress: Progress) -> None:
    progress.say(f"building {', '.join(each.name for each in programs)}, once (kept in {folder})")
    for number, program in enumerate(programs, start=1):
        with progress.step(f"{number}/{len(programs)} {program.name}"):
            partial = folder / f"{program.name}.partial"
            _go_build(go, program, partial)
            partial.rename(folder / program.name)


def _go_build(go: str, program: Recipe, target: Path) -> None:
    """Build one program. The user's GOPROXY, GOFLAGS and the like hold; what is said here goes before GOFLAGS."""
    flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", *program.flags]
    answer = subprocess.run(
        [go, "build", *flags, "-o", str(target), program.package],
        cwd=program.module,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildError(f"{program.name} could not be built:\n{answer.stderr.strip()[-2000:]}")
