"""The linear programme over bids: how much of each is taken so that no class of nodes is oversold (GLOP)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]  # it tells no types

from solver.bounds import Counts
from solver.cutting import Cut, Part, broken_cuts
from solver.market import Use

_DEAR = 6.0
"""What it costs to leave a gang out, in domains for each of its members. Not more than needed: the first prices are of
that height.
"""
_TINY = 1e-6
_EFFORT = 65_000
"""Bids, summed over all solves, after which no more is asked: about a second. What can be settled takes less."""
_CELLS = 20_000
"""Additions in a market's tables that take the time of one bid in a solve."""


@dataclass
class Effort:
    """What may be spent on gangs at a market, in bids that a solve has to do with; it does not tell the time, so that
    answers do not depend on the machine.
    """

    left: int = _EFFORT

    @property
    def spent(self) -> bool:
        """Whether no more is to be asked."""
        return self.left < 0

    def solve(self, bids: int) -> None:
        """A solve is paid for."""
        self.left -= bids

    def look(self, cells: int) -> None:
        """So many additions in tables are paid for."""
        self.left -= -(-cells // _CELLS)

    def affords(self, cells: int) -> bool:
        """Whether so many additions do not spend it."""
        return -(-cells // _CELLS) <= self.left


@dataclass(frozen=True, slots=True)
class Bid:
    """A plan of one gang: members by class and by narrowest domain, domains touched by level. `buyer`: the gang's
    position.
    """

    buyer: int
    use: Use
    inside: Use
    spread: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mixed:
    """How much of each bid is taken, and the duals: the worth of one member of each shape on a class, of one domain of
    each level that is held at its sum, and of the cuts. `cost`: a whole number that the sum of touched domains cannot
    be below, if all bids were known and nothing rounded.
    """

    room: NDArray[np.float64]
    held: tuple[float, ...]
    cuts: Mapping[Cut, float]
    cost: int
    shares: Sequence[tuple[Bid, float]]

    def towards(self, other: "Mixed") -> "Mixed":
        """With duals half way to those of another mixture."""
        return replace(
            self,
            room=(self.room + other.room) / 2,
            held=tuple((mine + theirs) / 2 for mine, theirs in zip(self.held, other.held, strict=True)),
            cuts={cut: (mine + other.cuts.get(cut, 0.0)) / 2 for cut, mine in self.cuts.items()},
        )


@dataclass
class Mixing:
    """`offered[shape, class]`: members of a shape that a class has room for; `domain[class]`: the narrowest one around
    it; `shapes` and `members`: those of each gang; `effort`: what is left for solving. `values`: the sums that levels
    are held at, the widest first.
    """

    displaced: Counts
    offered: Counts
    domain: Counts
    shapes: Sequence[int]
    members: Sequence[int]
    effort: Effort
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
            self._goal.SetCoefficient(left_out, _DEAR * max(self.members))
        self._bids: list[Bid] = []
        self._taken: list[pywraplp.Variable] = []
        self._rows: dict[tuple[int, int], pywraplp.Constraint] = {}
        self._held: list[pywraplp.Constraint] = []
        self._cuts: dict[Cut, pywraplp.Constraint] = {}
        self._level = 0
        self._place: dict[int, int] = {}
        self._insisted: list[int] = []
        self._inside = np.zeros((len(self.offered), int(self.domain.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(self._inside.T, self.domain, self.offered.T)

    def extend(self, bids: Iterable[Bid]) -> None:
        """Learn the bids that are new; the others come before them."""
        for bid in list(bids)[len(self._bids) :]:
            taken = self._lp.NumVar(0.0, self._most, "")
            self._goal.SetCoefficient(taken, float(bid.spread[self._level]))
            self._one[bid.buyer].SetCoefficient(taken, 1.0)
            for (shape, where), count in self._takes(bid).items():
                if (shape, where) in self._rows:
                    self._rows[shape, where].SetCoefficient(taken, float(count))
            for held, domains in zip(self._held, bid.spread, strict=False):
                held.SetCoefficient(taken, float(domains))
            for cut, row in self._cuts.items():
                self._count(cut, row, bid, taken)
            self._place[id(bid)] = len(self._bids)
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
        """The mixture that touches the fewest domains of a level; None where GLOP does not find it, or all is spent."""
        if self.effort.spent:
            return None
        if level != self._level:
            self._level = level
            for bid, taken in zip(self._bids, self._taken, strict=True):
                self._goal.SetCoefficient(taken, float(bid.spread[level]))
        while True:
            if not self._solved():
                return None
            shares = self._shares()
            oversold = self._oversold(shares)
            if not oversold:
                break
            for shape, where in oversold:
                self._limit(shape, where)
        room = np.zeros(self.offered.shape)
        for (shape, where), row in self._rows.items():
            room[shape, where] = -row.dual_value()
        return Mixed(
            room,
            tuple(-row.dual_value() for row in self._held),
            {cut: -row.dual_value() for cut, row in self._cuts.items()},
            ceil(self._goal.Value() - _TINY),
            shares,
        )

    def cut(self, mixed: Mixed) -> bool:
        """Forbid what this mixture does and no choice of whole bids can; whether anything was found."""
        parts = (
            Part(domain, self.shapes[bid.buyer], members, share)
            for bid, share in mixed.shares
            for domain, members in bid.inside.items()
        )
        found = [cut for cut in broken_cuts(parts, self.displaced, self._inside) if cut not in self._cuts]
        for cut in found:
            self._cuts[cut] = self._lp.Constraint(-self._most, float(cut.most))
            for bid, taken in zip(self._bids, self._taken, strict=True):
                self._count(cut, self._cuts[cut], bid, taken)
        return bool(found)

    def insist(self, bid: Bid) -> None:
        """This bid is taken whole, until `release`."""
        self._taken[self._place[id(bid)]].SetBounds(1.0, self._most)
        self._insisted.append(self._place[id(bid)])

    def release(self) -> None:
        """No bid need be taken."""
        for place in self._insisted:
            self._taken[place].SetBounds(0.0, self._most)
        self._insisted.clear()

    def _shares(self) -> list[tuple[Bid, float]]:
        taken = ((bid, variable.solution_value()) for bid, variable in zip(self._bids, self._taken, strict=True))
        return [(bid, share) for bid, share in taken if share > _TINY]

    def _count(self, cut: Cut, row: pywraplp.Constraint, bid: Bid, taken: pywraplp.Variable) -> None:
        count = cut.taken(self.shapes[bid.buyer], bid.inside.get(cut.domain, 0))
        if count:
            row.SetCoefficient(taken, float(count))

    def _solved(self) -> bool:
        """From where the last solve ended or, where that fails by rounding, from the beginning."""
        self.effort.solve(len(self._bids))
        afresh = pywraplp.MPSolverParameters()
        afresh.SetIntegerParam(afresh.INCREMENTALITY, afresh.INCREMENTALITY_OFF)
        return bool(self._lp.Solve() == pywraplp.Solver.OPTIMAL or self._lp.Solve(afresh) == pywraplp.Solver.OPTIMAL)

    def _oversold(self, shares: Iterable[tuple[Bid, float]]) -> list[tuple[int, int]]:
        """Shapes and classes without a row of their own that the mixture takes more of than there is."""
        taken: dict[tuple[int, int], float] = {}
        for bid, share in shares:
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
