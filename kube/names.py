"""Natural order of names: numbers in a name compare as numbers, so node-5 comes before node-10."""

import re
from functools import lru_cache

_DIGITS = re.compile(r"([0-9]+)")

NaturalKey = tuple[tuple[tuple[int, int, str], ...], str]
"""The sort key of a name (`natural_key`): its parts, then the name itself.

A part of digits is (0, number of digits, digits), without leading zeros. Other text is (1, 0, text).
"""

_LONGEST = 253
"""The most characters of an object's name. Longer texts are not cached, so that authors cannot fill the memory."""


def natural_key(name: str) -> NaturalKey:
    """Return the sort key of a name, by which node-5 comes before node-10.

    Digits compare as integers, all else as text. The name itself is the tie-break, so that node-05 and node-5 differ.
    Integers compare by their number of digits, then digit by digit. They are never parsed, so their length is not
    limited.
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
"""The cached function. The cache helps because every plan sorts the same nodes and domains."""
