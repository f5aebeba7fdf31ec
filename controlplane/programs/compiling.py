"""One run of `go build`, with its progress and the estimated remaining time."""

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

_LAST_CHARACTERS = 2000
"""The length of the toolchain's last output that an error contains."""

_NOTICE = "go: "
"""The prefix of lines about downloads. Every other line of `-v` names a package whose compilation begins."""

Report = Callable[[int, int], None]
"""Receives the number of compiled packages and the number of all packages."""


class BuildError(Exception):
    """A program could not be built. The text is the end of the toolchain's output."""


def go_build(
    go: str, module: Path, packages: Sequence[str], *, flags: Sequence[str], target: Path, report: Report
) -> None:
    """Build packages of the Go module in the folder `module` into `target`.

    The user's GOPROXY and GOFLAGS apply. The flags given here come before GOFLAGS.
    :param target: a file for one package; for several a folder that exists, in which each program is named like the
        last element of its package.
    :raises BuildError: the build failed; the text is the end of the toolchain's output.
    """
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    common = ["-mod=readonly", "-trimpath", "-buildvcs=false", *flags]
    total = _packages(go, module, packages, environment)
    command = [go, "build", "-v", *common, "-o", str(target), *packages]
    with subprocess.Popen(command, cwd=module, env=environment, stderr=subprocess.PIPE, text=True) as process:
        said, compiled = "", 0
        assert process.stderr is not None  # noqa: S101 - for the type checker
        for line in process.stderr:
            said = (said + line)[-_LAST_CHARACTERS:]
            compiled += not line.startswith(_NOTICE)
            report(min(compiled, total), total)
    if process.returncode != 0:
        raise BuildError(said.strip())


def _packages(go: str, module: Path, packages: Sequence[str], environment: dict[str, str]) -> int:
    """Return how many packages the programs are made of, at least 1. A build from an empty cache compiles them all."""
    answer = subprocess.run(
        [go, "list", "-mod=readonly", "-deps", "-f", "{{.ImportPath}}", *packages],
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return max(1, len(answer.stdout.splitlines()))


class Remaining:
    """Estimates how long a build will still take, from the number of packages compiled so far. Safe for threads.

    :param clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._done, self._total = 0, 1

    def report(self, done: int, total: int) -> None:
        """Record that `done` of `total` packages are compiled."""
        with self._lock:
            self._done, self._total = done, total

    def __str__(self) -> str:
        """Return the share that is compiled and the estimate, such as "40 %, about 12 min left".

        Before a twentieth is compiled, only the share is returned.
        """
        with self._lock:
            done, total = self._done, self._total
        share = f"{100 * done // total} %"
        if done * 20 < total:  # the first twentieth gives no estimate: small packages come first
            return share
        seconds = (self._clock() - self._began) * (total - done) / done
        return f"{share}, about {max(1, round(seconds / 60))} min left"
