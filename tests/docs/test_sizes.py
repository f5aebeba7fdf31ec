"""What a newcomer can take in at once: no folder of many modules, no long module, no long function."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = (
    *("benchmarks", "certs", "cli", "cluster", "controller", "controlplane", "gangs", "image", "kube", "planning"),
    *("serving", "solver", "webhook"),
)
MODULES, LINES, FUNCTION_LINES = 15, 400, 50


def modules() -> Iterator[Path]:
    """Every module that is no `__init__`, tests and data aside."""
    for package in PACKAGES:
        yield from (path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py")


def test_no_folder_has_many_modules() -> None:
    folders = [path.parent.relative_to(ROOT) for path in modules()]
    assert {str(each): folders.count(each) for each in folders if folders.count(each) > MODULES} == {}


def test_no_module_is_long() -> None:
    found = {path: len(path.read_text().splitlines()) for path in modules()}
    assert {str(path.relative_to(ROOT)): lines for path, lines in found.items() if lines > LINES} == {}


def test_no_function_is_long() -> None:
    found = {}
    for path in modules():
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (each.end_lineno or each.lineno) - each.lineno + 1
                if lines > FUNCTION_LINES:
                    found[f"{path.relative_to(ROOT)}: {each.name}"] = lines
    assert found == {}
