"""One name, one thing: public classes whose name stands twice are counterparts of each other."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("solver", "planning", "controller", "webhook", "gangs", "cluster", "kube", "cli", "certs", "serving")
COUNTERPARTS = {"Node", "Member", "PodSet", "Affinity", "Spread", "Seat"}
"""The solver's counterparts of what Kubernetes or a gang calls so."""
OF_EACH_DIALECT = {"PodGroupSpec", "TopologySpec", "LevelSpec", "Wish", "Unit", "Asked"}
OF_EACH_SERVER = {"Settings", "Metrics"}


def classes() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for each in ast.parse(path.read_text()).body:
                if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                    yield each.name, path


def test_a_class_that_stands_twice_is_known() -> None:
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for name, path in classes():
        found[name].append(path)
    twice = {name for name, paths in found.items() if len(paths) > 1}
    assert twice == COUNTERPARTS | OF_EACH_DIALECT | OF_EACH_SERVER
