"""The linear programme over bids: how much of each is taken so that no class of nodes is oversold.

It is the restricted master problem of column generation: bids are its columns, and classes of nodes get their rows
when they are oversold for the first time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from solver.bounds import Counts
from solver.cutting import Cut, Part, broken_cuts
from solver.market import Use
from solver.programme import Programme, Solution
from solver.search import Over, never

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
    """What may be spent on gangs at a market, in bids that a solve has to do with: answers do not depend on the machine
    unless it is so slow, or so busy, that the time is `over` first.
    """

    left: int = _EFFORT
    over: Over = never

    @property
    def spent(self) -> bool:
        """Whether no more is to be asked."""
        return self.left < 0 or self.over()

    def solve(self, bids: int) -> None:
        """A solve is paid for."""
        self.left -= bids

    def look(self, cells: int) -> None:
        """So many additions in tables are paid for."""
        self.left -= -(-cells // _CELLS)

    def affords(self, cells: int) -> bool:
        """Whether so many additions do not spend it."""
        return not self.spent and -(-cells // _CELLS) <= self.left


@dataclass(frozen=True, slots=True)
class Bid:
    """A plan of one gang: members by class and by narrowest domain, domains touched by level. `buyer`: the gang's
    position.
    """

    buyer: int
    use: Use
    inside: Mapping[int, int]
    spread: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """How much of each bid is taken, and the duals: the worth of one member of each shape on a class, of one domain of
    each level that is held at its sum, and of the cuts. `cost`: a whole number that the sum of touched domains cannot
    be below, if all bids were known and nothing rounded.
    """

    room: NDArray[np.float64]
    held: tuple[float, ...]
    cuts: Mapping[Cut, float]
    cost: int
    shares: Sequence[tuple[Bid, float]]

    def towards(self, other: "Relaxed") -> "Relaxed":
        """With duals half way to those of another relaxation."""
        return replace(
            self,
            room=(self.room + other.room) / 2,
            held=tuple((mine + theirs) / 2 for mine, theirs in zip(self.held, other.held, strict=True)),
            cuts={cut: (mine + other.cuts.get(cut, 0.0)) / 2 for cut, mine in self.cuts.items()},
        )


@dataclass(frozen=True, slots=True)
class _Sale:
    """How many members a bid displaces where. A place is a shape and a class in one number, as in `offered.ravel()`."""

    places: Counts
    counts: Counts


@dataclass
class Master:
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
        self._lp = Programme()
        self._one = [self._lp.row(1.0, least=1.0) for _ in self.shapes]
        for one in self._one:
            self._lp.put(one, self._lp.column(_DEAR * max(self.members)), 1.0)
        self._bids: list[Bid] = []
        self._sales: list[_Sale] = []
        self._sold: dict[int, list[tuple[int, int]]] = {}
        self._rows: dict[int, int] = {}
        self._held: list[int] = []
        self._cuts: dict[Cut, int] = {}
        self._level = 0
        self._column: dict[int, int] = {}
        self._insisted: list[int] = []
        self._inside = np.zeros((len(self.offered), int(self.domain.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(self._inside.T, self.domain, self.offered.T)

    def extend(self, bids: Iterable[Bid]) -> None:
        """Learn those of all bids that are new; the ones that are known come first, in the order of before."""
        for bid in list(bids)[len(self._bids) :]:
            column = self._lp.column(bid.spread[self._level])
            self._lp.put(self._one[bid.buyer], column, 1.0)
            sale = self._sale(bid)
            for place, count in zip(sale.places.tolist(), sale.counts.tolist(), strict=True):
                self._sold.setdefault(place, []).append((column, count))
                if place in self._rows:
                    self._lp.put(self._rows[place], column, count)
            for held, domains in zip(self._held, bid.spread, strict=False):
                self._lp.put(held, column, domains)
            for cut, row in self._cuts.items():
                self._count(cut, row, bid, column)
            self._column[id(bid)] = column
            self._bids.append(bid)
            self._sales.append(sale)

    def hold(self, level: int, value: int) -> None:
        """From now on no more than so many domains of this level are touched; levels come in their order."""
        held = self._lp.row(value)
        for bid in self._bids:
            self._lp.put(held, self._column[id(bid)], bid.spread[level])
        self._held.append(held)
        self.values.append(value)

    def relaxed(self, level: int) -> Relaxed | None:
        """Shares that touch the fewest domains of a level; None where GLOP does not find them, or all is spent."""
        if self.effort.spent:
            return None
        if level != self._level:
            self._level = level
            for bid in self._bids:
                self._lp.price(self._column[id(bid)], bid.spread[level])
        while True:
            self.effort.solve(len(self._bids))
            solution = self._lp.solved()
            if solution is None:
                return None
            oversold = self._oversold(solution)
            if not oversold:
                break
            for place in oversold:
                self._limit(place)
        return self._relaxed(solution)

    def cut(self, relaxed: Relaxed) -> bool:
        """Forbid what these shares do and no choice of whole bids can; whether anything was found."""
        parts = (
            Part(domain, self.shapes[bid.buyer], members, share)
            for bid, share in relaxed.shares
            for domain, members in bid.inside.items()
        )
        found = [cut for cut in broken_cuts(parts, self.displaced, self._inside) if cut not in self._cuts]
        for cut in found:
            self._cuts[cut] = self._lp.row(cut.most)
            for bid in self._bids:
                self._count(cut, self._cuts[cut], bid, self._column[id(bid)])
        return bool(found)

    def insist(self, bid: Bid) -> None:
        """This bid is taken whole, until `release`."""
        self._lp.insist(self._column[id(bid)], 1.0)
        self._insisted.append(self._column[id(bid)])

    def release(self) -> None:
        """No bid need be taken."""
        for column in self._insisted:
            self._lp.insist(column, 0.0)
        self._insisted.clear()

    def _relaxed(self, solution: Solution) -> Relaxed:
        duals = -solution.duals
        room = np.zeros(self.offered.size)
        room[list(self._rows)] = duals[list(self._rows.values())]
        shares = self._shares(solution)
        return Relaxed(
            room.reshape(self.offered.shape),
            tuple(duals[self._held].tolist()),
            dict(zip(self._cuts, duals[list(self._cuts.values())].tolist(), strict=True)),
            ceil(solution.cost - _TINY),
            [(self._bids[bid], float(shares[bid])) for bid in np.flatnonzero(shares > _TINY).tolist()],
        )

    def _shares(self, solution: Solution) -> NDArray[np.float64]:
        """How much of each bid is taken; the columns before theirs leave gangs out."""
        return solution.values[len(self.shapes) :]

    def _count(self, cut: Cut, row: int, bid: Bid, column: int) -> None:
        count = cut.taken(self.shapes[bid.buyer], bid.inside.get(cut.domain, 0))
        if count:
            self._lp.put(row, column, count)

    def _oversold(self, solution: Solution) -> list[int]:
        """Places without a row of their own of which the shares take more than there is."""
        shares = self._shares(solution)
        some = np.flatnonzero(shares > _TINY).tolist()
        if not some:
            return []
        places = np.concatenate([self._sales[bid].places for bid in some])
        counts = np.concatenate([self._sales[bid].counts * shares[bid] for bid in some])
        over = np.bincount(places, counts, self.offered.size) > self.offered.ravel() + _TINY
        return [place for place in np.flatnonzero(over).tolist() if place not in self._rows]

    def _limit(self, place: int) -> None:
        self._rows[place] = self._lp.row(int(self.offered.flat[place]))
        for column, count in self._sold[place]:
            self._lp.put(self._rows[place], column, count)

    def _sale(self, bid: Bid) -> _Sale:
        """What a bid displaces."""
        takes = self.displaced[self.shapes[bid.buyer]]
        shapes = np.flatnonzero(takes)
        where, counts = np.array([*bid.use]), np.array([*bid.use.values()])
        places = np.add.outer(shapes * self.offered.shape[1], where)
        return _Sale(places.ravel(), np.outer(takes[shapes], counts).ravel())
