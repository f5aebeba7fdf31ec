"""Runs `phalanx solve` on files and returns its answer as a user sees it."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner
from manual_clock import clock_at

from cli.main import group

NOW = "2026-01-01T00:00:00Z"
"""When the files are solved: pods whose grace period ends at this time count as gone."""
_TIMES = re.compile(r"  \(snapshot [\d.]+ ms, solve [\d.]+ ms\)")


@dataclass(frozen=True, slots=True)
class Answer:
    """`report` and `said` are standard output and error without times and folders; `status` is the exit status."""

    report: str
    said: str
    status: int

    @property
    def gangs(self) -> dict[str, tuple[list[str], str]]:
        """By gang, as `namespace/name`: the words of its headline, and the line below it. In the report's order."""
        lines = self.report.splitlines()
        return {
            line.split()[0]: (line.split()[1:], below.strip())
            for line, below in pairwise(lines)
            if line.startswith("default/")
        }


def solved(*files: Path, verbose: bool = False) -> Answer:
    """The answer to all these files together."""
    arguments = ["solve", *(each for file in files for each in ("-f", str(file))), *(["-v"] if verbose else [])]
    with patch("planning.dry_run.SYSTEM_CLOCK", clock_at(NOW)):
        result = CliRunner().invoke(group, arguments, catch_exceptions=False)
    said = result.stderr
    for file in files:
        said = said.replace(f"{file.parent}/", "")
    return Answer(_TIMES.sub("", result.stdout), said, result.exit_code)


def written(folder: Path, text: str, name: str = "written.yaml") -> Path:
    """The text as a file."""
    file = folder / name
    file.write_text(text)
    return file
