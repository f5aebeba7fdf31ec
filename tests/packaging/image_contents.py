"""Runs inside the image: imports every module of Phalanx and reports the modules that could not be imported.

It also reports all modules that the import statements of the imported modules name, whether a statement was executed or
not. It needs nothing outside the image.
"""

import ast
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from importlib.metadata import files
from types import ModuleType


def of_ours() -> Iterator[str]:
    """Yield every module of the distribution `phalanx` except `__main__` modules."""
    packages = {file.parts[0] for file in files("phalanx") or () if file.name == "__init__.py"}
    for name in sorted(packages):
        yield name
        for found in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if not found.name.endswith(".__main__"):
                yield found.name


def named_by(module: ModuleType) -> Iterator[str]:
    """Yield the modules that the import statements of a module name, including statements in functions."""
    package = module.__package__ or ""
    with open(module.__file__ or "", encoding="utf-8") as source:  # noqa: PTH123 - a program for the image
        tree = ast.parse(source.read())
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - each.level + 1] if each.level else []
            base = ".".join([*above, *([each.module] if each.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in each.names)


def main() -> None:
    """Print it all as JSON."""
    failed = {}
    for name in of_ours():
        try:
            importlib.import_module(name)
        except ImportError as error:
            failed[name] = str(error)
    loaded = [each for each in sys.modules.values() if (getattr(each, "__file__", None) or "").endswith(".py")]
    named = sorted({(each.__name__, target) for each in loaded for target in named_by(each)})
    print(json.dumps({"failed": failed, "named": named}))  # noqa: T201 - that is what it is for


if __name__ == "__main__":
    main()
