"""Chvátal-Gomory cuts: rows that hold for whole columns, but that a mixture of shares of columns may break.

A domain has capacity for a number of members. Divide what each taken column puts there by any number and round down.
The sum is at most the capacity, divided and rounded down. Of columns for more than half of the capacity, one at most is
taken.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solver.capacity import Counts

_SLIGHT = 0.02
"""A cut is added only if the mixture exceeds it by more than this."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A limit in one domain above the node.

    Columns count there as members of `shape` that they displace, divided by `by` and rounded down. The sum is at most
    `most`. `each[shape]`: how many of these members a member of another shape displaces.
    """

    domain: int
    shape: int
    by: int
    most: int
    each: tuple[int, ...]

    def taken(self, shape: int, members: int) -> int:
        """Return how much `members` members of one gang in the domain count in the cut."""
        return self.each[shape] * members // self.by


@dataclass(frozen=True, slots=True)
class ColumnShare:
    """A share of a column in a domain: so many members of a shape."""

    domain: int
    shape: int
    members: int
    share: float


def broken_cuts(parts: Iterable[ColumnShare], displaced: Counts, room: Counts) -> list[Cut]:
    """Return, for every domain and shape, the cut that a mixture breaks most.

    `room[shape, domain]`: members that fit there. `displaced`: as in `generation`.
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
    best, most = None, 0.0
    largest = max(each[part.shape] * part.members for part in parts)
    for by in range(2, min(largest, room) + 1):
        cut = Cut(domain, shape, by, room // by, tuple(each))
        over = sum(cut.taken(part.shape, part.members) * part.share for part in parts) - cut.most
        if over > _SLIGHT and over / cut.most > most:
            best, most = cut, over / cut.most
    return best
