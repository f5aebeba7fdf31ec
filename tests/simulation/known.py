"""Faults that schedules find and that another change repairs. An entry goes with the repair."""

from collections.abc import Iterable

KNOWN = (
    "(busy)",  # issue 37: due times of `StatusSync` and a late cache beside an answered plan end no round's wait
    "(r)",  # issue 38, item 5
)
"""How the violations of these faults begin."""


def unknown(violations: Iterable[str]) -> list[str]:
    """The violations that no entry of `KNOWN` explains."""
    return [each for each in violations if not each.startswith(KNOWN)]
