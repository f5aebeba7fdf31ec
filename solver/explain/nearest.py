"""How near a gang came to a plan: how many members each domain holds, and why nodes of the nearest domains are
excluded.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from solver.bounds.domain_cover import most_members
from solver.bounds.eviction_closure import cleared, closure_of_nodes
from solver.capacity import deciding_level, needed_members, pending
from solver.cp_sat.lexicographic import TimeBudget
from solver.cp_sat.solve import Solved, seat_count, solve_within
from solver.explain.exclusions import excluded_nodes
from solver.heuristics.packing import filled, thinned
from solver.instance import Instance, instance_of
from solver.plan import NearDomain, Plan, Proof
from solver.problem import Problem
from solver.tree import ROOT, Positions
from solver.tree_dp.single_class_counts import members_by_domain
from solver.tree_dp.single_class_tables import countable

_SHOWN = 5
"""The most domains that a rejection reports as nearest."""
MANY_SEATS = 8_000
"""The most variables of a CP-SAT model for an explanation."""
_EXACT = 8
"""The most domains that CP-SAT fills with members, if counting alone does not find how many members they hold."""
_PORTION = 1 / 2
"""The share of the explanation's time that filling one domain may take."""


@dataclass(frozen=True, slots=True)
class HeldMembers:
    """How many members each domain of the required level (or ROOT, the whole cluster) can hold (`counts`). The number
    may be below the minimum of the gang or of a set.

    `plans`: for domains that were filled one by one, the placement of these members; the plans have no goals.
    `counted`: whether every count is exact. If not, the count of a domain without a plan is an upper bound.
    """

    counts: dict[int, int]
    plans: dict[int, Plan] = field(default_factory=dict)
    counted: bool = False

    def known(self, domain: int) -> int | None:
        """Return how many members a domain holds; None if only an upper bound is known."""
        return self.counts.get(domain) if self.counted or domain in self.plans else None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The domains that lack capacity for the fewest members. `plan`: the placement of members in the first of these
    domains; None if it is not known.
    """

    domains: tuple[NearDomain, ...]
    plan: Plan | None


def held_by_domains(problem: Problem, budget: TimeBudget) -> HeldMembers:
    """Return how many members each domain of the required level (or ROOT, the whole cluster) can hold without
    evictions. These may be fewer than the minimum of the gang or of a set.

    Pinned members in the domain count.
    """
    instance = instance_of(_without_minimums(problem), evicting=False, deadline=budget.wall.deadline)
    level = deciding_level(problem)
    counted = members_by_domain(instance, level)
    if counted is not None:
        counts = {domain: counted.get(domain, 0) for domain in _open_domains(instance, level)}
        return HeldMembers(counts, counted=True)
    return _filled(instance, level, _at_most(instance, level), budget, enough=instance.tree.count(level))


def near_domains(
    problem: Problem,
    budget: TimeBudget,
    held: HeldMembers | None = None,
    *,
    refused: bool = True,
    without_evictions: HeldMembers | None = None,
) -> Nearest:
    """Return the domains that lack capacity for the fewest members, as if every victim that may be evicted were gone.

    Of domains that lack capacity for equally many members, the domain with the most eligible nodes comes first. If some
    domain has an eligible node or can hold a member, all other domains are left out. For a gang with a node selector,
    they would not show what the gang waits for.

    `held`: how many members each domain holds; None: this is computed. `refused`: whether it is proven that no plan
    exists. If so, `fits` of a domain is less than `needed`. Even if the domain has capacity for so many members, they
    cannot fulfil the minimum of each set. `without_evictions`: how many members each domain holds without
    evictions, which becomes `fits_now`.
    """
    instance = instance_of(problem, evicting=True, deadline=budget.wall.deadline)
    level, needed = deciding_level(problem), needed_members(problem)
    if held is None:
        instance.deadline.check()
        lax = instance_of(_without_minimums(problem), evicting=True, deadline=budget.wall.deadline)
        lax.deadline.check()
        held = _held_when_cleared(lax, level, budget)
    eligible = _eligible_nodes(instance, level)
    candidates = [each for each, count in held.counts.items() if count or eligible[each]] or held.counts
    nearest = sorted(candidates, key=lambda domain: (-held.counts[domain], -eligible[domain], domain))[:_SHOWN]

    def fitting(domain: int) -> int:
        return min(held.counts[domain], needed - 1) if refused else held.counts[domain]

    def now(domain: int) -> int | None:
        count = None if without_evictions is None else without_evictions.known(domain)
        return None if count is None else min(count, fitting(domain))

    domains = tuple(
        NearDomain(
            level="" if level == ROOT else problem.levels[level],
            path=() if level == ROOT else instance.tree.paths[level][domain],
            fits=fitting(domain),
            fits_now=now(domain),
            needed=needed,
            nodes=len(instance.tree.nodes(level, domain)),
            excluded=excluded,
        )
        for domain, excluded in zip(nearest, excluded_nodes(instance, level, nearest), strict=True)
    )
    if not nearest:
        return Nearest(domains, None)
    return Nearest(domains, held.plans.get(nearest[0]) or counted_plan(instance, level, nearest[0], domains[0].fits))


def counted_plan(instance: Instance, level: int, domain: int, count: int) -> Plan | None:
    """Return a plan of `count` members on the first nodes of a domain that can hold them. The plan evicts all victims
    on these nodes.

    None if the gang has several member classes or constraints on counts in a domain, or if some victim may not be
    evicted.
    """
    found = countable(cleared(instance))
    if found is None or found[1].numbers:
        return None
    kind, _ = found
    inside = np.array(instance.tree.nodes(level, domain), dtype=np.int64)
    row = np.repeat(inside, instance.capacity[kind.shape][inside])[:count].tolist()
    victims = closure_of_nodes(instance.problem, row) if instance.evicting else ()
    if victims is None:
        return None
    nodes: list[tuple[int | None, ...]] = [(None,) * len(pod_set.members) for pod_set in instance.problem.sets]
    nodes[kind.pod_set] = (*row, *(None for _ in range(len(kind.ranks) - len(row))))
    return Plan(tuple(nodes), victims, (), Proof.FEASIBLE)


def _without_minimums(problem: Problem) -> Problem:
    """Return the problem without minimums and without the gang's required level."""
    sets = tuple(replace(pod_set, minimum=0) for pod_set in problem.sets)
    return replace(problem, sets=sets, minimum=0, required=None)


def _held_when_cleared(instance: Instance, level: int, budget: TimeBudget) -> HeldMembers:
    """Return how many members the best domains hold if all victims that may be evicted are gone. For every other
    domain, return an upper bound of this number.
    """
    counted = members_by_domain(cleared(instance), level)
    if counted is None:
        return _filled(instance, level, _at_most(instance, level), budget, enough=_SHOWN)
    most = {domain: counted.get(domain, 0) for domain in _open_domains(instance, level)}
    return (
        _filled(instance, level, most, budget, enough=_SHOWN, counted=True) if instance.evicting else HeldMembers(most)
    )


def _filled(
    instance: Instance, level: int, most: dict[int, int], budget: TimeBudget, *, enough: int, counted: bool = False
) -> HeldMembers:
    """Return how many members the domains of `level` hold.

    The domains with the highest upper bounds are filled with members one by one, until `enough` of them are known to
    hold more than any other. `most`: an upper bound for each domain, which is returned for a domain that is not filled.
    `counted`: `most` is exact for domains where all victims may be evicted, so these domains are not filled.
    """
    held, plans = dict(most), dict[int, Plan]()
    known: list[int] = []
    for domain in instance.deadline.iterate(sorted(most, key=lambda each: (-most[each], each))[:_EXACT], every=1):
        if len(known) >= enough and sorted(known)[-enough] > most[domain]:
            break
        if not (counted and _may_be_cleared(instance, level, domain)):
            plan = _filled_one(instance, level, domain, budget.portion(_PORTION))
            if plan is not None:
                plans[domain] = plan
                nodes = set(instance.tree.nodes(level, domain))
                held[domain] = sum(node in nodes for row in plan.nodes for node in row)
        known.append(held[domain])
    return HeldMembers(held, plans)


def _may_be_cleared(instance: Instance, level: int, domain: int) -> bool:
    """Return whether all victims on nodes of a domain may be evicted. Only nodes that can hold a member count."""
    usable = set(np.flatnonzero(instance.usable).tolist())
    return closure_of_nodes(instance.problem, usable.intersection(instance.tree.nodes(level, domain))) is not None


def _filled_one(instance: Instance, level: int, domain: int, budget: TimeBudget) -> Plan | None:
    """Return a plan that places as many members in one domain as possible; None if it is not proven that more do not
    fit.
    """
    rows = filled(instance, level, domain)
    if rows is not None:
        return Plan(rows, (), (), Proof.FEASIBLE)
    instance.deadline.check()
    part = thinned(inside(instance, level, domain))
    if seat_count(part) > MANY_SEATS:
        return None
    solved = solve_within(part, budget, frozenset({"extras"}))
    if not isinstance(solved, Solved) or not solved.proven:
        return None
    return Plan(solved.nodes, solved.victims, (), Proof.FEASIBLE)


def _eligible_nodes(instance: Instance, level: int) -> Positions:
    """Return, by domain of `level` (or ROOT), how many of its nodes are eligible for a pending member, regardless of
    free capacity.
    """
    problem = instance.problem
    eligible = np.zeros(len(problem.nodes), dtype=np.int64)
    for shape in {member.shape for member in pending(problem)}:
        eligible[problem.shapes[shape].positions] = 1
    return instance.tree.summed(level, eligible)


def _at_most(instance: Instance, level: int) -> dict[int, int]:
    """Return, by domain of `level`, an upper bound on the gang's members that the domain can hold, pinned members
    included.
    """
    most = most_members(instance, pending(instance.problem), level)
    pinned = placed_by_domains(instance, level)
    return {domain: int(most[domain]) + pinned[domain] for domain in _open_domains(instance, level)}


def placed_by_domains(instance: Instance, level: int) -> Counter[int]:
    """Return, by domain of `level`, the number of pinned members."""
    return Counter(instance.tree.domain(level, instance.pinned_node(seat)) for seat in instance.pinned)


def _open_domains(instance: Instance, level: int) -> Sequence[int]:
    """Return the domains of `level` that may hold the gang: those with pinned members, or all if no member is
    pinned.
    """
    return sorted(placed_by_domains(instance, level)) or range(instance.tree.count(level))


def inside(instance: Instance, level: int, domain: int) -> Instance:
    """Return the instance in which pending members may only use the nodes of one domain. Raises `OutOfTimeError`."""
    if level == ROOT:
        return instance
    nodes, deadline = frozenset(instance.tree.nodes(level, domain)), instance.deadline
    shapes = tuple(
        replace(shape, nodes=shape.nodes & nodes) for shape in deadline.iterate(instance.problem.shapes, every=8)
    )
    return instance_of(replace(instance.problem, shapes=shapes), evicting=instance.evicting, deadline=deadline)
