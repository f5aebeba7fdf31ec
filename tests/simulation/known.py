"""Faults that schedules find and that another change repairs. An entry goes with the repair."""

from collections.abc import Iterable

KNOWN: tuple[str, ...] = ()
"""A text in the violations of each fault."""


def unknown(violations: Iterable[str]) -> list[str]:
    """Return the violations that no entry of `KNOWN` explains."""
    return [each for each in violations if not any(text in each for text in KNOWN)]
