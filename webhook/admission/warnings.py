"""Admission warnings, which kubectl prints. A long warning is split into several, so that the API server does not
truncate it.
"""

import textwrap
from collections.abc import Iterable

from kube.text import one_line

WIDTH = 120
"""The API's recommended length of one warning. The API server may truncate warnings from 256 characters on."""
MOST = 12
"""The most warnings of one answer. The API server truncates all of them together at 4,096 characters."""


def lines(texts: Iterable[object]) -> tuple[str, ...]:
    """Return the texts as warnings of at most `WIDTH` characters. A longer text becomes several warnings.

    Empty texts are left out. Beyond `MOST` warnings, the last one says how many more there are.
    """
    pieces = [piece for text in texts for piece in textwrap.wrap(one_line(str(text)), WIDTH, break_on_hyphens=False)]
    if len(pieces) > MOST:
        pieces = [*pieces[: MOST - 1], f"… and {len(pieces) - MOST + 1} more"]
    return tuple(pieces)
