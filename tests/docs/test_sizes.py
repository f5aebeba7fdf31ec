"""What a newcomer can take in at once: no folder of many modules."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = (
    *("benchmarks", "certs", "cli", "cluster", "controller", "controlplane", "gangs", "image", "kube", "planning"),
    *("serving", "solver", "webhook"),
)
MODULES = 15


def modules() -> Iterator[Path]:
    """Every module that is no `__init__`, tests and data aside."""
    for package in PACKAGES:
        yield from (path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py")


def test_no_folder_has_many_modules() -> None:
    folders = [path.parent.relative_to(ROOT) for path in modules()]
    assert {str(each): folders.count(each) for each in folders if folders.count(each) > MODULES} == {}
