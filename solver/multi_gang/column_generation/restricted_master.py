"""The restricted master problem: the fraction ("share") of each column, so that no class of nodes exceeds its capacity.

    min   sum of x[c] * domains of one level that c touches, over all columns c found so far, x >= 0
    s.t.  sum of x[c] = 1                                over the columns of each gang
          sum of x[c] * members that c displaces <= room  for each shape on each class of nodes
          sum of x[c] * domains that c touches   <= value for each wider level, whose sum is fixed
          the cuts (`cuts`)

A capacity row is added when a solution violates it for the first time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.deadline import DeadlineCheck, no_deadline_check
from solver.multi_gang.column_generation.cuts import ColumnShare, Cut, broken_cuts
from solver.multi_gang.column_generation.linear_programme import LinearProgramme, PrimalDual
from solver.multi_gang.column_generation.pricing import Use

_DEAR = 6.0
"""The cost of leaving a gang out, in domains for each member of the largest gang. The cost is no higher than needed,
because the first prices grow with it.
"""
_TINY = 1e-6
_EFFORT = 65_000
"""The effort after which column generation stops, about a second. One unit is one column in one solve of the linear
programme. Problems that can be solved take less.
"""
_CELLS = 20_000
"""How many additions in tables of the pricing problem take as long as one column in one solve of the linear programme.
"""


@dataclass
class GenerationEffort:
    """The remaining effort for column generation. Effort is counted in place of time, so results do not depend on the
    machine.

    `left`: the remaining effort; one unit is one column in one solve of the linear programme. `over`: returns whether
    the caller's time is over, which ends the work on a very slow or busy machine.
    """

    left: int = _EFFORT
    over: DeadlineCheck = no_deadline_check

    @property
    def spent(self) -> bool:
        """Whether column generation must stop, because `left` is negative or the caller's time is over."""
        return self.left < 0 or self.over()

    def spend_on_solve(self, columns: int) -> None:
        """Subtract the effort of one solve of a linear programme with `columns` columns."""
        self.left -= columns

    def spend_on_tables(self, cells: int) -> None:
        """Subtract the effort of computing tables of the pricing problem. `cells`: how many additions of numbers that
        takes.
        """
        self.left -= -(-cells // _CELLS)

    def affords(self, cells: int) -> bool:
        """Return whether the remaining effort suffices to compute tables of the pricing problem. `cells`: how many
        additions of numbers that takes.
        """
        return not self.spent and -(-cells // _CELLS) <= self.left


@dataclass(frozen=True, slots=True)
class Column:
    """One plan of one gang. `gang`: the position of the gang.

    `use`: the members by class of nodes. `inside`: the members by narrowest domain above the node. `spread`: by level,
    the number of domains that the plan touches.
    """

    gang: int
    use: Use
    inside: Mapping[int, int]
    spread: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LpSolution:
    """A solution of the master problem: `shares`, the fraction of each column that is used, and the duals of the
    constraints.

    `room[shape, class]`: the dual of the capacity for one member. `held[level]`: the dual of one touched domain of a
    level whose sum is limited. `cuts`: the dual of each cut. `cost`: the optimum, rounded up. If all columns were known
    and nothing were rounded, `cost` would be a lower bound of the sum of touched domains.
    """

    room: NDArray[np.float64]
    held: tuple[float, ...]
    cuts: Mapping[Cut, float]
    cost: int
    shares: Sequence[tuple[Column, float]]

    def smoothed(self, other: "LpSolution") -> "LpSolution":
        """Return this solution with duals half way between its own duals and the duals of `other`."""
        return replace(
            self,
            room=(self.room + other.room) / 2,
            held=tuple((dual + theirs) / 2 for dual, theirs in zip(self.held, other.held, strict=True)),
            cuts={cut: (dual + other.cuts.get(cut, 0.0)) / 2 for cut, dual in self.cuts.items()},
        )


@dataclass(frozen=True, slots=True)
class _RowUsage:
    """The capacity constraints in which one column displaces members (`places`), and how many members it displaces in
    each (`counts`).

    There is one capacity constraint for each shape on each class of nodes. `places` has the index of this pair in
    `offered.ravel()`.
    """

    places: Counts
    counts: Counts


@dataclass
class RestrictedMaster:
    """The restricted master problem over the columns found so far.

    `displaced[one, other]`: members of shape `other` that a member of shape `one` displaces. `offered[shape, class]`:
    members of a shape that fit on a class of nodes. `domain[class]`: the narrowest domain around it. `shapes` and
    `members`: by gang, its shape and number of members. `effort`: what further solves may cost. `values`: the limits on
    touched domains of the levels that are decided already, the widest level first.
    """

    displaced: Counts
    offered: Counts
    domain: Counts
    shapes: Sequence[int]
    members: Sequence[int]
    effort: GenerationEffort
    values: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lp = LinearProgramme()
        self._one = [self._lp.row(1.0, least=1.0) for _ in self.shapes]
        for one in self._one:
            self._lp.put(one, self._lp.column(_DEAR * max(self.members)), 1.0)
        self._columns: list[Column] = []
        self._usages: list[_RowUsage] = []
        self._entries: dict[int, list[tuple[int, int]]] = {}
        self._rows: dict[int, int] = {}
        self._held: list[int] = []
        self._cuts: dict[Cut, int] = {}
        self._level = 0
        self._variable: dict[int, int] = {}
        self._fixed: list[int] = []
        self._inside = np.zeros((len(self.offered), int(self.domain.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(self._inside.T, self.domain, self.offered.T)

    def extend(self, columns: Iterable[Column]) -> None:
        """Add the columns that are new to the linear programme. `columns`: all columns; columns added before come
        first, in unchanged order.
        """
        for column in list(columns)[len(self._columns) :]:
            variable = self._lp.column(column.spread[self._level])
            self._lp.put(self._one[column.gang], variable, 1.0)
            usage = self._usage(column)
            for place, count in zip(usage.places.tolist(), usage.counts.tolist(), strict=True):
                self._entries.setdefault(place, []).append((variable, count))
                if place in self._rows:
                    self._lp.put(self._rows[place], variable, count)
            for held, domains in zip(self._held, column.spread, strict=False):
                self._lp.put(held, variable, domains)
            for cut, row in self._cuts.items():
                self._count(cut, row, column, variable)
            self._variable[id(column)] = variable
            self._columns.append(column)
            self._usages.append(usage)

    def constrain_level(self, level: int, value: int) -> None:
        """Limit the touched domains of a level to `value` from now on. Levels must come in order, the widest first."""
        held = self._lp.row(value)
        for column in self._columns:
            self._lp.put(held, self._variable[id(column)], column.spread[level])
        self._held.append(held)
        self.values.append(value)

    def solve_relaxation(self, level: int) -> LpSolution | None:
        """Return the mixture of columns that touches the fewest domains of a level. None if GLOP fails, or no effort is
        left.
        """
        if self.effort.spent:
            return None
        if level != self._level:
            self._level = level
            for column in self._columns:
                self._lp.price(self._variable[id(column)], column.spread[level])
        while True:
            self.effort.spend_on_solve(len(self._columns))
            solution = self._lp.solved()
            if solution is None:
                return None
            violated = self._violated(solution)
            if not violated:
                break
            for place in violated:
                self._limit(place)
        return self._lp_solution(solution)

    def cut(self, relaxation: LpSolution) -> bool:
        """Add the cuts that the solution `relaxation`, a mixture of columns, breaks. Return whether a cut was added.

        No choice of whole columns breaks a cut.
        """
        parts = (
            ColumnShare(domain, self.shapes[column.gang], members, share)
            for column, share in relaxation.shares
            for domain, members in column.inside.items()
        )
        found = [cut for cut in broken_cuts(parts, self.displaced, self._inside) if cut not in self._cuts]
        for cut in found:
            self._cuts[cut] = self._lp.row(cut.most)
            for column in self._columns:
                self._count(cut, self._cuts[cut], column, self._variable[id(column)])
        return bool(found)

    def fix(self, column: Column) -> None:
        """Require that this column is used as a whole, until `unfix` is called."""
        self._lp.set_least(self._variable[id(column)], 1.0)
        self._fixed.append(self._variable[id(column)])

    def unfix(self) -> None:
        """Undo all calls of `fix`."""
        for variable in self._fixed:
            self._lp.set_least(variable, 0.0)
        self._fixed.clear()

    def _lp_solution(self, solution: PrimalDual) -> LpSolution:
        """Return GLOP's solution in terms of columns, capacity, levels and cuts."""
        duals = -solution.duals
        room = np.zeros(self.offered.size)
        room[list(self._rows)] = duals[list(self._rows.values())]
        shares = self._shares(solution)
        return LpSolution(
            room.reshape(self.offered.shape),
            tuple(duals[self._held].tolist()),
            dict(zip(self._cuts, duals[list(self._cuts.values())].tolist(), strict=True)),
            ceil(solution.cost - _TINY),
            [(self._columns[column], float(shares[column])) for column in np.flatnonzero(shares > _TINY).tolist()],
        )

    def _shares(self, solution: PrimalDual) -> NDArray[np.float64]:
        """Return the fraction of each column. The first variables are dropped: one per gang, the fraction of the gang
        that is left out.
        """
        return solution.values[len(self.shapes) :]

    def _count(self, cut: Cut, row: int, column: Column, variable: int) -> None:
        """Add the column to the constraint `row` of a cut, unless the column counts 0 there. `variable`: the column's
        variable.
        """
        count = cut.taken(self.shapes[column.gang], column.inside.get(cut.domain, 0))
        if count:
            self._lp.put(row, variable, count)

    def _violated(self, solution: PrimalDual) -> list[int]:
        """Return the pairs of a shape and a class of nodes (each as one number) whose capacity this solution exceeds,
        because they have no constraint yet.
        """
        shares = self._shares(solution)
        some = np.flatnonzero(shares > _TINY).tolist()
        if not some:
            return []
        places = np.concatenate([self._usages[column].places for column in some])
        counts = np.concatenate([self._usages[column].counts * shares[column] for column in some])
        over = np.bincount(places, counts, self.offered.size) > self.offered.ravel() + _TINY
        return [place for place in np.flatnonzero(over).tolist() if place not in self._rows]

    def _limit(self, place: int) -> None:
        """Add the capacity constraint of a shape and a class of nodes. `place`: both as one number."""
        self._rows[place] = self._lp.row(int(self.offered.flat[place]))
        for variable, count in self._entries[place]:
            self._lp.put(self._rows[place], variable, count)

    def _usage(self, column: Column) -> _RowUsage:
        """Return the capacity constraints (one for each shape on each class of nodes) in which a column displaces
        members, and how many members it displaces in each.
        """
        takes = self.displaced[self.shapes[column.gang]]
        shapes = np.flatnonzero(takes)
        where, counts = np.array([*column.use]), np.array([*column.use.values()])
        places = np.add.outer(shapes * self.offered.shape[1], where)
        return _RowUsage(places.ravel(), np.outer(takes[shapes], counts).ravel())
