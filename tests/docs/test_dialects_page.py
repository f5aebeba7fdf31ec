"""The page about new dialects lists what the code requires of a dialect, and the size of the smallest dialect."""

import ast
import re
import tomllib

import pytest
from rooms import ROOT

from gangs.dialects import protocol
from gangs.dialects.table import DIALECTS

PAGE = (ROOT / "docs" / "decisions" / "0018-what-a-dialect-has-to-bring.md").read_text()
TOLERANCE = 0.1
"""How far the page's number of lines may be from what is counted."""


def members() -> dict[str, list[str]]:
    """The names in every protocol, in order."""
    found = {}
    for each in ast.parse((ROOT / "gangs" / "dialects" / "protocol.py").read_text()).body:
        if isinstance(each, ast.ClassDef):
            attributes = [
                one.target.id
                for one in each.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
            found[each.name] = attributes + [one.name for one in each.body if isinstance(one, ast.FunctionDef)]
    return found


def rows() -> dict[str, tuple[list[str], str]]:
    """Return, by protocol, its members and the dialects that implement it, as the page lists them."""
    lines = re.findall(r"^\| `(\w+)`[^|]*\| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    return {name: (re.findall(r"`(\w+)`", names), who) for name, names, who in lines}


def test_every_member_of_every_protocol_is_in_the_table() -> None:
    assert {name: names for name, (names, _) in rows().items()} == members()


@pytest.mark.parametrize("name", [each for each in members() if each != "Dialect"])
def test_who_has_an_optional_part_is_said(name: str) -> None:
    having = sorted(each.name for each in DIALECTS if isinstance(each, getattr(protocol, name)))
    assert rows()[name][1].split(", ") == having


def test_the_smallest_dialect_is_as_small_as_it_is_said_to_be() -> None:
    sizes = {}
    for each in DIALECTS:
        modules = list((ROOT / "gangs" / each.name).glob("*.py"))
        sizes[each.name] = sum(len(one.read_text().splitlines()) for one in modules), len(modules)
    (said,) = re.findall(r"The smallest dialect is `(\w+)`: about (\d+) lines in (\d+) modules", PAGE)
    smallest = min(sizes, key=lambda name: sizes[name])
    assert said[0] == smallest
    assert int(said[1]) == pytest.approx(sizes[smallest][0], rel=TOLERANCE)
    assert int(said[2]) == sizes[smallest][1]


def test_both_lists_of_import_linter_have_them_all() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    packages = {f"gangs.{each.name}" for each in DIALECTS}
    (unnamed,) = (each["forbidden_modules"] for each in contracts if each["name"].startswith("nobody above"))
    (apart,) = (each["modules"] for each in contracts if each["type"] == "independence")
    assert set(unnamed) == set(apart) == packages
