"""Tables over count vectors, the number of members of each class: their (min, +) products, and the way back.

A table has one axis per member class. Entry `table[c]` is the least cost of exactly `c[k]` members of every class k. A
table is only as large as its domain has capacity.
"""

import numpy as np
from numpy.typing import NDArray

from solver.tree_dp.min_plus import INFEASIBLE_COST

CostTable = NDArray[np.int64]
"""Costs by count vector, one axis per member class. A cost from `INFEASIBLE_COST` on means that these members do not
fit.
"""
Vector = tuple[int, ...]
"""A count vector: the number of members of each member class, such as (2, 0, 5)."""

_STEP = 2_000
"""The overhead of one step of a merge, counted in additions. It affects only the limit of effort, not results."""
_CALL = 30_000
"""The fixed time of one merge or split, counted in additions."""


def nothing(kinds: int) -> CostTable:
    """Return the table of a domain that can hold no member: one entry, for 0 members of each class, at no cost."""
    return np.zeros((1,) * kinds, dtype=np.int64)


def reaching(table: CostTable) -> CostTable:
    """Return the table without its margin of infeasible entries: each axis ends at the largest number of members that
    some feasible entry has.
    """
    possible = np.nonzero(table < INFEASIBLE_COST)
    if not len(possible[0]):
        return table[(slice(1),) * table.ndim]
    return table[tuple(slice(int(places.max()) + 1) for places in possible)].copy()


def merged(one: CostTable, other: CostTable, most: Vector) -> CostTable:
    """Return the table of two domains together, for up to `most` members of each class: their (min, +) product.

    best[c] = min over d <= c of one[c - d] + other[d], for count vectors c and d. All axes are laid out as one axis, so
    wide that sums do not run over into the next axis. Then adding positions adds count vectors.
    """
    if np.count_nonzero(one < INFEASIBLE_COST) < np.count_nonzero(other < INFEASIBLE_COST):
        one, other = other, one
    wide = tuple(a + b - 1 for a, b in zip(one.shape, other.shape, strict=True))
    spread = np.full(wide, INFEASIBLE_COST, dtype=np.int64)
    spread[tuple(map(slice, one.shape))] = one
    # flat[ravel(c)] = one[c], where ravel maps a count vector to its position on the single axis. Adding a count vector
    # d of `other` moves the whole row by ravel(d) positions.
    flat = spread.ravel()[: int(np.ravel_multi_index([size - 1 for size in one.shape], wide)) + 1]
    best = np.full(spread.size, INFEASIBLE_COST, dtype=np.int64)
    finite = np.nonzero(other < INFEASIBLE_COST)
    for place, cost in zip(np.ravel_multi_index(finite, wide).tolist(), other[finite].tolist(), strict=True):
        part = best[place : place + len(flat)]
        np.minimum(part, flat + cost, out=part)
    return best.reshape(wide)[tuple(slice(count + 1) for count in most)].copy()


def effort(one: CostTable, other: CostTable) -> int:
    """Return the effort of computing the table of two domains together (`merged`), in additions of costs."""
    wide = 1
    for a, b in zip(one.shape, other.shape, strict=True):
        wide *= a + b - 1
    return (
        int(min(np.count_nonzero(one < INFEASIBLE_COST), np.count_nonzero(other < INFEASIBLE_COST))) * (wide + _STEP)
        + _CALL
    )


def splitting(table: CostTable) -> int:
    """Return an upper bound on the effort of `splits`, in additions of costs. `table`: the larger of the two tables
    between which `splits` divides members.
    """
    return table.size + _CALL


def splits(one: CostTable, other: CostTable, goal: Vector, cost: int) -> list[tuple[Vector, Vector]]:
    """Return all divisions of the count vector `goal` between the tables `one` and `other` that cost exactly `cost`.
    Each division is a pair: the members in `one`, and the members in `other`.
    """
    # The part p in `one` runs from low to high. The part in `other` is goal - p, so its slice is reversed (flip).
    low = [max(0, c - size + 1) for c, size in zip(goal, other.shape, strict=True)]
    high = [min(c, size - 1) for c, size in zip(goal, one.shape, strict=True)]
    own = one[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))]
    rest = other[tuple(slice(c - b, c - a + 1) for c, a, b in zip(goal, low, high, strict=True))]
    found = np.argwhere(own + np.flip(rest) == cost) + np.array(low, dtype=np.int64)
    return [(tuple(part), tuple(c - p for c, p in zip(goal, part, strict=True))) for part in found.tolist()]
