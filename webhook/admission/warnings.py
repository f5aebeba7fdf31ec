"""Admission warnings: what kubectl shows beside the answer, in pieces that no API server cuts off."""

import textwrap
from collections.abc import Iterable

from kube.text import one_line

WIDTH = 120
"""The API's advice for one warning; from 256 characters on they may be cut."""
MOST = 12
"""No more pieces than this: the API server cuts all warnings of one answer at 4,096 characters together."""


def lines(texts: Iterable[object]) -> tuple[str, ...]:
    """Each text as one warning, or as several where it is long; never an empty one."""
    pieces = [piece for text in texts for piece in textwrap.wrap(one_line(str(text)), WIDTH, break_on_hyphens=False)]
    if len(pieces) > MOST:
        pieces = [*pieces[: MOST - 1], f"… and {len(pieces) - MOST + 1} more"]
    return tuple(pieces)
