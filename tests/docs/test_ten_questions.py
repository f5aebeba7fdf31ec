"""The page of ten questions: its commands can be called, and its quoted names are texts of page and terminal."""

import re
import shlex
from pathlib import Path

import click
import pytest

from cli.main import group

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "ten-questions.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
]


def sources(*folders: str) -> str:
    """Return the text of the sources in these folders."""
    files = (path for each in folders for path in (ROOT / each).rglob("*") if path.suffix in {".py", ".tsx"})
    return "\n".join(path.read_text() for path in files)


def test_there_are_ten() -> None:
    assert len(ROWS) == 10
    assert all(len(row) == 3 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_command_can_be_called(row: list[str]) -> None:
    commands = re.findall(r"`phalanx ([^`]+)`", row[2])
    assert commands
    for words in commands:
        name, *options = shlex.split(words)
        command = group.get_command(click.Context(group), name)
        assert command is not None
        command.make_parser(click.Context(command)).parse_args(options)


def test_every_heading_that_is_named_is_shown() -> None:
    page, terminal = sources("page/src"), sources("cli", "planning/stories")
    for _, where, how in ROWS:
        for text in re.findall(r'"([^"…]+?)(?: …)?"', where):
            assert text in page, text
        for text in re.findall(r'"([^"]+)"', how):
            assert text in terminal, text
        for text in re.findall(r"`([a-z]+(?: [a-z]+)*)`", how):
            assert f'"{text}' in terminal, text
