"""How many members of each gang each domain of a wide level takes, as a problem of its own for CP-SAT.

A level is wide if it has few domains, and the model ignores how they are filled inside. So CP-SAT mostly proves the
best choice at once:

    min   sum of touched[g, d]                            over gangs and the domains of one level
    s.t.  sum over d of x[g, d] = members of g
          x[g, d] <= what may run there * touched[g, d]
          sum over g of members that x[g, d] displaces <= room, for each shape in each domain
          the sums of touched domains of the wider levels <= their fixed values

The constraints that the model ignores can only make plans worse, so the least sum is a lower bound. Unlike the bound of
column generation, it respects that members are whole and that all gangs share a domain's capacity. If all members fit
inside the domains, too, the choice is a plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.cp_model import FEASIBLE, OPTIMAL, CpModel, IntVar, LinearExpr
from solver.cp_sat.lexicographic import TimeBudget, single_worker
from solver.multi_gang.column_generation.pricing import GangDemand, PricingProblem

_CELLS = 1_200
"""The largest product of the numbers of gangs and domains for which a level counts as wide."""
_SHARE = 0.1
"""The share of the remaining deterministic time that the choice for one level may take."""

MembersByDomain = Sequence[Mapping[int, int]]
"""By gang, the number of its members in each domain of one level. Domains without members have no entry."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """A division of the gangs among the domains of one level.

    `parts`: by gang, the number of its members in each domain. `bound`: a lower bound of the number of touched domains
    of this level, summed over the gangs. It holds as long as the sums of the wider levels are at their fixed values.
    """

    parts: MembersByDomain
    bound: int


class AllottingProblem:
    """Divides gangs among the domains of a level, by CP-SAT.

    `own` and `offered`, shapes x classes: how many members may run on a class of nodes, and how many would fit if all
    its nodes were eligible, respectively. `displaced[one, other]`: how many members of shape `other` a member of shape
    `one` displaces.
    """

    def __init__(
        self, pricing: PricingProblem, demands: Sequence[GangDemand], displaced: Counts, own: Counts, offered: Counts
    ) -> None:
        self._tree, self._inner, self._demands = pricing.tree, pricing.classes.domain, demands
        self._displaced, self._own, self._offered = displaced, own, offered

    def is_wide(self, level: int) -> bool:
        """Whether the level is above the node and so few domains are on it that CP-SAT can divide all gangs among them:
        gangs times domains is at most `_CELLS`.
        """
        return level < self._tree.depth - 1 and len(self._demands) * self._tree.count(level) <= _CELLS

    def domain(self, level: int) -> Counts:
        """Return, by class of nodes, the domain of `level` that contains the class."""
        return self._tree.around(self._tree.depth - 2, level)[self._inner]

    def least(
        self, level: int, held: Sequence[int], budget: TimeBudget, least: int = 0, known: MembersByDomain | None = None
    ) -> Allotment | None:
        """Return a division of the gangs among the domains of `level`. Of the divisions that CP-SAT finds, it touches
        the fewest domains, summed over the gangs. None if CP-SAT finds no division.

        `held`: for each wider level, the most touched domains. `least`: a lower bound of the sum. `known`: a feasible
        division, from which CP-SAT starts.
        """
        cp, flags = CpModel(), dict[tuple[int, int], IntVar]()
        members = self._members(cp, level, flags)
        self._limit_room(cp, level, members)
        for wider in range(level):
            cp.add(LinearExpr.sum(self._around(cp, flags, level, wider)) <= held[wider])
        total = LinearExpr.sum([*flags.values()])
        cp.add(total >= least)
        cp.minimize(total)
        if known is not None:
            for (gang, domain), count in members.items():
                cp.add_hint(count, known[gang].get(domain, 0))
                cp.add_hint(flags[gang, domain], domain in known[gang])
        solver = single_worker()
        solver.parameters.linearization_level = 2
        solver.parameters.max_deterministic_time = max(0.0, budget.deterministic) * _SHARE
        solver.parameters.max_time_in_seconds = max(0.0, budget.wall.left)
        status = solver.solve(cp)
        budget.charge(solver)
        if status not in (OPTIMAL, FEASIBLE):
            return None
        parts: list[dict[int, int]] = [{} for _ in self._demands]
        for (gang, domain), count in members.items():
            if solver.value(count):
                parts[gang][domain] = solver.value(count)
        return Allotment(parts, sum(map(len, parts)) if status == OPTIMAL else least)

    def _members(self, cp: CpModel, level: int, flags: dict[tuple[int, int], IntVar]) -> dict[tuple[int, int], IntVar]:
        """Return new variables: by gang and domain, how many of the gang's members are in the domain. Add to `flags`
        variables that are 1 if the gang has a member in the domain, else 0.

        All members of a gang are placed, and a domain of its required level holds all of them.
        """
        members: dict[tuple[int, int], IntVar] = {}
        own = self._summed(level, self._own)
        for gang, demand in enumerate(self._demands):
            inside = np.flatnonzero(self._possible(level, demand)).tolist()
            for domain in inside:
                most = min(demand.members, int(own[demand.shape, domain]))
                count = members[gang, domain] = cp.new_int_var(0, most, "")
                flag = flags[gang, domain] = cp.new_bool_var("")
                cp.add(count <= most * flag)
                cp.add(count >= flag)
            cp.add(LinearExpr.sum([members[gang, domain] for domain in inside]) == demand.members)
            for wider in range(min(demand.level, level) + 1):
                own_flags = {place: flag for place, flag in flags.items() if place[0] == gang}
                cp.add(LinearExpr.sum(self._around(cp, own_flags, level, wider)) <= 1)
        return members

    def _possible(self, level: int, demand: GangDemand) -> NDArray[np.bool_]:
        """Return, by domain of `level`, whether members of a gang may be in the domain.

        The domain must have capacity for a member. A domain of the gang's required level that contains this domain, or
        lies inside it, must have capacity for all members.
        """
        holding = self._summed(demand.level, self._own)[demand.shape] >= demand.members
        possible = np.zeros(self._tree.count(level), dtype=np.bool_)
        possible[self.domain(level)[holding[self.domain(demand.level)]]] = True
        possible &= self._summed(level, self._own)[demand.shape] > 0
        return possible

    def _limit_room(self, cp: CpModel, level: int, members: Mapping[tuple[int, int], IntVar]) -> None:
        """Limit the members in every domain to its capacity, shape by shape."""
        offered = self._summed(level, self._offered)
        takes = self._displaced[[demand.shape for demand in self._demands]]
        for domain in range(self._tree.count(level)):
            gangs = [gang for gang, where in members if where == domain]
            for shape in np.flatnonzero(takes[gangs].any(axis=0)).tolist():
                weights = takes[gangs, shape].tolist()
                asked = LinearExpr.weighted_sum([members[gang, domain] for gang in gangs], weights)
                cp.add(asked <= int(offered[shape, domain]))

    def _around(self, cp: CpModel, flags: Mapping[tuple[int, int], IntVar], level: int, wider: int) -> list[IntVar]:
        """Return one flag for each pair of a gang and a domain of the level `wider`. The flag is 1 if the gang touches
        the domain.

        `flags`: by gang and domain of `level`, whether the gang touches the domain.
        """
        if wider == level:
            return [*flags.values()]
        around = self._tree.around(level, wider)
        found: dict[tuple[int, int], IntVar] = {}
        for (gang, domain), flag in flags.items():
            place = gang, int(around[domain])
            if place not in found:
                found[place] = cp.new_bool_var("")
            cp.add_implication(flag, found[place])
        return [*found.values()]

    def _summed(self, level: int, amounts: Counts) -> Counts:
        """Return amounts summed by domain of a level: shapes x domains. `amounts`: shapes x classes."""
        sums = np.zeros((len(amounts), self._tree.count(level)), dtype=np.int64)
        np.add.at(sums.T, self.domain(level), amounts.T)
        return sums
