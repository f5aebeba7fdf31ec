"""The pages for contributors stay true: they list the packages of the code, and their paths exist."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from rooms import PAGE, ROOT, drawn

PAGES = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md")
MADE = "dist/"
"""The folder that `make` writes. A fresh checkout does not have it."""
NO_MODULES = {"phalanx", "kubectl"}
"""Names in the docstrings of packages that are not modules."""


def packages() -> list[Path]:
    """Return the folders of all packages of the product."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return sorted(each.parent for name in contracts["root_packages"] for each in (ROOT / name).rglob("__init__.py"))


def test_the_rooms_are_those_of_the_code() -> None:
    assert drawn() in PAGE.read_text(), "run: python tests/docs/rooms.py"


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_is_named_exists(name: str) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", (ROOT / name).read_text())
    assert named
    kept = [path for path in named if not path.startswith(MADE)]
    assert not [path for path in kept if not (ROOT / path).exists()]


@pytest.mark.parametrize("package", packages(), ids=lambda each: each.relative_to(ROOT).as_posix())
def test_a_package_names_modules_that_exist(package: Path) -> None:
    """The docstring of a package names the modules that a new reader should open first."""
    told = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = [each.split(".")[0] for each in re.findall(r"`([a-z_][a-z_./]*)`", told)]
    there = {each.name.removesuffix(".py") for folder in (package, ROOT) for each in folder.iterdir()}
    assert [each for each in named if each.split("/")[0] not in there | NO_MODULES] == []


def test_every_question_has_one_answer() -> None:
    questions = re.findall(r"^\| (\S[^|]*\?) \|", PAGE.read_text(), re.MULTILINE)
    assert len(questions) == len(set(questions)) >= 30
