"""The most compact plans of many gangs at once, level by level, with a bound: column generation.

Gangs bid with plans of their own. A linear programme mixes the bids so that no class of nodes is oversold
(`solver.master`); its duals are prices, under which `solver.market` finds the best further bid of every gang (Dantzig
and Wolfe, 1960). Any prices at all give a bound: what all gangs cost at least under them, less what the room is worth
(Lagrangian duality). It is worked out in whole numbers, so that no rounding of the linear programme can make it too
high. CP-SAT then chooses one bid for each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul

import numpy as np
from ortools.sat.python.cp_model import FEASIBLE, OPTIMAL, CpModel, CpSolver, LinearExpr

from solver.bounds import Counts
from solver.diving import dived
from solver.market import NEVER, Buyer, Market, Use
from solver.master import Bid, Effort, Master, Relaxed
from solver.search import Budget, Over, never, single_worker

_SCALE = 1 << 10
"""Prices are multiples of one part in so many of a domain."""
_ROUNDS = 200
"""Rounds of bidding for one level."""
_STIRRED = 12
"""Rounds of bids under prices that are changed at random, to choose from where the others do not do."""
_TRIES = 4
"""So often it is chosen, the first time from the bids that there are."""
_BEST = 2
"""Domains of its level that a gang bids for in a round."""
_SHARE = 0.25
"""The share of the time that is left which choosing for one level may take."""


@dataclass(frozen=True, slots=True)
class Bargain:
    """One bid for every gang. `bounds[level]`: the least sum of touched domains that is possible where the sums of the
    wider levels are what they are here, as far as is known.
    """

    bids: tuple[Bid, ...]
    bounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Terms:
    """Prices in whole numbers: of domains by level, of a member by shape and class, of members within a domain.
    `worth`: what all that has a price is worth.
    """

    weights: Sequence[int]
    unit: Counts
    within: Counts | None
    worth: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """What prices led to. `worth`: the bound, in parts of `_SCALE`; `unit`: what a member costs by shape and class."""

    prices: Relaxed
    unit: Counts
    worth: int

    @property
    def bound(self) -> int:
        """The least sum of domains that is possible."""
        return -(-self.worth // _SCALE)


@dataclass
class Bidding:
    """Gangs at a market. `displaced[one, other]`: how many members of shape `other` have certainly no room where one
    member of shape `one` is. `effort`: what is left for solves and tables together.
    """

    market: Market
    buyers: Sequence[Buyer]
    displaced: Counts
    effort: Effort = field(default_factory=Effort)
    bids: dict[tuple[object, ...], Bid] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stock = self.market.stock
        self.own: Counts = stock.holds * stock.nodes
        self.offered: Counts = stock.room * stock.nodes
        self.depth = self.market.tree.depth

    def bargain(self, budget: Budget, over: Over = never) -> Bargain | None:
        """The best choice that was found until the time is `over`; None where the gangs cannot even be placed one after
        the other, or where that alone is too much effort.
        """
        chosen = self._in_turn(np.zeros_like(self.own), 0)
        if chosen is None:
            return None
        self.effort.over = over
        shapes, members = [buyer.shape for buyer in self.buyers], [buyer.members for buyer in self.buyers]
        master = Master(self.displaced, self.offered, self.market.stock.domain, shapes, members, self.effort)
        bounds: list[int] = []
        for level in range(self.depth):
            bound, unit = self._bound(master, level, _total(chosen, level))
            if bound < _total(chosen, level):
                chosen = self._dived(master, level, bound, _total(chosen, level)) or chosen
            if bound < _total(chosen, level) and not over():
                tries = 1 if self.effort.spent else _TRIES
                chosen = self._better(chosen, level, bound, unit, budget, tries=tries)
            bounds.append(bound)
            master.hold(level, _total(chosen, level))
        return Bargain(tuple(chosen), tuple(bounds))

    def _bid(self, buyer: int, use: Use) -> Bid:
        """A bid, which is kept."""
        key = (buyer, *sorted(use.items()))
        if key not in self.bids:
            self.bids[key] = Bid(buyer, use, self.market.inside(use), self.market.spread(self.buyers[buyer], use))
        return self.bids[key]

    def _in_turn(self, unit: Counts, level: int) -> list[Bid] | None:
        """Each gang where it is the most compact after those before it, those with the largest members first. None
        where one finds no place, or where so much effort is not left.
        """
        work = len(self.buyers) * self.market.work(1)
        if not self.effort.affords(work):
            return None
        self.effort.look(work)
        left, weights = self.offered.copy(), self.weights(level)
        chosen: dict[int, Bid] = {}
        size = self.displaced.sum(axis=1)
        for buyer in sorted(range(len(self.buyers)), key=lambda each: (-size[self.buyers[each].shape], each)):
            asks = self.buyers[buyer]
            limit = self._fitting(asks.shape, left)
            prices = self.market.prices(weights, unit[asks.shape][None], limit[None], shape=asks.shape)
            uses = self.market.best(prices, Buyer(0, asks.members, asks.level))
            if not uses:
                return None
            chosen[buyer] = self._bid(buyer, uses[0])
            for where, count in uses[0].items():
                left[:, where] -= self.displaced[asks.shape] * count
        return [chosen[buyer] for buyer in range(len(self.buyers))]

    def _fitting(self, shape: int, left: Counts) -> Counts:
        """By class, for how many members of a shape there is room in what is left of every shape."""
        takes = self.displaced[shape]
        rows = takes > 0
        fitting: Counts = np.minimum((left[rows] // takes[rows, None]).min(axis=0), self.own[shape])
        return fitting

    def weights(self, level: int) -> list[int]:
        """The costs of domains where those of `level` cost `_SCALE`, those of wider levels more than all inside
        or, with many members on many levels, as much more as keeps what a gang costs apart from what is impossible.
        """
        touched = [min(self.market.most, self.market.tree.count(each)) for each in range(self.depth)]
        base = self.market.most + 1
        while True:
            weights = [
                _SCALE * base ** (level - each) if each <= level else _SCALE // 16 ** (each - level)
                for each in range(self.depth)
            ]
            if base == 1 or 2 * sum(map(mul, weights, touched)) < NEVER:
                return weights
            base = (base + 1) // 2

    def _bound(self, master: Master, level: int, reached: int) -> tuple[int, Counts]:
        """The least sum of touched domains of a level, by the best prices that were found, and these prices by shape
        and class. `reached`: a sum that is possible.

        Prices half way to the best so far lead to bids that stay good (Wentges, 1997); where these bring none, those of
        the relaxation itself are asked.
        """
        best: _Asked | None = None
        for _ in range(_ROUNDS):
            master.extend(self.bids.values())
            relaxed = master.relaxed(level)
            if relaxed is None:
                break
            known = len(self.bids)
            for prices in (relaxed,) if best is None else (relaxed.towards(best.prices), relaxed):
                asked = self._asked(master, prices, level)
                best = asked if best is None or asked.worth > best.worth else best
                if len(self.bids) > known or best.bound >= reached:
                    break
            if best is not None and best.bound >= reached:
                break
            settled = best is not None and best.bound >= relaxed.cost
            if (settled or len(self.bids) == known) and not master.cut(relaxed):
                break
        return (0, np.zeros_like(self.own)) if best is None else (max(0, best.bound), best.unit)

    def _asked(self, master: Master, prices: Relaxed, level: int) -> _Asked:
        """All gangs bid under these prices."""
        terms = self._terms(master, prices, level)
        return _Asked(prices, terms.unit, self._offers(terms, range(len(self.buyers)), self.own) - terms.worth)

    def _terms(self, master: Master, relaxed: Relaxed, level: int) -> _Terms:
        """The prices of a relaxation."""
        room = np.maximum(np.rint(relaxed.room * _SCALE), 0).astype(np.int64)
        weights = [max(0, round(each * _SCALE)) for each in relaxed.held]
        worth = int((room * self.offered).sum())
        worth += sum(weight * value for weight, value in zip(weights, master.values, strict=False))
        weights += [0] * (self.depth - len(weights))
        weights[level] += _SCALE
        within, cuts = None, {cut: round(dual * _SCALE) for cut, dual in relaxed.cuts.items()}
        for cut, price in cuts.items():
            if price > 0:
                if within is None:
                    within = np.zeros((self.market.most + 1, len(self.own), len(self.market.inner)), dtype=np.int64)
                worth += price * cut.most
                members = np.arange(self.market.most + 1)
                place = np.searchsorted(self.market.inner, cut.domain)
                within[:, :, place] += price * (np.outer(members, cut.each) // cut.by)
        return _Terms(weights, self.displaced @ room, within, worth)

    def _offers(self, terms: _Terms, buyers: Iterable[int], limit: Counts) -> int:
        """What these gangs cost at least under such prices, and no more members than `limit` by shape and class; their
        best plans become bids.
        """
        self.effort.look(self.market.work(len(limit)))
        prices = self.market.prices(terms.weights, terms.unit, limit, within=terms.within)
        cost = 0
        for buyer in buyers:
            asks = self.buyers[buyer]
            cost += prices.least(asks) + sum(terms.weights[: max(asks.level, 0)])
            for use in self.market.best(prices, asks, _BEST):
                self._bid(buyer, use)
        return cost

    def _dived(self, master: Master, level: int, bound: int, most: int) -> list[Bid] | None:
        """A choice with fewer than `most` domains of `level`, as `solver.diving` finds it."""

        def rebid(relaxed: Relaxed, left: Counts, buyers: Sequence[int]) -> bool:
            limit = np.stack([self._fitting(shape, left) for shape in range(len(self.own))])
            known = len(self.bids)
            self._offers(self._terms(master, relaxed, level), buyers, limit)
            master.extend(self.bids.values())
            return len(self.bids) > known

        return dived(master, level, rebid, bound, most)

    def _better(
        self, chosen: list[Bid], level: int, bound: int, unit: Counts, budget: Budget, *, tries: int
    ) -> list[Bid]:
        """A choice with fewer domains of `level` and no more of any wider one, where one is found."""
        in_turn = self._in_turn(unit, level)
        if in_turn is not None and _totals(in_turn, level) < _totals(chosen, level):
            chosen = in_turn
        dice = np.random.default_rng(0)
        for attempt in range(tries):
            for _ in range(_STIRRED if attempt else 0):
                if self.effort.spent:
                    break
                stirred = unit * dice.integers(0, 2 * _SCALE, size=unit.shape) // _SCALE
                stirred += dice.integers(0, _SCALE // 16, size=unit.shape)
                self._offers(_Terms(self.weights(level), stirred, None, 0), range(len(self.buyers)), self.own)
            chosen = self._chosen(chosen, level, bound, budget)
            if _total(chosen, level) <= bound:
                break
        return chosen

    def _chosen(self, known: list[Bid], level: int, bound: int, budget: Budget) -> list[Bid]:
        """The choice of CP-SAT, or the one that is known."""
        cp, bids = CpModel(), list(self.bids.values())
        takes = [cp.new_bool_var("") for _ in bids]
        at = dict(zip(map(id, bids), takes, strict=True))
        for buyer in range(len(self.buyers)):
            cp.add_exactly_one(take for bid, take in zip(bids, takes, strict=True) if bid.buyer == buyer)
        for (shape, where), mine in self._rows(bids).items():
            cp.add(
                LinearExpr.weighted_sum([takes[each] for each, _ in mine], [count for _, count in mine])
                <= int(self.offered[shape, where])
            )
        for each in range(level + 1):
            total = LinearExpr.weighted_sum(takes, [bid.spread[each] for bid in bids])
            cp.add_linear_constraint(total, bound if each == level else 0, _total(known, each))
        cp.minimize(LinearExpr.weighted_sum(takes, [bid.spread[level] for bid in bids]))
        hinted = {id(bid) for bid in known}
        for bid in bids:
            cp.add_hint(at[id(bid)], id(bid) in hinted)
        solver = _solver(budget)
        status = solver.solve(cp)
        budget.charge(solver)
        if status not in (OPTIMAL, FEASIBLE):
            return known
        return [bid for bid, take in zip(bids, takes, strict=True) if solver.value(take)]

    def _rows(self, bids: Iterable[Bid]) -> Mapping[tuple[int, int], list[tuple[int, int]]]:
        """By shape and class, which bids displace how many members there."""
        rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for position, bid in enumerate(bids):
            takes = self.displaced[self.buyers[bid.buyer].shape].tolist()
            for where, count in bid.use.items():
                for shape, each in enumerate(takes):
                    if each:
                        rows.setdefault((shape, where), []).append((position, each * count))
        return rows


def _total(bids: Sequence[Bid], level: int) -> int:
    return sum(bid.spread[level] for bid in bids)


def _totals(bids: Sequence[Bid], level: int) -> list[int]:
    return [_total(bids, each) for each in range(level + 1)]


def _solver(budget: Budget) -> CpSolver:
    solver = single_worker()
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = max(0.0, budget.deterministic) * _SHARE
    solver.parameters.max_time_in_seconds = max(0.0, budget.wall.left)
    return solver
