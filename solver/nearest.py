"""How near a gang came: what each domain can hold, and what excludes the nodes of the nearest ones."""

from collections import Counter
from dataclasses import replace

import numpy as np

from solver.bounds import Counts, capacities, pending, room
from solver.case import Case, case_of
from solver.clearing import all_that_go, cleared
from solver.covers import most_members
from solver.modelling import Solved, seat_count, solve_within
from solver.plan import NearDomain
from solver.problem import Problem
from solver.search import Budget
from solver.tallying import members_by_domain
from solver.tree import ROOT

SHOWN = 5
"""How many near domains are told."""
MANY_SEATS = 8_000
"""Variables beyond which an explanation is not worth a model."""
_EXACT = 8
"""Up to how many domains are filled by CP-SAT, where counting alone cannot tell what they hold."""


def deciding_level(problem: Problem) -> int:
    """The level of which one domain must hold the gang; ROOT where any nodes will do."""
    return ROOT if problem.required is None else problem.required


def needed_members(problem: Problem) -> int:
    """How many members must be placed."""
    return max(problem.minimum, sum(pod_set.minimum for pod_set in problem.sets))


def held_by_domains(problem: Problem, budget: Budget) -> dict[int, int]:
    """How many members each domain of the deciding level can hold without evictions, pinned ones there included;
    minimums aside.
    """
    case = case_of(_without_minimums(problem), evicting=False)
    level = deciding_level(problem)
    counted = members_by_domain(case, level)
    if counted is not None:
        return {domain: counted.get(domain, 0) for domain in range(case.tree.count(level))}
    return _filled(case, level, _at_most(case, level), budget, enough=case.tree.count(level))


def near_domains(
    problem: Problem, budget: Budget, held: dict[int, int] | None = None, *, refused: bool = True
) -> tuple[NearDomain, ...]:
    """The domains that miss the fewest members, with everything evicted that may be. `held`: how many each holds, where
    that is known. `refused`: that no plan exists is proven, so that none holds all that are needed, even if as many fit
    that are not the right ones of each set.
    """
    case = case_of(problem, evicting=True)
    level, needed = deciding_level(problem), needed_members(problem)
    if held is None:
        held = _held_when_cleared(case_of(_without_minimums(problem), evicting=True), level, budget)
    nearest = sorted(held, key=lambda domain: (-held[domain], domain))[:SHOWN]
    return tuple(
        NearDomain(
            level="" if level == ROOT else problem.levels[level],
            path=() if level == ROOT else case.tree.paths[level][domain],
            fits=min(held[domain], needed - 1) if refused else held[domain],
            needed=needed,
            nodes=len(case.tree.nodes(level, domain)),
            excluded=_excluded(case, case.tree.nodes(level, domain)),
        )
        for domain in nearest
    )


def _without_minimums(problem: Problem) -> Problem:
    sets = tuple(replace(pod_set, minimum=0) for pod_set in problem.sets)
    return replace(problem, sets=sets, minimum=0, required=None)


def _held_when_cleared(case: Case, level: int, budget: Budget) -> dict[int, int]:
    """How many members the domains that hold the most can hold at best; of the others, an upper bound."""
    counted = members_by_domain(cleared(case), level)
    if counted is None:
        return _filled(case, level, _at_most(case, level), budget, enough=SHOWN)
    most = {domain: counted.get(domain, 0) for domain in range(case.tree.count(level))}
    return _filled(case, level, most, budget, enough=SHOWN, counted=True) if case.evicting else most


def _filled(
    case: Case, level: int, most: dict[int, int], budget: Budget, *, enough: int, counted: bool = False
) -> dict[int, int]:
    """What the domains hold, given at `most` how many: the most promising are looked at until `enough` are known to
    hold more than any other. `counted`: `most` is what they hold where all victims there may go.
    """
    held = dict(most)
    known: list[int] = []
    for domain in sorted(most, key=lambda each: (-most[each], each))[:_EXACT]:
        if len(known) >= enough and sorted(known)[-enough] > most[domain]:
            break
        if not (counted and _may_be_cleared(case, level, domain)):
            held[domain] = _filled_one(case, level, domain, budget.portion(1 / _EXACT), otherwise=most[domain])
        known.append(held[domain])
    return held


def _may_be_cleared(case: Case, level: int, domain: int) -> bool:
    """Whether all victims may go from the nodes of a domain that can hold a member."""
    usable = set(np.flatnonzero(case.capacity.max(axis=0, initial=0)).tolist())
    return all_that_go(case.problem, usable.intersection(case.tree.nodes(level, domain))) is not None


def _filled_one(case: Case, level: int, domain: int, budget: Budget, *, otherwise: int) -> int:
    """What CP-SAT puts into one domain; `otherwise` where it is not asked or not sure."""
    part = inside(case, level, domain)
    if seat_count(part) > MANY_SEATS:
        return otherwise
    solved = solve_within(part, budget, frozenset({"extras"}))
    if not isinstance(solved, Solved) or not solved.proven:
        return otherwise
    nodes = set(case.tree.nodes(level, domain))
    return sum(node in nodes for row in solved.nodes for node in row)


def _at_most(case: Case, level: int) -> dict[int, int]:
    """An upper bound for every domain, pinned members there included."""
    most = most_members(case, pending(case.problem), level)
    pinned = Counter(case.tree.domain(level, case.pinned_node(seat)) for seat in case.pinned)
    return {domain: count + pinned[domain] for domain, count in enumerate(most.tolist())}


def inside(case: Case, level: int, domain: int) -> Case:
    """The case in which pending members may only run in one domain."""
    nodes = frozenset(case.tree.nodes(level, domain))
    shapes = tuple(replace(shape, nodes=shape.nodes & nodes) for shape in case.problem.shapes)
    return case_of(replace(case.problem, shapes=shapes), evicting=case.evicting)


def _excluded(case: Case, nodes: tuple[int, ...]) -> dict[str, int]:
    """Why nodes can hold no member at all, each node counted once; the most frequent reason first."""
    problem = case.problem
    shapes = list(dict.fromkeys(member.shape for member in pending(problem)))
    amounts = room(problem, _evictable(case))
    capacity = capacities(problem, amounts)
    reasons = Counter(
        _reason(case, shapes, amounts, node) for node in nodes if not any(capacity[shape, node] for shape in shapes)
    )
    return dict(sorted(reasons.items(), key=lambda each: (-each[1], each[0])))


def _evictable(case: Case) -> list[int]:
    """Victims that no budget forbids altogether."""
    kept = frozenset[int]().union(*(budget.victims for budget in case.problem.budgets if budget.allowed <= 0))
    return [victim for victim in case.useful if victim not in kept]


def _reason(case: Case, shapes: list[int], amounts: Counts, node: int) -> str:
    """The first shape that may run there tells which resource is short, the gang's scarcest first."""
    problem = case.problem
    for shape in (problem.shapes[each] for each in shapes):
        if node not in shape.nodes:
            continue
        others = [each for each in range(len(problem.resources)) if each != case.scarce]
        short = [each for each in (case.scarce, *others) if 0 < shape.requests[each] > amounts[node, each]]
        return _short_of(problem.resources[short[0]])
    reasons = [problem.shapes[each].excluded.get(node, "not eligible") for each in shapes]
    return reasons[0] if reasons else "not eligible"


def _short_of(resource: str) -> str:
    """As kube-scheduler words it (noderesources/fit.go)."""
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"
