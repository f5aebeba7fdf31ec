"""One name, one thing: public classes and modules whose name stands twice are counterparts, and no private words."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("solver", "planning", "controller", "webhook", "gangs", "cluster", "kube", "cli", "certs", "serving")
AROUND = ("benchmarks", "controlplane", "image")
COUNTERPARTS = {"Node", "Member", "PodSet", "Affinity", "Spread", "Seat"}
"""The solver's counterparts of what Kubernetes or a gang calls so."""
OF_EACH_DIALECT = {"PodGroupSpec", "TopologySpec", "LevelSpec", "Wish", "Unit", "Asked"}
OF_EACH_SERVER = {"Settings", "Metrics"}

MODULES = {
    "the same of each dialect": "dialect groups jobs keys members messages owned settings spec status system units "
    "topologies wishes",
    "the same of each server": "metrics serving",
    "a command or a port, and what it does": "dry_run events report solve topology what_if",
    "objects of Kubernetes, and what a room does about them": "certificates conditions mirrors objects placeholders "
    "pod_affinity priorities versions",
    "of a cluster, and its counterpart in a problem": "member_rules nodes tree",
    "one term in two rooms": "progress promised_evictions",
}
"""Module names that stand in several rooms, and why that is one idea. Where it is two, one of them is renamed."""

PRIVATE = ["bid", "book", "fell", "ground", "here", "kin", "mine", "purse", "told", "whole"]
"""What the project once used as names of variables where the field has a term."""


def modules(packages: tuple[str, ...] = PACKAGES) -> Iterator[Path]:
    return (path for package in packages for path in sorted((ROOT / package).rglob("*.py")))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_a_class_that_stands_twice_is_known() -> None:
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for path in modules():
        for each in parsed(path).body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                found[each.name].append(path)
    twice = {name for name, paths in found.items() if len(paths) > 1}
    assert twice == COUNTERPARTS | OF_EACH_DIALECT | OF_EACH_SERVER


def test_a_module_name_that_stands_twice_is_one_idea() -> None:
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for path in modules(PACKAGES + AROUND):
        found[path.stem].append(path)
    twice = {name for name, paths in found.items() if len(paths) > 1 and not name.startswith("__")}
    assert twice == {name for names in MODULES.values() for name in names.split()}


def _own_names(tree: ast.AST) -> Iterator[str]:
    """What a module gives a name to: functions, classes, parameters, variables, attributes."""
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each.name
        elif isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr


@cache
def own_names() -> dict[str, list[str]]:
    """By module, all that it gives a name to."""
    return {str(path.relative_to(ROOT)): [*_own_names(parsed(path))] for path in modules(PACKAGES + AROUND)}


@pytest.mark.parametrize("word", PRIVATE)
def test_names_are_not_private_words(word: str) -> None:
    private = re.compile(rf"_*{word}s?")
    found = {f"{path}: {name}" for path, names in own_names().items() for name in names if private.fullmatch(name)}
    assert not found


def test_no_two_test_modules_have_one_name() -> None:
    """Pytest imports them by their names alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name in set(names) if names.count(name) > 1] == []
