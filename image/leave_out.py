"""Removes parts of dependencies from the image's virtual environment that Phalanx never imports.

`python image/leave_out.py ENVIRONMENT` removes them, also from the lists of installed files (RECORD). So the bill of
materials and the list of licences name only what is installed. The script needs only the standard library. The
constants `DISTRIBUTIONS` and `FILES` are the rules. A rule that matches nothing is an error, so that new versions of
dependencies are reviewed. `docs/decisions/0016` has the sizes.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import Distribution, PackagePath, distributions
from pathlib import Path
from types import MappingProxyType

DISTRIBUTIONS: Mapping[str, str] = MappingProxyType(
    {
        "aiohappyeyeballs": "of kubernetes.aio",
        "aiohttp": "of kubernetes.aio",
        "aiohttp-retry": "of kubernetes.aio",
        "aiosignal": "of kubernetes.aio",
        "attrs": "of kubernetes.aio",
        "frozenlist": "of kubernetes.aio",
        "multidict": "of kubernetes.aio",
        "propcache": "of kubernetes.aio",
        "yarl": "of kubernetes.aio",
        "absl-py": "of ortools.math_opt",
        "immutabledict": "of ortools.math_opt",
        "h11": "uvicorn's other parser; ours is httptools",
        "markdown-it-py": "rich's Markdown",
        "mdurl": "rich's Markdown",
        "pandas": "of CP-SAT's variables by an index (solver/cp_model.py)",
        "pycparser": "cffi's, to compile with",
        "pygments": "rich's coloured source text",
        "tzdata": "pandas' time zones",
    }
)
"""Whole distributions to remove, by name, with the part that would need them."""

FILES: tuple[str, ...] = (
    # Files for builds, checks and tests only: headers, archives, types, tests.
    "*.a",
    "*.h",
    "*.pxd",
    "*.pyi",
    "*.pyx",
    "*/tests/*",
    "google/protobuf/testdata/*",
    "numpy/_core/_*_tests.*",
    "numpy/_core/_simd.*",
    *(("numpy/distutils/*",) if sys.version_info < (3, 12) else ()),
    "numpy/f2py/*",
    "numpy/random/_examples/*",
    # Of CEL only the engine and the extensions for bindings, optional fields and texts (cluster/devices/selectors.py).
    "cel_expr_python/ext/ext_encoders.*",
    "cel_expr_python/ext/ext_math.*",
    "cel_expr_python/ext/ext_proto.*",
    # Of the client only transport and authentication are used (cluster/api/transport.py). The client imports a model
    # only when code names it.
    "kubernetes/aio/*",
    "kubernetes/client/api/[!_]*",
    "kubernetes/client/apis/*",
    "kubernetes/client/models/[!_]*",
    # Of OR-Tools only CP-SAT (ortools.sat) and GLOP (ortools.linear_solver) are used.
    "ortools/algorithms/*",
    "ortools/bop/*",
    "ortools/constraint_solver/*",
    "ortools/glop/*",
    "ortools/graph/*",
    "ortools/init/*",
    "ortools/math_opt/*",
    "ortools/packing/*",
    "ortools/pdlp/*",
    "ortools/sat/colab/*",
    "ortools/scheduling/*",
    "ortools/service/*",
    "ortools/set_cover/*",
    "pybind11_abseil/*",
)
"""Files to remove from other distributions: paths below site-packages. A star also matches folder separators."""


def leave_out(environment: Path) -> None:
    """Remove the distributions in `DISTRIBUTIONS` and the files in `FILES` from a virtual environment.

    :raises ValueError: some of these rules match nothing in the environment; then nothing is removed.
    """
    (packages,) = environment.glob("lib/python3.*/site-packages")
    installed = list(distributions(path=[str(packages)]))
    unused = unused_rules(installed)
    if unused:
        raise ValueError(f"nothing there is named {', '.join(unused)}: take it out of image/leave_out.py")
    for each in installed:
        if normalised(each.name) in DISTRIBUTIONS:
            _remove(each, each.files or ())
        else:
            gone = [file for file in each.files or () if is_left_out(file)]
            _remove(each, gone)
            _rewrite(each, gone)
    _remove_empty_folders(packages)


def normalised(name: str) -> str:
    """Return a distribution's name as package indices write it: lower case, with hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_left_out(file: PackagePath) -> bool:
    """Whether a pattern in `FILES` matches the file: the file is removed, although the rest of its distribution
    stays.
    """
    return any(fnmatchcase(str(file), rule) for rule in FILES)


def unused_rules(installed: Iterable[Distribution]) -> list[str]:
    """Return the rules that match nothing: names in `DISTRIBUTIONS` that are not installed, and patterns in `FILES`
    that match no installed file.
    """
    found = list(installed)
    names = {normalised(each.name) for each in found}
    files = [str(file) for each in found if normalised(each.name) not in DISTRIBUTIONS for file in each.files or ()]
    absent = [name for name in DISTRIBUTIONS if name not in names]
    return absent + [rule for rule in FILES if not any(fnmatchcase(file, rule) for file in files)]


def _remove(distribution: Distribution, files: Iterable[PackagePath]) -> None:
    for file in files:
        Path(str(distribution.locate_file(file))).unlink(missing_ok=True)


def _rewrite(distribution: Distribution, gone: Iterable[PackagePath]) -> None:
    """Remove the entries of removed files from a distribution's list of installed files (RECORD)."""
    names = {str(file) for file in gone}
    (record,) = (
        Path(str(distribution.locate_file(each))) for each in distribution.files or () if each.name == "RECORD"
    )
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if line.split(",")[0] not in names))


def _remove_empty_folders(packages: Path) -> None:
    for folder in sorted((each for each in packages.rglob("*") if each.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


if __name__ == "__main__":
    try:
        leave_out(Path(sys.argv[1]))
    except ValueError as error:
        sys.exit(f"error: {error}")
