"""Chvátal-Gomory cuts: constraints that hold for every choice of whole columns, but that a mixture of fractions of
columns may break.

A domain has capacity for a number of members. Take any divisor. For each chosen column, divide the number of members
that the column puts into the domain by the divisor, and round down. The sum over the columns is at most the capacity,
divided by the same divisor and rounded down. For example, at most one column can use more than half of the capacity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solver.capacity import Counts

_SLIGHT = 0.02
"""A cut is added only if the mixture exceeds the limit of the cut by more than this amount."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A limit on the columns in one domain above the node.

    A column counts as the members of `shape` that it displaces in the domain, divided by `by` and rounded down. The sum
    over the columns is at most `most`. `each[s]`: how many members of `shape` a member of shape s displaces.
    """

    domain: int
    shape: int
    by: int
    most: int
    each: tuple[int, ...]

    def taken(self, shape: int, members: int) -> int:
        """Return how much a column counts in this cut if it puts `members` members of the shape `shape` into the
        domain.
        """
        return self.each[shape] * members // self.by


@dataclass(frozen=True, slots=True)
class ColumnShare:
    """A fraction (`share`) of a column, which puts `members` members of a shape into a domain."""

    domain: int
    shape: int
    members: int
    share: float


def broken_cuts(parts: Iterable[ColumnShare], displaced: Counts, room: Counts) -> list[Cut]:
    """Return, for every domain and shape, the cut that a mixture of columns breaks most; no cut if none is broken
    there.

    `parts`: the mixture, by column and domain. `room[shape, domain]`: members that fit in the domain. `displaced[one,
    other]`: how many members of shape `other` a member of shape `one` displaces.
    """
    inside: dict[int, list[ColumnShare]] = {}
    for part in parts:
        inside.setdefault(part.domain, []).append(part)
    found = []
    for domain, used in inside.items():
        if len(used) > 1:
            for shape in range(len(displaced)):
                cut = _most_broken(domain, shape, used, displaced[:, shape].tolist(), int(room[shape, domain]))
                if cut is not None:
                    found.append(cut)
    return found


def _most_broken(domain: int, shape: int, parts: Sequence[ColumnShare], each: Sequence[int], room: int) -> Cut | None:
    """Return, for one domain and shape, the cut whose limit the mixture exceeds by most; None if the mixture breaks no
    cut.
    """
    best, most = None, 0.0
    largest = max(each[part.shape] * part.members for part in parts)
    for by in range(2, min(largest, room) + 1):
        cut = Cut(domain, shape, by, room // by, tuple(each))
        over = sum(cut.taken(part.shape, part.members) * part.share for part in parts) - cut.most
        if over > _SLIGHT and over / cut.most > most:
            best, most = cut, over / cut.most
    return best
