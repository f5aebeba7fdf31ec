"""From shares of columns to one column for each gang: the largest share of the relaxation is fixed at one, and further
columns are generated for the others. A dive, as in branch and price, without a way back.
"""

from collections.abc import Callable, Sequence

from solver.capacity import Counts
from solver.multi_gang.column_generation.restricted_master import Column, LpSolution, RestrictedMaster

_ROUNDS = 4
"""Rounds of pricing after each choice."""
_WHOLE = 0.999
"""A share that is as good as all."""

Regenerate = Callable[[LpSolution, Counts, Sequence[int]], bool]
"""Generates columns of these gangs under the duals of a relaxation, for what is left by shape and class; whether any is
new.
"""


def dived(master: RestrictedMaster, level: int, regenerate: Regenerate, bound: int, most: int) -> list[Column] | None:
    """One column for every gang, with fewer than `most` domains of a level; None where it does not end so. `bound`: the
    least that is possible; with a relaxation of no more, no further column is needed.
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
    """The relaxation after some rounds of further columns."""
    relaxation = master.solve_relaxation(level)
    for _ in range(_ROUNDS):
        if relaxation is None or relaxation.cost <= bound or not regenerate(relaxation, left, waiting):
            break
        relaxation = master.solve_relaxation(level)
    return relaxation


def _taken(master: RestrictedMaster, relaxation: LpSolution, chosen: dict[int, Column], left: Counts) -> list[Column]:
    """The columns that are taken as good as whole, or the one of the largest share; `left` becomes what they leave."""
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
