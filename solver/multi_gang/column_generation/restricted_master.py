"""The restricted master problem: how much of each column is taken so that no class of nodes is given out twice.

    min   sum of x[c] * domains of one level that c touches, over all columns c that are known, x >= 0
    s.t.  sum of x[c] = 1                                over the columns of each gang
          sum of x[c] * members that c displaces <= room  for each shape on each class of nodes
          sum of x[c] * domains that c touches   <= value for each wider level, whose sum is settled
          the cuts (`cuts`)

Rows of room are added when a solution violates them for the first time.
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
"""What it costs to leave a gang out, in domains for each of its members. Not more than needed: the first prices are of
that height.
"""
_TINY = 1e-6
_EFFORT = 65_000
"""Columns, summed over all solves, after which no more is asked: about a second. What can be settled takes less."""
_CELLS = 20_000
"""Additions in the pricing problem's tables that take the time of one column in a solve."""


@dataclass
class GenerationEffort:
    """What may be spent on column generation, in columns that a solve of the linear programme has to do with: answers
    do not depend on the machine unless it is so slow, or so busy, that the time is `over` first.
    """

    left: int = _EFFORT
    over: DeadlineCheck = no_deadline_check

    @property
    def spent(self) -> bool:
        """Whether no more is to be asked."""
        return self.left < 0 or self.over()

    def solve(self, columns: int) -> None:
        """A solve is paid for."""
        self.left -= columns

    def look(self, cells: int) -> None:
        """So many additions in tables are paid for."""
        self.left -= -(-cells // _CELLS)

    def affords(self, cells: int) -> bool:
        """Whether so many additions do not spend it."""
        return not self.spent and -(-cells // _CELLS) <= self.left


@dataclass(frozen=True, slots=True)
class Column:
    """A plan of one gang: members by class and by narrowest domain, domains touched by level. `gang`: the gang's
    position.
    """

    gang: int
    use: Use
    inside: Mapping[int, int]
    spread: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LpSolution:
    """How much of each column is taken, and the duals: `room[shape, class]` of one member's room, `held[level]` of one
    domain of a level whose sum is constrained, and of the cuts. `cost`: a whole number that the sum of touched domains
    cannot be below, if all columns were known and nothing rounded.
    """

    room: NDArray[np.float64]
    held: tuple[float, ...]
    cuts: Mapping[Cut, float]
    cost: int
    shares: Sequence[tuple[Column, float]]

    def smoothed(self, other: "LpSolution") -> "LpSolution":
        """With duals half way to those of another relaxation."""
        return replace(
            self,
            room=(self.room + other.room) / 2,
            held=tuple((dual + theirs) / 2 for dual, theirs in zip(self.held, other.held, strict=True)),
            cuts={cut: (dual + other.cuts.get(cut, 0.0)) / 2 for cut, dual in self.cuts.items()},
        )


@dataclass(frozen=True, slots=True)
class _RowUsage:
    """How many members a column displaces in which rows. A place is a shape and a class in one number, as in
    `offered.ravel()`.
    """

    places: Counts
    counts: Counts


@dataclass
class RestrictedMaster:
    """`offered[shape, class]`: members of a shape that a class has room for; `domain[class]`: the narrowest one around
    it; `shapes` and `members`: those of each gang; `effort`: what is left for solving. `values`: the sums that levels
    are held at, the widest first.
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
        """Learn those of all columns that are new; the ones that are known come first, in the order of before."""
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
        """From now on no more than so many domains of this level are touched; levels come in their order."""
        held = self._lp.row(value)
        for column in self._columns:
            self._lp.put(held, self._variable[id(column)], column.spread[level])
        self._held.append(held)
        self.values.append(value)

    def solve_relaxation(self, level: int) -> LpSolution | None:
        """Shares that touch the fewest domains of a level; None where GLOP does not find them, or all is spent."""
        if self.effort.spent:
            return None
        if level != self._level:
            self._level = level
            for column in self._columns:
                self._lp.price(self._variable[id(column)], column.spread[level])
        while True:
            self.effort.solve(len(self._columns))
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
        """Forbid what these shares do and no choice of whole columns can; whether anything was found."""
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
        """This column is taken whole, until `release`."""
        self._lp.set_least(self._variable[id(column)], 1.0)
        self._fixed.append(self._variable[id(column)])

    def unfix(self) -> None:
        """No column need be taken."""
        for variable in self._fixed:
            self._lp.set_least(variable, 0.0)
        self._fixed.clear()

    def _lp_solution(self, solution: PrimalDual) -> LpSolution:
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
        """How much of each column is taken; the columns before theirs leave gangs out."""
        return solution.values[len(self.shapes) :]

    def _count(self, cut: Cut, row: int, column: Column, variable: int) -> None:
        count = cut.taken(self.shapes[column.gang], column.inside.get(cut.domain, 0))
        if count:
            self._lp.put(row, variable, count)

    def _violated(self, solution: PrimalDual) -> list[int]:
        """Places without a row of their own of which the shares take more than there is."""
        shares = self._shares(solution)
        some = np.flatnonzero(shares > _TINY).tolist()
        if not some:
            return []
        places = np.concatenate([self._usages[column].places for column in some])
        counts = np.concatenate([self._usages[column].counts * shares[column] for column in some])
        over = np.bincount(places, counts, self.offered.size) > self.offered.ravel() + _TINY
        return [place for place in np.flatnonzero(over).tolist() if place not in self._rows]

    def _limit(self, place: int) -> None:
        self._rows[place] = self._lp.row(int(self.offered.flat[place]))
        for variable, count in self._entries[place]:
            self._lp.put(self._rows[place], variable, count)

    def _usage(self, column: Column) -> _RowUsage:
        """What a column displaces."""
        takes = self.displaced[self.shapes[column.gang]]
        shapes = np.flatnonzero(takes)
        where, counts = np.array([*column.use]), np.array([*column.use.values()])
        places = np.add.outer(shapes * self.offered.shape[1], where)
        return _RowUsage(places.ravel(), np.outer(takes[shapes], counts).ravel())
