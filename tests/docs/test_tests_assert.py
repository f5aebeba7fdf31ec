"""Every test can fail: it asserts something, itself or by a helper that does."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_RAISING = {
    "raises",
    "warns",
    "fail",
    "wait_until",
    "await_nodes",
    "await_ready",
    "verify",
    "run_state_machine_as_test",
}
"""pytest's and Hypothesis's own, the control plane's waits, and `certs.authority.verify`: they raise an exception if
something does not hold.
"""
_COMMON = set(dir(dict) + dir(list) + dir(str) + dir(set)) | {"request", "connect", "run", "put", "main"}
"""Names of functions that are too common to identify a function."""


class Function(NamedTuple):
    """A function or method: where it is, its name, whether it asserts, and the last names of what it calls."""

    path: Path
    name: str
    asserts: bool
    calls: frozenset[str]


def functions() -> Iterator[Function]:
    """Yield all functions in the files of the tests."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                inside = list(ast.walk(node))
                targets = [each.func for each in inside if isinstance(each, ast.Call)]
                names = {each.attr for each in targets if isinstance(each, ast.Attribute)}
                names |= {each.id for each in targets if isinstance(each, ast.Name)}
                own = any(isinstance(each, ast.Assert) for each in inside) or not names.isdisjoint(_RAISING)
                yield Function(path, node.name, own, frozenset(names))


def test_every_test_asserts() -> None:
    found = list(functions())
    tests = [each for each in found if each.name.startswith("test_")]
    helpers = [each for each in found if not each.name.startswith("test_") and each.name not in _COMMON]
    able = {each.name for each in helpers if each.asserts}
    while more := {each.name for each in helpers if each.name not in able and not able.isdisjoint(each.calls)}:
        able |= more
    idle = [each for each in tests if not each.asserts and able.isdisjoint(each.calls)]
    assert [f"{each.path.relative_to(ROOT)}::{each.name}" for each in idle] == []
