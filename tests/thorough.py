"""Random instances in chunks: a few are tested in seconds, the others take their time (`thorough`)."""

from collections.abc import Sequence
from typing import Any

import pytest


def chunks(instances: int, size: int, fast: int = 0) -> Sequence[Any]:
    """The seeds of all instances in chunks, as parameters of a test: the first ones, `fast` of them or a whole chunk,
    in seconds; the others are `thorough`.
    """
    seeds, few = range(instances), fast or size
    rest = range(few, instances)
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
