"""Tables over the number of members of each kind: a dynamic programme's (min, +) products, and the way back.

A table has one axis per kind. Entry `table[c]` is the least cost of exactly `c[k]` members of every kind k. A table is
only as large as its domain has capacity.
"""

import numpy as np
from numpy.typing import NDArray

from solver.tree_dp.min_plus import INFEASIBLE_COST

CostTable = NDArray[np.int64]
"""Costs by the number of members of each kind, one axis per kind. Costs from `INFEASIBLE_COST` on: impossible."""
Vector = tuple[int, ...]
"""The number of members of each kind."""

_STEP = 2_000
"""The overhead of one step of a merge, in additions. It only weighs on the limit of effort, not on results."""
_CALL = 30_000
"""The time of a merge or a split of the smallest tables, in additions."""


def nothing(kinds: int) -> CostTable:
    """Return the table of a domain without capacity."""
    return np.zeros((1,) * kinds, dtype=np.int64)


def reaching(table: CostTable) -> CostTable:
    """Return the table without trailing impossible numbers of each kind."""
    possible = np.nonzero(table < INFEASIBLE_COST)
    if not len(possible[0]):
        return table[(slice(1),) * table.ndim]
    return table[tuple(slice(int(places.max()) + 1) for places in possible)].copy()


def merged(one: CostTable, other: CostTable, most: Vector) -> CostTable:
    """Return the best of two tables together, for up to `most` members of each kind.

    best[c] = min over d <= c of one[c - d] + other[d], for vectors c, d of counts: a (min, +) product in several axes.
    All axes are laid out as one, so wide that sums do not run over into the next one. Adding counts is adding
    positions.
    """
    if np.count_nonzero(one < INFEASIBLE_COST) < np.count_nonzero(other < INFEASIBLE_COST):
        one, other = other, one
    wide = tuple(a + b - 1 for a, b in zip(one.shape, other.shape, strict=True))
    spread = np.full(wide, INFEASIBLE_COST, dtype=np.int64)
    spread[tuple(map(slice, one.shape))] = one
    # flat[ravel(c)] = one[c]; the row of every d of `other` is the same vector, moved by ravel(d).
    flat = spread.ravel()[: int(np.ravel_multi_index([size - 1 for size in one.shape], wide)) + 1]
    best = np.full(spread.size, INFEASIBLE_COST, dtype=np.int64)
    finite = np.nonzero(other < INFEASIBLE_COST)
    for place, cost in zip(np.ravel_multi_index(finite, wide).tolist(), other[finite].tolist(), strict=True):
        part = best[place : place + len(flat)]
        np.minimum(part, flat + cost, out=part)
    return best.reshape(wide)[tuple(slice(count + 1) for count in most)].copy()


def effort(one: CostTable, other: CostTable) -> int:
    """Return the effort of merging two tables, in additions of single costs."""
    wide = 1
    for a, b in zip(one.shape, other.shape, strict=True):
        wide *= a + b - 1
    return (
        int(min(np.count_nonzero(one < INFEASIBLE_COST), np.count_nonzero(other < INFEASIBLE_COST))) * (wide + _STEP)
        + _CALL
    )


def splitting(table: CostTable) -> int:
    """Return a bound on the effort of `splits` for one total, in additions, if this is the larger table."""
    return table.size + _CALL


def splits(one: CostTable, other: CostTable, goal: Vector, cost: int) -> list[tuple[Vector, Vector]]:
    """Return all pairs of a part of each table that make `goal` at exactly this cost."""
    # one's part p runs from low to high; other's part is whole - p, so its slice is read from the far end (flip).
    low = [max(0, c - size + 1) for c, size in zip(goal, other.shape, strict=True)]
    high = [min(c, size - 1) for c, size in zip(goal, one.shape, strict=True)]
    own = one[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))]
    rest = other[tuple(slice(c - b, c - a + 1) for c, a, b in zip(goal, low, high, strict=True))]
    found = np.argwhere(own + np.flip(rest) == cost) + np.array(low, dtype=np.int64)
    return [(tuple(part), tuple(c - p for c, p in zip(goal, part, strict=True))) for part in found.tolist()]
