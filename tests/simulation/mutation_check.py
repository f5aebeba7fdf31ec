"""`make mutations`: plants each fault of `mutations.py` in a copy of the code, and reports what finds it and when.

Two searches, one after the other: the directed schedules and the tests of the controller, then random schedules.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from simulation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".*_cache", "docs")
_TESTS = ("tests/simulation/test_promises.py", "tests/controller")
_SCHEDULES = "100000"


@contextmanager
def planted(mutation: Mutation) -> Iterator[Path]:
    """A copy of the code with the fault."""
    with tempfile.TemporaryDirectory(prefix="phalanx-mutation-") as folder:
        copy = Path(folder) / "phalanx"
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
        file = copy / mutation.file
        text = file.read_text()
        if text.count(mutation.old) != 1:
            raise click.ClickException(f"{mutation.name}: {mutation.file} does not have the code that it replaces once")
        file.write_text(text.replace(mutation.old, mutation.new))
        yield copy


def found_by(copy: Path, seconds: float) -> str:
    """Return the test or the seed that finds the fault within `seconds`; "" if none does."""
    until = time.monotonic() + seconds
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not controlplane and not thorough and not timed"]
    tests = _last_line(copy, [sys.executable, "-m", "pytest", *options, *_TESTS], "FAILED ", seconds)
    left = until - time.monotonic()
    if tests or left <= 0:
        return tests.partition(" - ")[0].removeprefix("FAILED ")
    search = [sys.executable, "-m", "simulation", "--schedules", _SCHEDULES, "--stop"]
    return _last_line(copy, search, "seed ", left)


def _last_line(copy: Path, command: Sequence[str], beginning: str, seconds: float) -> str:
    """The last line of the command's output with this beginning; "" if there is none, or if it takes too long."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(copy / "tests"), str(copy)))}
    try:
        answer = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return ""
    lines = [line for line in answer.stdout.splitlines() if line.startswith(beginning)]
    return lines[-1] if lines and answer.returncode else ""


@click.command()
@click.option("--only", default="", help="Only faults whose name contains this.")
@click.option("--minutes", default=10.0, show_default=True, help="Time to find one fault.")
def main(only: str, minutes: float) -> None:
    """Plant each fault, and say what finds it. Exits with 1 if a fault is not found."""
    missed = 0
    for mutation in MUTATIONS:
        if only not in mutation.name:
            continue
        with planted(mutation) as copy:
            begun = time.monotonic()
            found = found_by(copy, 60 * minutes)
        missed += not found
        click.echo(f"{time.monotonic() - begun:6.0f} s  {mutation.name}: {found or 'not found'}")
    sys.exit(min(missed, 1))


if __name__ == "__main__":
    main()
