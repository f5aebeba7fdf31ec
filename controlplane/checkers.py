"""Programs that check files of this repository: helm, krew, kube-score, promtool.

`python -m controlplane.checkers` builds the ones that `make test` needs. They are found or built like the control
plane's programs, from modules pinned in `checker-pins`. Their cache is separate, so a new version of one program does
not rebuild the control plane. The other checkers are built when a long test needs them.
"""

import subprocess
import sys
from pathlib import Path

from controlplane.programs.binaries import PROGRAMS, Recipe, build_alone, module_files
from controlplane.programs.compiling import BuildError
from controlplane.programs.toolchain import NoToolchainError
from controlplane.programs.wheel import VERSIONS
from controlplane.progress import Progress

_PINS = Path(__file__).parent / "checker-pins"
_SMALL = ("-ldflags", "-s -w")
CHECKERS = {
    each.name: each
    for each in (
        Recipe("helm", _PINS / "helm", "helm.sh/helm/v4/cmd/helm", _SMALL, version=VERSIONS["helm"]),
        Recipe("krew", _PINS / "krew", "sigs.k8s.io/krew/cmd/krew", _SMALL),
        Recipe("kube-score", _PINS / "kube-score", "github.com/zegl/kube-score/cmd/kube-score", _SMALL),
        Recipe(
            "promtool",
            _PINS / "promtool",
            "github.com/prometheus/prometheus/cmd/promtool",
            # It only checks rules, so service discovery (the clients of two dozen clouds) is left out.
            (*_SMALL, "-tags", "remove_all_sd"),
        ),
        Recipe("validate-krew-manifest", _PINS / "krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest", _SMALL),
    )
}


def checker(name: str, progress: Progress | None = None) -> Path:
    """Return the path of a checker. If it is not in the cache, it is built first (a minute or two, once).

    :raises KeyError: there is no checker of that name.
    :raises controlplane.programs.binaries.BuildError: the build failed. The text is the end of the toolchain's output.
    :raises controlplane.programs.toolchain.NoToolchainError: there is no Go, and none could be installed.
    """
    return build_alone(CHECKERS[name], "checkers", progress or Progress())


def kubectl() -> Path:
    """Return the path of kubectl, built without the other programs of the control plane.

    Raises the exceptions of `checker`.
    """
    (recipe,) = (each for each in PROGRAMS if each.name == "kubectl")
    return build_alone(recipe, "checkers", Progress())


def check(name: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a checker and return its result, whatever its exit status. Raises the exceptions of `checker`."""
    command = [str(checker(name)), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def source(name: str) -> Path:
    """Return the folder with the source files of the Go module that `checker-pins/<name>` requires.

    Raises the exceptions of `module_files`.
    """
    return module_files(_PINS / name)


if __name__ == "__main__":
    try:
        checker("helm")
    except (BuildError, NoToolchainError) as error:
        sys.exit(f"error: {error}")
