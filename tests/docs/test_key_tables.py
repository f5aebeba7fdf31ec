"""The reference of keys is complete: every key that a dialect knows has its line, and no line is about a stranger."""

import importlib
import re
from pathlib import Path

import msgspec
import pytest

from gangs.dialects.table import DIALECTS
from gangs.phalanx.spec import GangSpec, PodSetSpec

TABLES = Path(__file__).parent.parent.parent / "docs" / "reference" / "keys"
NAMES = sorted(dialect.name for dialect in DIALECTS)


def rows(name: str) -> list[list[str]]:
    """The cells of every row of a dialect's page."""
    lines = (TABLES / f"{name}.md").read_text().splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("| `")]
    assert cells, f"{name}.md has no table of keys"
    return cells


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_dialect_is_in_its_table(name: str) -> None:
    keys = importlib.import_module(f"gangs.{name}.keys").KEYS
    written = {key for row in rows(name) for key in re.findall(r"`([^`]+)`", row[0])}
    assert not set(keys) - written


@pytest.mark.parametrize("name", NAMES)
def test_every_line_says_what_is_done(name: str) -> None:
    verdicts = ("honoured", "refused", "ignored", "label", "written", "warning", "not ")
    silent = [row[0] for row in rows(name) if not any(word in row[-1].lower() for word in verdicts)]
    assert not silent


def test_no_page_is_about_a_dialect_that_is_not_there() -> None:
    assert sorted(path.stem for path in TABLES.glob("*.md")) == NAMES


def test_every_field_of_our_own_gang_has_its_line() -> None:
    written = {row[0].strip("`") for row in rows("phalanx")}
    fields = {field.encode_name for field in msgspec.structs.fields(GangSpec)}
    fields |= {f"podSets[].{field.encode_name}" for field in msgspec.structs.fields(PodSetSpec)}
    assert not fields - written
