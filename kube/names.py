"""Natural order of names: numbers in a name compare as numbers, so node-5 comes before node-10."""

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")

NaturalKey = tuple[tuple[tuple[int, int, str], ...], str]


@lru_cache(maxsize=1 << 16)  # every plan sorts the same nodes and domains
def natural_key(name: str) -> NaturalKey:
    """Sort key of a name: its digit runs as integers, the rest as text; the raw name decides between equals."""
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in _DIGITS.split(name) if p)
    return parts, name
