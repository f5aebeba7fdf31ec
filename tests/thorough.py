"""Random instances in chunks: the first one is tested in seconds, the others take their time (`thorough`)."""

from collections.abc import Sequence
from typing import Any

import pytest


def chunks(instances: int, size: int) -> Sequence[Any]:
    """The first seed of each chunk, as parameters of a test."""
    first, *others = range(0, instances, size)
    return [first, *(pytest.param(each, marks=pytest.mark.thorough) for each in others)]
