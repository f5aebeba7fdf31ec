"""Runs of `go build`, with their progress and the estimated remaining time."""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAST_CHARACTERS = 2000
"""The length of the toolchain's last output that an error contains."""

_NOTICE = "go: "
"""The prefix of lines about downloads. Every other line of `-v` names a package whose compilation begins."""

_COSTS_ANOTHER = 300
"""So many dependencies, which the compiler reads, cost as much time as a package without any.

A fit of the processor times of etcd, Kubernetes 1.37 and kwok, which have 0.21 s + 0.66 ms for each dependency.
"""
_LINKED_AS = 40
"""As many packages are compiled in the time in which one program is linked (measured for Kubernetes 1.37)."""

Report = Callable[[str], None]
"""Receives the import path of a package when its compilation begins."""


class BuildError(Exception):
    """A program could not be built. The text is the end of the toolchain's output."""


@dataclass(frozen=True, slots=True)
class Run:
    """One `go build`: packages of the Go module in the folder `module`.

    The user's GOPROXY and GOFLAGS apply. `flags` come before GOFLAGS.
    """

    go: str
    module: Path
    packages: Sequence[str]
    flags: Sequence[str]

    def command(self, verb: str, *arguments: str) -> list[str]:
        """Return the command line of `go build` or `go list`, with the flags on which the contents of Go's build cache
        depend.
        """
        common = ["-mod=readonly", "-trimpath", "-buildvcs=false", *self.flags]
        return [self.go, verb, *common, *arguments, *self.packages]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the Go toolchain."""
        return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


@dataclass(frozen=True, slots=True)
class MissingPackage:
    """A package that is not in Go's cache. `folder`: the folder with its files. `dependencies`: how many packages it
    imports, directly or through other packages.
    """

    folder: str
    dependencies: int

    @property
    def cost(self) -> float:
        """The processor time of the package's compilation, as a multiple of that of a package without dependencies."""
        return 1 + self.dependencies / _COSTS_ANOTHER


def go_build(run: Run, *, target: Path, report: Report) -> None:
    """Build the packages of a run into `target`.

    :param target: a file for one package; for several a folder that exists, in which each program is named like the
        last element of its package.
    :raises BuildError: the build failed; the text is the end of the toolchain's output.
    """
    command = run.command("build", "-v", "-o", str(target))
    with subprocess.Popen(command, cwd=run.module, env=run.environment, stderr=subprocess.PIPE, text=True) as process:
        said = ""
        assert process.stderr is not None  # noqa: S101 - for the type checker
        for line in process.stderr:
            said = (said + line)[-_LAST_CHARACTERS:]
            if not line.startswith(_NOTICE):
                report(line.strip())
    if process.returncode != 0:
        raise BuildError(said.strip())


def missing_packages(run: Run) -> Mapping[str, MissingPackage]:
    """Return the packages that a run will compile, by import path. Go fetches missing modules.

    Empty if the toolchain cannot list them; then the build itself fails, with the reason.
    """
    answer = subprocess.run(
        run.command("list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}} {{len .Deps}} {{.Dir}}{{end}}"),
        cwd=run.module,
        env=run.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    rows = (line.split(" ", 2) for line in answer.stdout.splitlines() if line)
    return {path: MissingPackage(folder, int(dependencies)) for path, dependencies, folder in rows}


class Remaining:
    """Estimates how long the runs of a build will still take, all together. Safe for threads.

    Packages that two runs have in common are compiled once, by the first of them. The number of a package's
    dependencies tells its time better than the size of its sources: large generated packages compile fast.

    :param clock: returns monotonic seconds. The build begins when the object is made.
    :param runs: the runs in their order, each with the packages that `missing_packages` returns for it.
    """

    def __init__(self, clock: Callable[[], float], runs: Sequence[tuple[Run, Mapping[str, MissingPackage]]]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._packages = [packages for _, packages in runs]
        self._left = {each.folder: each.cost for packages in self._packages for each in packages.values()}
        mean = sum(self._left.values()) / max(1, len(self._left))
        self._linking = [mean * _LINKED_AS * len(run.packages) if packages else 0.0 for run, packages in runs]
        self._total = sum(self._left.values()) + sum(self._linking)

    def begins(self, run: int, package: str) -> None:
        """Record that the compilation of a package of this run begins."""
        with self._lock:
            found = self._packages[run].get(package)
            if found is not None:
                self._left.pop(found.folder, None)

    def ended(self, run: int) -> None:
        """Record that the run at the position `run` has ended, so that all its packages are compiled and its programs
        are linked.
        """
        with self._lock:
            for each in self._packages[run].values():
                self._left.pop(each.folder, None)
            self._linking[run] = 0.0

    def __str__(self) -> str:
        """Return the share that is done and the estimate, such as "40 %, about 12 min left" or "95 %, about 50 s left".

        Before a fiftieth is done, only the share is returned.
        """
        with self._lock:
            left, total = sum(self._left.values()) + sum(self._linking), self._total
        if not total:
            return ""
        done = total - left
        share = f"{int(100 * done / total)} %"
        if done * 50 < total:
            return share
        seconds = (self._clock() - self._began) * left / done
        return f"{share}, about {_rounded(seconds)} left"


_FEW_MINUTES = 4
"""Up to here whole minutes would be wrong by more than a tenth."""


def _rounded(seconds: float) -> str:
    """Return a duration in whole minutes; a short one in tens of seconds."""
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes > _FEW_MINUTES else f"{max(1, round(seconds / 10)) * 10} s"
