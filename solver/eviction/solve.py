"""The best plan with evictions, by CP-SAT over a small model. Nodes that no best plan can use at its price of victims
are left out of the model.

Every domain that may hold the gang has a least price of victims (`solver.eviction.lower_bounds`). Domains are solved
from the cheapest on, until the next domain costs more than a known plan. In each domain, a plan over its cheapest nodes
gives an upper bound of the price. Nodes whose lower bound exceeds the upper bound are left out (fixing by reduced
costs).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kube.names import natural_key
from solver.branch_and_bound.by_domain import bounds_by_counting
from solver.capacity import deciding_level
from solver.cp_sat.lexicographic import SolveStatus, TimeBudget, time_budget_of
from solver.cp_sat.solve import Solved, solve_within
from solver.deadline import OutOfTimeError
from solver.eviction.dynamic_programme import solve_eviction_dp
from solver.eviction.lower_bounds import INFEASIBLE_PRICE, EvictionPrices, prices_of
from solver.instance import Instance, useful_victims
from solver.objective import ComparisonKey, SolvePhase, comparison_key, goals_of, is_of_level, ordered, terms
from solver.plan import Plan
from solver.problem import Limits

WORTHWHILE = 12
"""From this number of nodes on, this method is faster than one model of the whole problem."""
_COUNTING = 0.3
"""The share of the remaining time for the dynamic programme, before CP-SAT starts."""
_PLENTY = 2
"""The first plan uses the cheapest nodes that together have this many times the needed capacity."""


@dataclass(frozen=True)
class _PricedDomain:
    """A domain in which the best plan's price of victims lies between `least` and `most`, the price of `plan`.

    `nodes`: the nodes that plans with such a price can use.
    """

    domain: int
    least: int
    most: int
    nodes: tuple[int, ...]
    plan: Solved


def solve_evicting(
    instance: Instance, limits: Limits, worthwhile: int = WORTHWHILE, early: Callable[[], Plan | None] = lambda: None
) -> Solved | SolveStatus | None:
    """Return the best plan with evictions, or INFEASIBLE as a proof that there is none.

    None if there are no useful victims, or if the problem is so small that this method saves no time. None also if the
    deadline passes before a plan is found. `worthwhile`: the number of nodes from which on the method runs. `early`:
    called before the search; returns a greedy plan or None.
    """
    if not instance.evicting or not instance.pending or len(instance.problem.nodes) < worthwhile:
        return None
    prices = prices_of(instance, deciding_level(instance.problem))
    if prices is None:
        return None
    paid = _solved_by_counting(instance, prices)
    if paid is not None:
        return paid
    known = early()
    budget = time_budget_of(limits, instance.deadline)
    branches, proven = _cheapest(
        instance, prices, budget, INFEASIBLE_PRICE if known is None else prices.of(known.victims)
    )
    if not branches:
        return SolveStatus.INFEASIBLE if proven else None
    best = _best_of(instance, prices, branches, budget, proven=proven)
    return best or replace(min(branches, key=lambda each: each.most).plan, proven=False, cut=True)


def _solved_by_counting(instance: Instance, prices: EvictionPrices) -> Solved | None:
    """Return the best plan by the dynamic programme; None if the dynamic programme finds no plan or takes too long."""
    try:
        return solve_eviction_dp(replace(instance, deadline=instance.deadline.share(_COUNTING)), prices)
    except OutOfTimeError:
        return None


def _best_of(
    instance: Instance, prices: EvictionPrices, branches: list[_PricedDomain], budget: TimeBudget, *, proven: bool
) -> Solved | None:
    """Return the best plan in the domains `branches`, whose plans have equal prices of victims. Domains are solved in
    the order of their lower bounds.

    None if no plan was found. `proven`: whether it is proven that every plan in other domains has a higher price.
    """
    best: tuple[ComparisonKey, Solved] | None = None
    bounded = [(_bound(instance, prices, branch) if len(branches) > 1 else (), branch) for branch in branches]
    for bound, branch in sorted(bounded, key=lambda each: (each[0], each[1].domain)):
        if budget.wall.left <= 0:
            proven = False
            break
        if best is not None and bound > best[0][: len(bound)]:
            break
        solved = solve_within(_narrowed(instance, branch.nodes), budget)
        if isinstance(solved, Solved):
            key = _key(instance, prices, solved)
            best = (key, solved) if best is None or key < best[0] else best
        proven = proven and (solved is SolveStatus.INFEASIBLE or (isinstance(solved, Solved) and solved.proven))
    return None if best is None else replace(best[1], proven=proven)


def _cheapest(
    instance: Instance, prices: EvictionPrices, budget: TimeBudget, lowest: int
) -> tuple[list[_PricedDomain], bool]:
    """Return two values: the domains whose plans may have the lowest price of victims, and whether every plan in other
    domains provably has a higher price.

    `lowest`: the price of a known plan; `INFEASIBLE_PRICE`: no plan is known.
    """
    held = {instance.tree.domain(prices.level, instance.pinned_node(seat)) for seat in instance.pinned}
    domains = [domain for domain in range(instance.tree.count(prices.level)) if held <= {domain}]
    least = {domain: prices.least(domain) for domain in domains}
    branches: list[_PricedDomain] = []
    proven = True
    for domain in sorted(domains, key=lambda each: (least[each], each)):
        if least[domain] > lowest or least[domain] >= INFEASIBLE_PRICE:
            break
        if budget.wall.left <= 0:
            proven = False
            break
        found = _priced(instance, prices, domain, budget, lowest)
        if isinstance(found, _PricedDomain):
            branches.append(found)
            lowest = min(lowest, found.most)
        proven = proven and found is not SolveStatus.UNKNOWN
    return [branch for branch in branches if branch.least <= lowest], proven


def _priced(
    instance: Instance, prices: EvictionPrices, domain: int, budget: TimeBudget, lowest: int
) -> _PricedDomain | SolveStatus:
    """Return the bounds on the price of victims in a domain, with the nodes that plans between these bounds can use.

    `lowest`: the lowest price known so far. `SolveStatus.INFEASIBLE`: no plan in the domain costs at most `lowest`.
    `SolveStatus.UNKNOWN`: time ran out before a plan was found.
    """
    nodes = prices.cheap_nodes(domain, _PLENTY, WORTHWHILE)
    first = solve_within(_narrowed(instance, nodes), budget, terms(SolvePhase.PRICE))
    most = prices.of(first.victims) if isinstance(first, Solved) else INFEASIBLE_PRICE - 1
    within = prices.nodes_within(domain, min(most, lowest))
    if isinstance(first, Solved) and set(within) <= set(nodes):
        return _PricedDomain(domain, most if first.proven else prices.least(domain), most, tuple(within), first)
    second = solve_within(_narrowed(instance, within), budget, terms(SolvePhase.PRICE))
    if isinstance(second, SolveStatus):
        if isinstance(first, SolveStatus):
            return second
        return _PricedDomain(domain, prices.least(domain), most, tuple(within), first)
    most = prices.of(second.victims)
    least = most if second.proven else prices.least(domain)
    return _PricedDomain(domain, least, most, tuple(prices.nodes_within(domain, most)), second)


def _narrowed(instance: Instance, nodes: tuple[int, ...] | list[int]) -> Instance:
    """Return the instance in which pending members may only use `nodes`. Of the victims, only those stay useful whose
    eviction helps on these nodes.
    """
    inside = np.zeros(len(instance.problem.nodes), dtype=np.bool_)
    inside[list(nodes)] = True
    known = set(instance.useful)
    useful = tuple(victim for victim in useful_victims(instance.problem, inside) if victim in known)
    return replace(instance, capacity=np.where(inside, instance.capacity, 0), useful=useful)


def _bound(instance: Instance, prices: EvictionPrices, branch: _PricedDomain) -> ComparisonKey:
    """Return a lower bound on the goal values of all plans in a domain: the first entries of the comparison key that
    `_key` returns for a plan.
    """
    narrow = _narrowed(instance, branch.nodes)
    spread, preference_score = bounds_by_counting(narrow)
    everybody = (-len(instance.pending) - len(instance.pinned),)
    placed = tuple(False for pod_set in instance.problem.sets for _ in pod_set.members)
    inside = (prices.level + 1) * len(spread) // instance.tree.depth
    known: dict[str, tuple[object, ...]] = {
        "victims": (branch.least,),
        "extras": everybody,
        "lowest_ranks": placed,
        "compactness": spread,
        "preferences": (-preference_score,),
        "terminating": (0,),
    }
    if inside < len(spread) and spread[inside] == 1:
        # a narrower domain may hold the gang, and part (a) of waste would be the capacity of that narrower domain
        return ordered(known)
    left = instance.domain_potential(prices.level, branch.domain) - sum(map(instance.request, instance.pending))
    return ordered(known | {"waste": (left,)})


def _key(instance: Instance, prices: EvictionPrices, solved: Solved) -> ComparisonKey:
    """Return the key by which a plan is compared with other plans: its goal values, in the order of the goals. The
    price of the victims represents goal 1.
    """
    goals = {goal.name: goal for goal in goals_of(instance, solved.nodes, solved.victims)}
    names = [node for row in solved.nodes for node in row]
    gone = [instance.problem.victims[victim] for victim in solved.victims]
    return ordered(
        {
            "victims": (prices.of(solved.victims),),
            "extras": (-sum(node is not None for node in names),),
            "lowest_ranks": tuple(node is None for node in names),
            "compactness": tuple(part for name, goal in goals.items() if is_of_level(name) for part in goal.digits),
            **{name: comparison_key(goals[name]) for name in ("preferences", "terminating", "waste", "ranks")},
            "started": tuple(-victim.started for victim in sorted(gone, key=lambda victim: victim.started)),
            "names": tuple(instance.name_rank[node] for node in names if node is not None),
            "keys": tuple(sorted(natural_key(victim.key) for victim in gone)),
        }
    )
