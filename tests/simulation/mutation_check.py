"""`make mutations`: plants each fault of `mutations.py` in a copy of the code, and reports what finds it and when.

Two searches, one after the other: the directed schedules and the tests of the controller, then random schedules. Times
are processor time, which a busy machine does not stretch as it does wall time.
"""

import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from simulation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
_PURE = ("protocol", "pods_to_come", "device_steps", "share_steps", "withdrawing")
_TESTS = (
    *(f"tests/controller/test_{name}.py" for name in _PURE),
    "tests/simulation/test_promises.py",
    "tests/simulation/test_devices.py",
    "tests/simulation/test_older_schedulers.py",
    "tests/controller",
)
"""The pure functions first: their tests take seconds, and wait for nothing that a planted fault prevents."""
_SCHEDULES = "100000"
_BASELINE_SECONDS = 3600.0
"""Far longer than the tests take without a fault."""
_PATIENCE = "60"
"""How many seconds a test waits for what another thread does. A planted fault often makes it wait in vain. The tests
pass with this patience if no fault is planted; `main` makes sure of that first.
"""
_STRETCHED = 8
"""A search ends after so many times its limit in wall time, in case the planted fault makes a test wait for ever."""


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the tracked files, as they are in the work tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="phalanx-mutation-") as folder:
        for name in filter(None, listed.stdout.split("\0")):
            target = Path(folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target, follow_symlinks=False)
        yield Path(folder)


def plant(mutation: Mutation, copy: Path) -> None:
    """Plant the fault in the copy."""
    file = copy / mutation.file
    text = file.read_text()
    if text.count(mutation.old) != 1:
        raise click.ClickException(f"{mutation.name}: {mutation.file} does not have the code that it replaces once")
    file.write_text(text.replace(mutation.old, mutation.new))


def failing_test(copy: Path, seconds: float) -> str:
    """Return the first test that fails within `seconds`; "" if none does."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not controlplane and not thorough and not timed"]
    line = _last_line(copy, [sys.executable, "-m", "pytest", *options, *_TESTS], "FAILED ", seconds)
    return line.partition(" - ")[0].removeprefix("FAILED ")


def failing_seed(copy: Path, seconds: float) -> str:
    """Return the first seed that breaks an invariant within `seconds`, with the invariant; "" if none does."""
    search = [sys.executable, "-m", "simulation", "--schedules", _SCHEDULES, "--stop"]
    return _last_line(copy, search, "seed ", seconds)


def _processor_seconds() -> float:
    """Return the processor time of all ended child processes, and of the children that they waited for."""
    used = os.times()
    return used.children_user + used.children_system


def _last_line(copy: Path, command: Sequence[str], beginning: str, seconds: float) -> str:
    """The last line of the command's output with this beginning; "" if there is none, or if it takes too long.

    `seconds`: of processor time.
    """
    path = os.pathsep.join((str(copy / "tests"), str(copy)))
    environment = {**os.environ, "PYTHONPATH": path, "PHALANX_PATIENCE_SECONDS": _PATIENCE}
    limit = max(1, math.ceil(seconds))
    try:
        answer = subprocess.run(
            ["bash", "-c", f'ulimit -t {limit}; exec "$@"', "bash", *command],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds * _STRETCHED,
        )
    except subprocess.TimeoutExpired:
        return ""
    lines = [line for line in answer.stdout.splitlines() if line.startswith(beginning)]
    return lines[-1] if lines and answer.returncode else ""


@click.command()
@click.option("--only", default="", help="Only faults whose name contains this.")
@click.option("--minutes", default=10.0, show_default=True, help="Processor time to find one fault.")
def main(only: str, minutes: float) -> None:
    """Plant each fault, and print what finds it. Exit with 1 if one is not found or a test fails without a fault."""
    with copied() as copy:
        if failing := failing_test(copy, _BASELINE_SECONDS):
            raise click.ClickException(f"{failing} fails without a fault")
    missed = 0
    for mutation in MUTATIONS:
        if only not in mutation.name:
            continue
        with copied() as copy:
            plant(mutation, copy)
            begun = _processor_seconds()
            found = failing_test(copy, 60 * minutes)
            left = begun + 60 * minutes - _processor_seconds()
            found = found or (failing_seed(copy, left) if left > 0 else "")
        missed += not found
        click.echo(f"{_processor_seconds() - begun:6.0f} s  {mutation.name}: {found or 'not found'}")
    sys.exit(min(missed, 1))


if __name__ == "__main__":
    main()
