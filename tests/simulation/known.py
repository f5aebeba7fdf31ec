"""Faults that schedules find and that another change repairs. An entry goes with the repair."""

from collections.abc import Iterable

KNOWN: tuple[str, ...] = (
    # A gang that was whole only between two rounds, or while no controller led, carries no mark of it: when it loses a
    # member, it counts as never whole and is withdrawn (docs/decisions/0015). Seeds 240668184228, 240668184292.
    "which was whole, for no higher priority",
)
"""A text in the violations of each fault."""


def unknown(violations: Iterable[str]) -> list[str]:
    """Return the violations that no entry of `KNOWN` explains."""
    return [each for each in violations if not any(text in each for text in KNOWN)]
