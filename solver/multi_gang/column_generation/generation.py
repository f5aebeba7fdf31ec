"""The most compact plans of many gangs together (goal 3), level by level, with a bound: column generation.

A column is one plan of one gang. The restricted master problem mixes the columns found so far, without exceeding the
capacity of any class of nodes (`restricted_master`). Its duals are prices. Under these prices the pricing problem finds
the best further columns of every gang (`pricing`; Dantzig and Wolfe, 1960). Any prices give a dual bound: the least
cost of all gangs under them, minus the value of the capacity (Lagrangian duality). It is computed in whole numbers, so
that no rounding of the linear programme makes it too high. CP-SAT then chooses one column for each gang. On levels with
few domains, `allotment` gives a tighter bound than the linear programme, which may use fractions of plans.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul

import numpy as np

from solver.capacity import Counts
from solver.cp_model import FEASIBLE, OPTIMAL, CpModel, CpSolver, LinearExpr
from solver.cp_sat.lexicographic import TimeBudget, single_worker
from solver.deadline import DeadlineCheck, no_deadline_check
from solver.multi_gang.column_generation.allotment import AllottingProblem, MembersByDomain
from solver.multi_gang.column_generation.diving import dived
from solver.multi_gang.column_generation.pricing import INFEASIBLE_COLUMN, GangDemand, PricingProblem, Use
from solver.multi_gang.column_generation.restricted_master import Column, GenerationEffort, LpSolution, RestrictedMaster
from solver.tree import ROOT

_SCALE = 1 << 10
"""Prices are whole numbers; `_SCALE` is the price of one domain."""
_ROUNDS = 200
"""The most rounds of master problem and pricing for one level."""
_PERTURBED = 12
"""In how many rounds of pricing the prices are changed randomly. These rounds add columns if the columns found so far
do not suffice.
"""
_TRIES = 4
"""The most attempts to choose columns by CP-SAT for one level. The first one uses the columns found so far."""
_BEST = 2
"""In each round of pricing, the `_BEST` best domains of a gang's required level each give their best column of the
gang.
"""
_SHARE = 0.25
"""The share of the remaining deterministic time that the choice for one level may take."""


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """One column for every gang.

    `bounds[level]`: a lower bound of the number of domains that all gangs touch, summed over the gangs. It holds if the
    sums of the wider levels are those of the chosen columns.
    """

    columns: tuple[Column, ...]
    bounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Duals:
    """The prices of a round of pricing: the duals of the master problem, in whole numbers (`_SCALE` is the price of one
    domain).

    `weights[level]`: the price of a touched domain. `unit[shape, class]`: the price of a member. `within[members,
    shape, inner domain]`: an additional price of all members in a domain, which comes from the cuts; None without cuts.
    `offered_value`: the right-hand sides of all constraints times their duals, summed. The Lagrangian bound subtracts
    it.
    """

    weights: Sequence[int]
    unit: Counts
    within: Counts | None
    offered_value: int


@dataclass(frozen=True, slots=True)
class _Priced:
    """The result of one round of pricing. `prices`: the duals from which the prices were computed.

    `lagrangian`: the Lagrangian bound, in parts of `_SCALE`. It is the sum of the lower bounds of the gangs' costs,
    minus the right-hand sides times their duals. `unit`: the price of a member by shape and class.
    """

    prices: LpSolution
    unit: Counts
    lagrangian: int

    @property
    def bound(self) -> int:
        """The Lagrangian bound as a number of domains, rounded up: a lower bound of the domains that all gangs touch,
        summed over the gangs.
        """
        return -(-self.lagrangian // _SCALE)


@dataclass
class ColumnGeneration:
    """The gangs, and the columns found so far. `demands`: shape, number of members and required level of each gang.

    `displaced[one, other]`: how many members of shape `other` certainly no longer fit where a member of shape `one` is
    placed. `effort`: what solves and tables may still cost together. `own` and `offered`, shapes x classes: how many
    members may run on a class of nodes, and how many would fit if all its nodes were eligible, respectively.
    """

    pricing: PricingProblem
    demands: Sequence[GangDemand]
    displaced: Counts
    effort: GenerationEffort = field(default_factory=GenerationEffort)
    columns: dict[tuple[object, ...], Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes = self.pricing.classes
        self.own: Counts = classes.holds * classes.nodes
        self.offered: Counts = classes.room * classes.nodes
        self.depth = self.pricing.tree.depth
        self.allotting = AllottingProblem(self.pricing, self.demands, self.displaced, self.own, self.offered)

    def solve(self, budget: TimeBudget, over: DeadlineCheck = no_deadline_check) -> ChosenColumns | None:
        """Return the best choice of one column per gang that is found until `over` returns True.

        The first choice places the gangs one after the other, or divides them among wide domains. None if neither gives
        a choice, or if both would take too much effort.
        """
        chosen = self._in_turn(np.zeros_like(self.own), 0) or self._first_allotted(budget)
        if chosen is None:
            return None
        self.effort.over = over
        shapes, members = [each.shape for each in self.demands], [each.members for each in self.demands]
        master = RestrictedMaster(
            self.displaced, self.offered, self.pricing.classes.domain, shapes, members, self.effort
        )
        bounds: list[int] = []
        for level in range(self.depth):
            bound, unit = self._bound(master, level, _total(chosen, level))
            if bound < _total(chosen, level):
                chosen = self._dived(master, level, bound, _total(chosen, level)) or chosen
            if bound < _total(chosen, level) and self.allotting.is_wide(level) and not over():
                chosen, bound = self._allotted(chosen, level, bound, budget)
            if bound < _total(chosen, level) and not over():
                tries = 1 if self.effort.spent else _TRIES
                chosen = self._better(chosen, level, bound, unit, budget, tries=tries)
            bounds.append(bound)
            master.constrain_level(level, _total(chosen, level))
        return ChosenColumns(tuple(chosen), tuple(bounds))

    def _column(self, gang: int, use: Use) -> Column:
        """Return the column of a gang's plan, and add it to the columns found so far. `use`: the plan's members by
        class of nodes.
        """
        key = (gang, *sorted(use.items()))
        if key not in self.columns:
            self.columns[key] = Column(
                gang, use, self.pricing.inside(use), self.pricing.spread(self.demands[gang], use)
            )
        return self.columns[key]

    def _in_turn(self, unit: Counts, level: int) -> list[Column] | None:
        """Place the gangs one after the other, each as compactly as possible on the capacity that is left, and return
        their columns. Gangs with the largest members come first.

        `unit`: the price of a member by shape and class. None if a gang does not fit, or if the remaining effort is too
        small.
        """
        work = len(self.demands) * self.pricing.work(1)
        if not self.effort.affords(work):
            return None
        self.effort.spend_on_tables(work)
        left, weights = self.offered.copy(), self.weights(level)
        chosen: dict[int, Column] = {}
        size = self.displaced.sum(axis=1)
        for gang in sorted(range(len(self.demands)), key=lambda each: (-size[self.demands[each].shape], each)):
            demand = self.demands[gang]
            use = self._compact(demand, left, weights, unit)
            if use is None:
                return None
            chosen[gang] = self._column(gang, use)
            for where, count in use.items():
                left[:, where] -= self.displaced[demand.shape] * count
        return [chosen[gang] for gang in range(len(self.demands))]

    def _first_allotted(self, budget: TimeBudget) -> list[Column] | None:
        """Return a choice of columns in which the gangs are divided among the domains of a wide level, by
        `AllottingProblem`. The level is the narrowest of the wide ones. None if no such choice is found.
        """
        held: list[int] = []
        parts: MembersByDomain = []
        for level in range(self.depth):
            allotment = self.allotting.least(level, held, budget) if self.allotting.is_wide(level) else None
            if allotment is None:
                break
            parts = allotment.parts
            held.append(sum(map(len, parts)))
        return self._in_parts(parts, len(held) - 1) if held else None

    def _allotted(self, chosen: list[Column], level: int, bound: int, budget: TimeBudget) -> tuple[list[Column], int]:
        """Return two values: a choice of columns that touches few domains of the wide level `level`, and a lower bound
        of that number.

        The choice is `chosen`, unless CP-SAT finds a better division of the gangs among the domains. The bound is
        `bound`, unless CP-SAT proves a better one.
        """
        domain = self.allotting.domain(level).tolist()
        known: list[dict[int, int]] = [{} for _ in chosen]
        for column in chosen:
            for where, count in column.use.items():
                members = known[column.gang]
                members[domain[where]] = members.get(domain[where], 0) + count
        held = [_total(chosen, wider) for wider in range(level)]
        allotment = self.allotting.least(level, held, budget, bound, known)
        if allotment is None:
            return chosen, bound
        fewer = sum(map(len, allotment.parts)) < _total(chosen, level)
        found = self._in_parts(allotment.parts, level) if fewer else None
        return found or chosen, max(bound, allotment.bound)

    def _in_parts(self, parts: MembersByDomain, level: int) -> list[Column] | None:
        """Return columns that place as many of each gang's members in a domain of `level` as `parts` says. Gangs with
        the largest members come first.

        Within a domain, the members of a gang are as compact as possible. None if members do not fit, or if the
        remaining effort is too small.
        """
        work = sum(map(len, parts)) * self.pricing.work(1)
        if not self.effort.affords(work):
            return None
        self.effort.spend_on_tables(work)
        left, domain = self.offered.copy(), self.allotting.domain(level)
        size = self.displaced.sum(axis=1)
        uses: list[dict[int, int]] = [{} for _ in self.demands]
        jobs = [(gang, where, count) for gang, own in enumerate(parts) for where, count in sorted(own.items())]
        for gang, where, count in sorted(jobs, key=lambda job: (-size[self.demands[job[0]].shape], job)):
            demand = self.demands[gang]
            inward = GangDemand(demand.shape, count, demand.level if len(parts[gang]) == 1 else ROOT)
            use = self._compact(inward, np.where(domain == where, left, 0), self.weights(self.depth - 1))
            if use is None:
                return None
            uses[gang] |= use
            for each, members in use.items():
                left[:, each] -= self.displaced[demand.shape] * members
        return [self._column(gang, use) for gang, use in enumerate(uses)]

    def _compact(
        self, demand: GangDemand, left: Counts, weights: Sequence[int], unit: Counts | None = None
    ) -> Use | None:
        """Return the most compact plan of a gang on the remaining capacity `left` (shapes x classes); None if the gang
        does not fit.

        `weights[level]`: the cost of a touched domain. `unit`: the price of a member by shape and class; None: 0.
        """
        price = np.zeros(left.shape[1], dtype=np.int64) if unit is None else unit[demand.shape]
        limit = self._fitting(demand.shape, left)
        prices = self.pricing.prices(weights, price[None], limit[None], shape=demand.shape)
        uses = self.pricing.best(prices, GangDemand(0, demand.members, demand.level))
        return uses[0] if uses else None

    def _fitting(self, shape: int, left: Counts) -> Counts:
        """Return, by class of nodes, how many members of a shape fit into the remaining capacity `left` (shapes x
        classes).
        """
        takes = self.displaced[shape]
        rows = takes > 0
        fitting: Counts = np.minimum((left[rows] // takes[rows, None]).min(axis=0), self.own[shape])
        return fitting

    def weights(self, level: int) -> list[int]:
        """Return, by level, the cost of a touched domain, so that a plan of least cost is most compact on `level` and
        all wider levels.

        A domain of a wider level costs more than all domains inside it. With many members on many levels, the factor
        between levels is smaller, so that a gang's cost stays below that of an impossible plan.
        """
        touched = [min(self.pricing.most, self.pricing.tree.count(each)) for each in range(self.depth)]
        base = self.pricing.most + 1
        while True:
            weights = [
                _SCALE * base ** (level - each) if each <= level else _SCALE // 16 ** (each - level)
                for each in range(self.depth)
            ]
            if base == 1 or 2 * sum(map(mul, weights, touched)) < INFEASIBLE_COLUMN:
                return weights
            base = (base + 1) // 2

    def _bound(self, master: RestrictedMaster, level: int, reached: int) -> tuple[int, Counts]:
        """Return two results. The first: a lower bound on the sum, over the gangs, of the number of domains of a level
        that each gang touches. The second: the prices of a member, by shape and class.

        `reached`: a feasible value of this sum. New columns are searched at prices half way between the duals and the
        best prices so far (smoothing, Wentges, 1997), because such columns stay good. If these prices bring no new
        column, the duals of the relaxation are used.
        """
        best: _Priced | None = None
        for _ in range(_ROUNDS):
            master.extend(self.columns.values())
            relaxation = master.solve_relaxation(level)
            if relaxation is None:
                break
            known = len(self.columns)
            for prices in (relaxation,) if best is None else (relaxation.smoothed(best.prices), relaxation):
                priced = self._priced(master, prices, level)
                best = priced if best is None or priced.lagrangian > best.lagrangian else best
                if len(self.columns) > known or best.bound >= reached:
                    break
            if best is not None and best.bound >= reached:
                break
            settled = best is not None and best.bound >= relaxation.cost
            if (settled or len(self.columns) == known) and not master.cut(relaxation):
                break
        return (0, np.zeros_like(self.own)) if best is None else (max(0, best.bound), best.unit)

    def _priced(self, master: RestrictedMaster, prices: LpSolution, level: int) -> _Priced:
        """Return the result of one round of pricing with the duals `prices`. The best columns of all gangs under these
        prices are added to the columns found so far.
        """
        duals = self._duals(master, prices, level)
        return _Priced(
            prices, duals.unit, self._generated(duals, range(len(self.demands)), self.own) - duals.offered_value
        )

    def _duals(self, master: RestrictedMaster, relaxation: LpSolution, level: int) -> _Duals:
        """Return the duals of a relaxation as prices in whole numbers (`_SCALE`)."""
        room = np.maximum(np.rint(relaxation.room * _SCALE), 0).astype(np.int64)
        weights = [max(0, round(each * _SCALE)) for each in relaxation.held]
        offered_value = int((room * self.offered).sum())
        offered_value += sum(weight * value for weight, value in zip(weights, master.values, strict=False))
        weights += [0] * (self.depth - len(weights))
        weights[level] += _SCALE
        within, cuts = None, {cut: round(dual * _SCALE) for cut, dual in relaxation.cuts.items()}
        for cut, price in cuts.items():
            if price > 0:
                if within is None:
                    within = np.zeros((self.pricing.most + 1, len(self.own), len(self.pricing.inner)), dtype=np.int64)
                offered_value += price * cut.most
                members = np.arange(self.pricing.most + 1)
                place = np.searchsorted(self.pricing.inner, cut.domain)
                within[:, :, place] += price * (np.outer(members, cut.each) // cut.by)
        return _Duals(weights, self.displaced @ room, within, offered_value)

    def _generated(self, duals: _Duals, gangs: Iterable[int], limit: Counts) -> int:
        """Return a lower bound of the gangs' total cost under the prices `duals`, and add the gangs' best plans under
        these prices to the columns found so far.

        `limit`, shapes x classes: the most members on a class of nodes.
        """
        self.effort.spend_on_tables(self.pricing.work(len(limit)))
        prices = self.pricing.prices(duals.weights, duals.unit, limit, within=duals.within)
        cost = 0
        for gang in gangs:
            demand = self.demands[gang]
            cost += prices.least(demand) + sum(duals.weights[: max(demand.level, 0)])
            for use in self.pricing.best(prices, demand, _BEST):
                self._column(gang, use)
        return cost

    def _dived(self, master: RestrictedMaster, level: int, bound: int, most: int) -> list[Column] | None:
        """Return a choice of columns that touches fewer than `most` domains of `level`, summed over the gangs, by the
        diving heuristic; None if the dive fails.
        """

        def regenerate(relaxation: LpSolution, left: Counts, gangs: Sequence[int]) -> bool:
            limit = np.stack([self._fitting(shape, left) for shape in range(len(self.own))])
            known = len(self.columns)
            self._generated(self._duals(master, relaxation, level), gangs, limit)
            master.extend(self.columns.values())
            return len(self.columns) > known

        return dived(master, level, regenerate, bound, most)

    def _better(
        self, chosen: list[Column], level: int, bound: int, unit: Counts, budget: TimeBudget, *, tries: int
    ) -> list[Column]:
        """Return a choice of columns that touches fewer domains of `level` than `chosen`, and no more domains of any
        wider level. If none is found, return `chosen`.

        `unit`: prices of a member by shape and class, which guide the search. `tries`: how many searches by CP-SAT are
        made; before each further one, columns are generated at random prices.
        """
        in_turn = self._in_turn(unit, level)
        if in_turn is not None and _totals(in_turn, level) < _totals(chosen, level):
            chosen = in_turn
        rng = np.random.default_rng(0)
        for attempt in range(tries):
            for _ in range(_PERTURBED if attempt else 0):
                if self.effort.spent:
                    break
                perturbed = unit * rng.integers(0, 2 * _SCALE, size=unit.shape) // _SCALE
                perturbed += rng.integers(0, _SCALE // 16, size=unit.shape)
                self._generated(_Duals(self.weights(level), perturbed, None, 0), range(len(self.demands)), self.own)
            chosen = self._chosen(chosen, level, bound, budget)
            if _total(chosen, level) <= bound:
                break
        return chosen

    def _chosen(self, known: list[Column], level: int, bound: int, budget: TimeBudget) -> list[Column]:
        """Return CP-SAT's choice among all columns found so far, or `known` if CP-SAT finds none."""
        cp, columns = CpModel(), list(self.columns.values())
        takes = [cp.new_bool_var("") for _ in columns]
        at = dict(zip(map(id, columns), takes, strict=True))
        for gang in range(len(self.demands)):
            cp.add_exactly_one(take for column, take in zip(columns, takes, strict=True) if column.gang == gang)
        for (shape, where), rows in self._rows(columns).items():
            cp.add(
                LinearExpr.weighted_sum([takes[each] for each, _ in rows], [count for _, count in rows])
                <= int(self.offered[shape, where])
            )
        for each in range(level + 1):
            total = LinearExpr.weighted_sum(takes, [column.spread[each] for column in columns])
            cp.add_linear_constraint(total, bound if each == level else 0, _total(known, each))
        cp.minimize(LinearExpr.weighted_sum(takes, [column.spread[level] for column in columns]))
        hinted = {id(column) for column in known}
        for column in columns:
            cp.add_hint(at[id(column)], id(column) in hinted)
        solver = _solver(budget)
        status = solver.solve(cp)
        budget.charge(solver)
        if status not in (OPTIMAL, FEASIBLE):
            return known
        return [column for column, take in zip(columns, takes, strict=True) if solver.value(take)]

    def _rows(self, columns: Iterable[Column]) -> Mapping[tuple[int, int], list[tuple[int, int]]]:
        """Return, by shape and class of nodes, the columns that displace members of the shape on these nodes. A column
        is given as its position in `columns` and the number of displaced members.
        """
        rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for position, column in enumerate(columns):
            takes = self.displaced[self.demands[column.gang].shape].tolist()
            for where, count in column.use.items():
                for shape, each in enumerate(takes):
                    if each:
                        rows.setdefault((shape, where), []).append((position, each * count))
        return rows


def _total(columns: Sequence[Column], level: int) -> int:
    """Return how many domains of `level` these columns touch, summed over the columns."""
    return sum(column.spread[level] for column in columns)


def _totals(columns: Sequence[Column], level: int) -> list[int]:
    """Return, for `level` and each wider level, the number of domains that these columns touch, summed over the
    columns.
    """
    return [_total(columns, each) for each in range(level + 1)]


def _solver(budget: TimeBudget) -> CpSolver:
    solver = single_worker()
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = max(0.0, budget.deterministic) * _SHARE
    solver.parameters.max_time_in_seconds = max(0.0, budget.wall.left)
    return solver
