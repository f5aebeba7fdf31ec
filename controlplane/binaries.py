"""The programs of the control plane: taken from `KUBEBUILDER_ASSETS` where they are there, else built once and kept.

They are built from the modules pinned in `controlplane/build`, one go.mod each because their dependencies clash, into
the user's cache directory, under a name that changes with the pins.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.progress import Progress
from controlplane.toolchain import find_go

VERSION = "v1.37.1"
"""Of Kubernetes; without it in the binaries the server reports v0.0.0 and clients misjudge it."""

_BUILD = Path(__file__).parent / "build"
_MAJOR, _MINOR, _ = VERSION.removeprefix("v").split(".")
_FLAGS = " ".join(
    [
        "-s -w",
        f"-X k8s.io/component-base/version.gitVersion={VERSION}",
        f"-X k8s.io/component-base/version.gitMajor={_MAJOR}",
        f"-X k8s.io/component-base/version.gitMinor={_MINOR}",
    ]
)
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
)
"""What kwok does with nodes and pods, from its own module; how pods end is ours (`controlplane.stages`)."""


@dataclass(frozen=True, slots=True)
class _Program:
    """One binary and where it is built from."""

    name: str
    module: str
    package: str


PROGRAMS = (
    _Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    _Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    _Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    _Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    _Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    _Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)


class BuildError(Exception):
    """A program could not be built; the text is the end of what the toolchain said."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where each program is, by name, and the stage files for kwok."""

    paths: dict[str, Path]
    stages: tuple[Path, ...]

    def __getitem__(self, name: str) -> str:
        """Path of a program."""
        return str(self.paths[name])


def find_binaries(progress: Progress | None = None) -> Binaries:
    """Every program, built now where it is not there yet (some minutes, once).

    :raises BuildError: with the toolchain's last words.
    :raises controlplane.toolchain.NoToolchainError: there is no Go and none to be had.
    """
    progress = progress or Progress()
    folder = cache_directory() / "controlplane" / _pins()
    folder.mkdir(parents=True, exist_ok=True)
    given = _given()
    with _locked(folder / "lock"):
        wanted = [each for each in PROGRAMS if each.name not in given and not (folder / each.name).exists()]
        stages = folder / "stages"
        if wanted or not stages.exists():
            go = find_go(cache_directory(), progress)
            _build(go, wanted, folder, progress)
            _copy_stages(go, stages)
    paths = {each.name: given.get(each.name, folder / each.name) for each in PROGRAMS}
    return Binaries(paths, tuple(folder / "stages" / Path(each).name for each in _STAGES))


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
def _locked(path: Path) -> Iterator[None]:
    """One build at a time, whoever asks."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, programs: list[_Program], folder: Path, progress: Progress) -> None:
    if programs:
        progress.say(f"building the control plane, {len(programs)} programs, once (kept in {folder})")
    for number, program in enumerate(programs, start=1):
        with progress.step(f"{number}/{len(programs)} {program.name}"):
            partial = folder / f"{program.name}.partial"
            flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _FLAGS]
            _go(go, program.module, "build", *flags, "-o", str(partial), program.package)
            partial.rename(folder / program.name)


def _copy_stages(go: str, folder: Path) -> None:
    listed = json.loads(_go(go, "kwok", "mod", "download", "-json", "sigs.k8s.io/kwok"))
    partial = folder.with_name("stages.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for each in _STAGES:
        shutil.copyfile(Path(listed["Dir"]) / "kustomize" / "stage" / each, partial / Path(each).name)
    partial.rename(folder)


def _go(go: str, module: str, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    answer = subprocess.run(
        [go, *arguments], cwd=_BUILD / module, env=environment, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise BuildError(f"go {arguments[0]} failed in {module}:\n{answer.stderr[-2000:]}")
    return answer.stdout
