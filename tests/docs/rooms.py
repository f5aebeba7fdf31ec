"""The rooms of the packages, read off the code: their order from import-linter's layers, their question from their
docstrings. `python tests/docs/rooms.py` writes them into docs/architecture.md.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from written_blocks import with_block

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = (
    *("solver", "planning", "controller", "webhook", "gangs", "cluster", "cli", "controlplane"),
    *("serving", "certs", "kube", "timing", "benchmarks"),
)


def layers(package: str) -> list[list[str]]:
    """Return the modules of a package by layer, from the top down. Modules of one layer do not import each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (
        each["layers"]
        for each in contracts
        if each["type"] == "layers" and each["layers"][0].startswith(f"{package}.") and "containers" not in each
    )
    return [[name.strip() for name in line.split("|")] for line in found]


def question(module: str) -> str:
    """Return the first sentence of the docstring of a package or module."""
    path = ROOT / Path(*module.split("."))
    text = ast.get_docstring(
        ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    )
    assert text, f"{module} says nothing of itself"
    first = " ".join(text.split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def drawn() -> str:
    """The block of the page."""
    return "\n".join(line for package in PACKAGES for line in (f"### `{package}/`", "", *_table(package), ""))


def page() -> str:
    """The page with the block as the code has it."""
    return with_block(PAGE.read_text(), "rooms", drawn())


def _table(package: str) -> Iterator[str]:
    yield "| room | what it is |"
    yield "| --- | --- |"
    for line in layers(package):
        for module in line:
            yield f"| `{module}` | {question(module)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
