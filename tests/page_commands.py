"""Runs the commands on the pages of docs/ and compares their output: fenced blocks whose language is `console`.

A line that begins with `$ ` is a command. A backslash at its end continues it on the next line. The lines below a
command are its output, standard output and standard error together. `…` within a line matches any text, and a line that
is only `…` matches any lines. A sequence of blanks matches one blank. A command that fails is followed by `$ echo $?`.

The comments `<!-- before: COMMAND -->` hold the commands that a page needs before its first command. A page that needs
a cluster contains `<!-- played: on a cluster -->`.

`python tests/page_commands.py PAGE...` runs pages without a cluster and writes the printed output where it differs.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITE = "PHALANX_WRITE_PAGES"
"""Name of an environment variable. If it is set, the printed output is written into the page where it differs."""

_ON_A_CLUSTER = "<!-- played: on a cluster -->"
_BEFORE = re.compile(r"^<!-- before: (.*) -->$", re.MULTILINE)
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROMPT = "$ "
_ANY = "…"
_SHARED = ("examples", "manifests", "charts", "docs")
_DIFFERENT = re.compile(
    r"(?<=snapshot )[\d.]+(?= ms)|(?<=solve )[\d.]+(?= ms)"  # times that were taken
    r"|(?<=\()\d+[smh](?= ago\))|(?<=  )\d+[smh]$|(?<=^  )\d+[smh](?=  )"  # ages
    r"|\d{4}-\d\d-\d\dT[\d:]+Z"
)
"""Durations, ages and times. They differ in every run, so they are written as `…`."""
_MORE = re.compile(r"(?<=^Warning: gang )(\S+ waits for )\d+ more pods?: \d+(?= of \d+ exist$)", re.MULTILINE)
"""The number of missing pods in the warning for a gang's next pod.

The number varies: on a busy machine, the webhook may not know of the pod before it yet.
"""

_TOLD = re.compile(r"Warning: gang \S+ waits for N more pods: N of \d+ exist")
"""The warning about missing pods. The output may lack it, because the command does not wait for the answer."""

_CLIENT_LOG = re.compile(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \S+\.go:\d+\] .*\n", re.MULTILINE)
"""A line of kubectl's own log. `kubectl wait` writes one if its condition is met while its watch is being closed."""


class Command(NamedTuple):
    """A command of a page, its output on the page, and the offsets of that output in the page's text."""

    text: str
    expected: str
    begin: int
    end: int


class Shell:
    """Runs commands one after the other in its own folder, which links to the folders of the checkout."""

    seconds = 300.0
    """The most seconds that a command may take."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._status = 0
        for name in _SHARED:
            (folder / name).symlink_to(ROOT / name)
        path = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", ""), os.environ["PATH"]))
        fixed = {"COLUMNS": "120", "NO_COLOR": "1", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        self._environment = {**os.environ, **fixed, **environment, "PATH": path}
        self.at = folder

    def run(self, command: str) -> tuple[str, int]:
        """Run a command and return its output and its exit status. A `cd` takes effect for the commands after it."""
        place = self._folder / "cwd"
        script = f"trap 'pwd > {place}' EXIT\n(exit {self._status})\n{command}"
        answer = subprocess.run(
            ["bash", "-c", script],
            cwd=self.at,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=self.seconds,
        )
        self._status = answer.returncode
        self.at = Path(place.read_text().strip())
        return _CLIENT_LOG.sub("", answer.stdout), answer.returncode


def pages(*, on_a_cluster: bool) -> list[Path]:
    """The pages whose commands need a cluster, or the pages whose commands need none."""
    found = [each for each in sorted(DOCS.rglob("*.md")) if _BLOCK.search(each.read_text())]
    return [each for each in found if (_ON_A_CLUSTER in each.read_text()) is on_a_cluster]


def with_marks(pages: list[Path], usual: Container[str]) -> list[Any]:
    """The pages as parameters of a test. Pages that `usual` does not name are marked `long`."""
    return [pytest.param(each, id=each.stem, marks=() if each.stem in usual else pytest.mark.long) for each in pages]


def blocks(text: str) -> Iterator[list[Command]]:
    """The commands of a page, block by block."""
    for block in _BLOCK.finditer(text):
        yield list(_commands(block[1], block.start(1)))


def _commands(block: str, offset: int) -> Iterator[Command]:
    lines = block.splitlines(keepends=True)
    position = 0
    while position < len(lines):
        assert lines[position].startswith(_PROMPT), f"a block begins with a command, not with {lines[position]!r}"
        text = lines[position].removeprefix(_PROMPT)
        offset += len(lines[position])
        position += 1
        while text.endswith("\\\n"):
            text += lines[position]
            offset += len(lines[position])
            position += 1
        begin, expected = offset, ""
        while position < len(lines) and not lines[position].startswith(_PROMPT):
            expected += lines[position]
            position += 1
        offset = begin + len(expected)
        yield Command(text.strip(), expected, begin, offset)


def like(expected: str, printed: str) -> bool:
    """Whether that was printed."""
    expected, printed = (_MORE.sub(r"\1N more pods: N", _plain(each)) for each in (expected, printed))
    return re.fullmatch("".join(_patterns(expected)), printed) is not None


def _patterns(expected: str) -> Iterator[str]:
    for line in _plain(expected).splitlines():
        if line == _ANY:
            yield r"(?:[^\n]*\n)*?"
        else:
            pattern = r"[^\n]*?".join(re.escape(part) for part in line.split(_ANY)) + r"\n"
            yield f"(?:{pattern})?" if _TOLD.fullmatch(line) else pattern


def _plain(text: str) -> str:
    """With single blanks, and none at the ends of lines; empty lines at the end count for nothing."""
    lines = [re.sub(r"[ \t]+", " ", line).rstrip() for line in text.rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def play(page: Path, shell: Shell) -> list[str]:
    """Run all commands of a page in order, and return the differences between their output and the page.

    If the environment variable that `WRITE` names is set, the page is rewritten with the real output.
    """
    text = page.read_text()
    wrong: list[str] = []
    written: list[tuple[Command, str]] = []
    for command in _BEFORE.findall(text):
        printed, status = shell.run(command)
        if status:
            return [f"before the page: $ {command}\n{printed}"]
    for block in blocks(text):
        for command, following in zip(block, [*block[1:], None], strict=True):
            printed, status = shell.run(command.text)
            if status and (following is None or following.text != "echo $?"):
                wrong.append(f"$ {command.text}\nfails with {status}, which the page does not say:\n{printed}")
            if not like(command.expected, printed):
                written.append((command, printed))
                wrong.append(f"$ {command.text}\n{printed}--- and not\n{command.expected}")
    if WRITE in os.environ:
        page.write_text(_with(text, written))
    return wrong


def _with(text: str, written: Sequence[tuple[Command, str]]) -> str:
    for command, printed in reversed(written):
        lines = "".join(f"{_DIFFERENT.sub(_ANY, line.rstrip())}\n" for line in printed.rstrip().splitlines())
        text = text[: command.begin] + lines + text[command.end :]
    return text


if __name__ == "__main__":
    os.environ[WRITE] = "1"
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write("\n".join(play(Path(name).resolve(), Shell(Path(folder), {}))) + "\n")
