"""Random instances in chunks: a few are tested in seconds, the others take their time (`thorough`), and most of those
that there are in all are left to `make test-long`.
"""

import os
from collections.abc import Sequence
from typing import Any

import pytest

LONG = int(os.environ.get("PHALANX_BRUTE_FORCE_INSTANCES", "0")) >= 20_000
"""Whether this is the long suite, which is run on an idle machine."""


def chunks(instances: int, size: int, fast: int = 0, usual: int = 0) -> Sequence[Any]:
    """The seeds of all instances in chunks, as parameters of a test: the first ones, `fast` of them or a whole chunk,
    in seconds; the others are `thorough`. Where `usual` is given, only the long suite tests more than so many.
    """
    seeds, few = range(instances if LONG or not usual else usual), fast or size
    rest = seeds[few:]
    others = [rest[place : place + size] for place in range(0, len(rest), size)]
    return [_named(seeds[:few]), *(_named(each, pytest.mark.thorough) for each in others)]


def _named(seeds: range, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(seeds, marks=marks, id=f"{seeds.start}-{seeds.stop - 1}")


def parts(count: int) -> Sequence[Any]:
    """So many parts of the same test, of which the first is tested in seconds."""
    return [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, count))]


def mostly(fast: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
    """Rows of a table of which some take their time."""
    return [*fast, *(pytest.param(*_row(each), marks=pytest.mark.thorough) for each in others)]


def _row(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)
