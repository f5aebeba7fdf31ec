"""Diving heuristic: from fractions of columns to one whole column for each gang.

The column with the largest fraction in the relaxation is chosen for its gang, and further columns are generated for the
other gangs. This is repeated until every gang has a column. It is a dive as in branch and price, without backtracking.
"""

from collections.abc import Callable, Sequence

from solver.capacity import Counts
from solver.multi_gang.column_generation.restricted_master import Column, LpSolution, RestrictedMaster

_ROUNDS = 4
"""How many times further columns are generated after each column that is chosen."""
_WHOLE = 0.999
"""From this fraction on, a column counts as whole."""

Regenerate = Callable[[LpSolution, Counts, Sequence[int]], bool]
"""A function that generates columns of the given gangs under the duals of a relaxation, within the remaining capacity
(shapes x classes). It returns whether a column is new.
"""


def dived(master: RestrictedMaster, level: int, regenerate: Regenerate, bound: int, most: int) -> list[Column] | None:
    """Return one column for every gang, with fewer than `most` touched domains of `level`, summed over the gangs; None
    if the dive fails.

    `bound`: a lower bound of this sum. Once the cost of a relaxation is at most `bound`, no further columns are
    generated for it.
    """
    left = master.offered.copy()
    chosen: dict[int, Column] = {}
    try:
        while len(chosen) < len(master.shapes):
            waiting = [gang for gang in range(len(master.shapes)) if gang not in chosen]
            relaxation = _settled(master, left, waiting, regenerate, level=level, bound=bound)
            took = [] if relaxation is None or relaxation.cost >= most else _taken(master, relaxation, chosen, left)
            if not took:
                return None
            for column in took:
                chosen[column.gang] = column
                master.fix(column)
    finally:
        master.unfix()
    return [chosen[gang] for gang in range(len(master.shapes))]


def _settled(
    master: RestrictedMaster, left: Counts, waiting: Sequence[int], regenerate: Regenerate, *, level: int, bound: int
) -> LpSolution | None:
    """Generate columns for the `waiting` gangs, which have no column yet, and solve the relaxation again, at most
    `_ROUNDS` times. Return the last relaxation; None if a relaxation cannot be solved.

    `left`: the remaining capacity, shapes x classes.
    """
    relaxation = master.solve_relaxation(level)
    for _ in range(_ROUNDS):
        if relaxation is None or relaxation.cost <= bound or not regenerate(relaxation, left, waiting):
            break
        relaxation = master.solve_relaxation(level)
    return relaxation


def _taken(master: RestrictedMaster, relaxation: LpSolution, chosen: dict[int, Column], left: Counts) -> list[Column]:
    """Return the columns to choose next: all columns whose fraction is nearly one or, if there is none, the column with
    the largest fraction that fits.

    The capacity that the chosen columns use is subtracted from `left`.
    """
    took: list[Column] = []
    for column, share in sorted(relaxation.shares, key=lambda each: -each[1]):
        if took and share < _WHOLE:
            break
        takes = master.displaced[master.shapes[column.gang]]
        fits = all((left[:, where] >= takes * count).all() for where, count in column.use.items())
        if column.gang not in chosen and fits:
            for where, count in column.use.items():
                left[:, where] -= takes * count
            took.append(column)
    return took
