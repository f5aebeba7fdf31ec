"""Natural order of names: numbers in a name compare as numbers, so node-5 comes before node-10."""

import re
from functools import lru_cache

_DIGITS = re.compile(r"([0-9]+)")

NaturalKey = tuple[tuple[tuple[int, int, str], ...], str]


_LONGEST = 253
"""Of an object's name. Longer texts are not remembered: who writes one must not be able to fill our memory."""


def natural_key(name: str) -> NaturalKey:
    """Sort key of a name: its digit runs as integers, the rest as text; the raw name decides between equals.

    Integers go by their length, then digit by digit, so that none is too long to be read.
    """
    return _remembered(name) if len(name) <= _LONGEST else _natural_key(name)


def _natural_key(name: str) -> NaturalKey:
    parts = tuple(
        (0, len(run := part.lstrip("0")), run) if "0" <= part[0] <= "9" else (1, 0, part)
        for part in _DIGITS.split(name)
        if part
    )
    return parts, name


_remembered = lru_cache(maxsize=1 << 16)(_natural_key)
"""Every plan sorts the same nodes and domains."""
