"""The linear programme over bids: how much of each is taken so that no class of nodes is oversold (GLOP)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]  # it tells no types

from solver.bounds import Counts
from solver.market import Use

_DEAR = 1e4
"""What it costs to leave a gang out, in domains."""
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class Bid:
    """A plan of one gang: members by class, domains touched by level. `buyer`: the gang's position."""

    buyer: int
    use: Use
    spread: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mixed:
    """The duals: the worth of one member of each shape on a class, and of one domain of each level that is held at its
    sum. `cost`: a whole number that the sum of touched domains cannot be below, if all bids were known and nothing
    rounded.
    """

    room: NDArray[np.float64]
    held: tuple[float, ...]
    cost: int


@dataclass
class Mixing:
    """`offered[shape, class]`: members of a shape that a class has room for; `shapes`: that of each gang. `values`: the
    sums that levels are held at, the widest first.
    """

    displaced: Counts
    offered: Counts
    shapes: Sequence[int]
    values: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lp = pywraplp.Solver.CreateSolver("GLOP")
        self._most = self._lp.infinity()
        self._goal = self._lp.Objective()
        self._goal.SetMinimization()
        self._one = [self._lp.Constraint(1.0, 1.0) for _ in self.shapes]
        for one in self._one:
            left_out = self._lp.NumVar(0.0, self._most, "")
            one.SetCoefficient(left_out, 1.0)
            self._goal.SetCoefficient(left_out, _DEAR)
        self._bids: list[Bid] = []
        self._taken: list[pywraplp.Variable] = []
        self._rows: dict[tuple[int, int], pywraplp.Constraint] = {}
        self._held: list[pywraplp.Constraint] = []

    def extend(self, bids: Iterable[Bid]) -> None:
        """Learn the bids that are new; the others come before them."""
        for bid in list(bids)[len(self._bids) :]:
            taken = self._lp.NumVar(0.0, self._most, "")
            self._one[bid.buyer].SetCoefficient(taken, 1.0)
            for (shape, where), count in self._takes(bid).items():
                if (shape, where) in self._rows:
                    self._rows[shape, where].SetCoefficient(taken, float(count))
            for held, domains in zip(self._held, bid.spread, strict=False):
                held.SetCoefficient(taken, float(domains))
            self._bids.append(bid)
            self._taken.append(taken)

    def hold(self, level: int, value: int) -> None:
        """From now on no more than so many domains of this level are touched; levels come in their order."""
        held = self._lp.Constraint(-self._most, float(value))
        for bid, taken in zip(self._bids, self._taken, strict=True):
            held.SetCoefficient(taken, float(bid.spread[level]))
        self._held.append(held)
        self.values.append(value)

    def mixed(self, level: int) -> Mixed | None:
        """The mixture that touches the fewest domains of a level; None where GLOP does not find it."""
        for bid, taken in zip(self._bids, self._taken, strict=True):
            self._goal.SetCoefficient(taken, float(bid.spread[level]))
        while True:
            if not self._solved():
                return None
            oversold = self._oversold()
            if not oversold:
                break
            for shape, where in oversold:
                self._limit(shape, where)
        room = np.zeros(self.offered.shape)
        for (shape, where), row in self._rows.items():
            room[shape, where] = -row.dual_value()
        held = tuple(-row.dual_value() for row in self._held)
        return Mixed(room, held, ceil(self._goal.Value() - _TINY))

    def _solved(self) -> bool:
        """From where the last solve ended or, where that fails by rounding, from the beginning."""
        afresh = pywraplp.MPSolverParameters()
        afresh.SetIntegerParam(afresh.INCREMENTALITY, afresh.INCREMENTALITY_OFF)
        return bool(self._lp.Solve() == pywraplp.Solver.OPTIMAL or self._lp.Solve(afresh) == pywraplp.Solver.OPTIMAL)

    def _oversold(self) -> list[tuple[int, int]]:
        """Shapes and classes without a row of their own that the mixture takes more of than there is."""
        taken: dict[tuple[int, int], float] = {}
        for bid, variable in zip(self._bids, self._taken, strict=True):
            share = variable.solution_value()
            if share > _TINY:
                for place, count in self._takes(bid).items():
                    taken[place] = taken.get(place, 0.0) + share * count
        return [
            (shape, where)
            for (shape, where), count in taken.items()
            if (shape, where) not in self._rows and count > self.offered[shape, where] + _TINY
        ]

    def _limit(self, shape: int, where: int) -> None:
        row = self._lp.Constraint(-self._most, float(self.offered[shape, where]))
        for bid, taken in zip(self._bids, self._taken, strict=True):
            if where in bid.use:
                row.SetCoefficient(taken, float(self._takes(bid).get((shape, where), 0)))
        self._rows[shape, where] = row

    def _takes(self, bid: Bid) -> dict[tuple[int, int], int]:
        """By shape and class, how many members a bid displaces."""
        displaced = self.displaced[self.shapes[bid.buyer]].tolist()
        return {
            (shape, where): each * count
            for where, count in bid.use.items()
            for shape, each in enumerate(displaced)
            if each
        }
