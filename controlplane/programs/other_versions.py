"""The programs of a control plane of an older Kubernetes version, or of the next one, for the long tests.

API server, scheduler and controller-manager, or the scheduler alone, have that version. All other programs have the
usual version. They are built like the other programs, from their own go.mod, and only when a test needs them.
"""

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

from controlplane.programs.binaries import Binaries, Recipe, build, cache_directory, find_binaries, version_flags
from controlplane.progress import Progress

VARIABLE = "PHALANX_KUBERNETES"
"""The environment variable that makes the tests run on another version, such as "1.36" or "1.34-scheduler"."""
OTHER = {"1.34": "v1.34.4", "1.36": "v1.36.3", "1.38": "v1.38.0-beta.0"}
"""The other versions on which the tests can run, by minor version."""
SCHEDULER_ONLY = "-scheduler"
"""The suffix that asks for the other scheduler beside the usual API server."""
_ONLY_SCHEDULER = "1.38"
"""The version of which there is only the scheduler: not all Go modules of its API server are published yet."""
NAMES = (*(minor for minor in OTHER if minor != _ONLY_SCHEDULER), *(f"{minor}{SCHEDULER_ONLY}" for minor in OTHER))
"""All names that `binaries_of` takes, apart from ""."""

_BUILD = Path(__file__).parent.parent / "build" / "long"
_SCHEDULER = "kube-scheduler"
_SERVERS = ("kube-apiserver", _SCHEDULER, "kube-controller-manager")


def binaries_of(version: str, progress: Progress | None = None) -> Binaries:
    """Return the programs for a minor version of Kubernetes, such as "1.36"; "" means the usual version.

    :param version: with the suffix `SCHEDULER_ONLY`, only the scheduler has that version.
    :raises ValueError: there is no such version.
    :raises controlplane.programs.binaries.BuildError: a build failed. The text is the end of the toolchain's output.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go, and none could be installed.
    """
    usual = find_binaries(progress)
    if not version:
        return usual
    if version not in NAMES:
        raise ValueError(f"{VARIABLE}={version}: there are {', '.join(NAMES)}, and without it the usual version")
    minor = version.removesuffix(SCHEDULER_ONLY)
    names = (_SCHEDULER,) if version.endswith(SCHEDULER_ONLY) else _SERVERS
    folder = cache_directory() / "controlplane" / f"{minor}-{_pins(minor)}"
    build(_recipes(minor, names), folder, progress or Progress())
    return Binaries({**usual.paths, **{name: folder / name for name in names}})


def asked_for() -> Binaries:
    """Return the programs for the Kubernetes version in the environment variable `PHALANX_KUBERNETES`.

    Raises the exceptions of `binaries_of`.
    """
    return binaries_of(os.environ.get(VARIABLE, ""))


def scheduler_asked_for() -> str:
    """Return the minor version of the scheduler in `PHALANX_KUBERNETES`, such as "1.36"; "" for the usual version."""
    return os.environ.get(VARIABLE, "").removesuffix(SCHEDULER_ONLY)


def _recipes(minor: str, names: Collection[str]) -> list[Recipe]:
    module, version = _BUILD / f"kubernetes-{minor}", OTHER[minor]
    flags = ("-ldflags", version_flags(version))
    return [Recipe(name, module, f"k8s.io/kubernetes/cmd/{name}", flags, version) for name in names]


def _pins(minor: str) -> str:
    digest = hashlib.sha256(version_flags(OTHER[minor]).encode())
    for path in sorted((_BUILD / f"kubernetes-{minor}").glob("go.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
