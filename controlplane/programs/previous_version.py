"""The programs of a control plane of the previous Kubernetes version, for the long tests.

Three servers have the previous version; all other programs are the usual ones. The three are built like the other
programs, from their own go.mod, and only when a test needs them.
"""

import hashlib
import os
from pathlib import Path

from controlplane.programs.binaries import Binaries, Recipe, build, cache_directory, find_binaries, version_flags
from controlplane.progress import Progress

VARIABLE = "PHALANX_KUBERNETES"
"""The environment variable that makes the tests run on another version."""
EARLIER = "v1.36.3"

_MODULE = Path(__file__).parent.parent / "build" / "long" / "kubernetes-1.36"
_SERVERS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
_RECIPES = tuple(
    Recipe(name, _MODULE, f"k8s.io/kubernetes/cmd/{name}", ("-ldflags", version_flags(EARLIER)), EARLIER)
    for name in _SERVERS
)


def binaries_of(version: str, progress: Progress | None = None) -> Binaries:
    """Return the programs for a minor version of Kubernetes ("1.36"); "" means the usual version.

    :raises ValueError: there is no such version.
    :raises controlplane.programs.binaries.BuildError: as in `find_binaries`.
    :raises controlplane.programs.toolchain.NoToolchainError: as in `find_binaries`.
    """
    usual = find_binaries(progress)
    if not version:
        return usual
    known = EARLIER.removeprefix("v").rpartition(".")[0]
    if version != known:
        raise ValueError(f"{VARIABLE}={version}: there is only {known}, and without it the usual version")
    folder = cache_directory() / "controlplane" / f"{known}-{_pins()}"
    build(_RECIPES, folder, progress or Progress())
    return Binaries({**usual.paths, **{name: folder / name for name in _SERVERS}})


def asked_for() -> Binaries:
    """Return the programs for the Kubernetes version in the environment variable `PHALANX_KUBERNETES`.

    Raises the exceptions of `binaries_of`.
    """
    return binaries_of(os.environ.get(VARIABLE, ""))


def _pins() -> str:
    digest = hashlib.sha256(version_flags(EARLIER).encode())
    for path in sorted(_MODULE.glob("go.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
