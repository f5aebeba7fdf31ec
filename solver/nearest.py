"""How near a gang came: what each domain can hold, and what excludes the nodes of the nearest ones."""

from collections import Counter
from dataclasses import replace

from solver.bounds import Counts, capacities, pending, room
from solver.case import Case, case_of
from solver.covers import most_members
from solver.modelling import Solved, solve_within
from solver.plan import NearDomain
from solver.problem import Problem
from solver.search import Budget
from solver.tallying import members_by_domain
from solver.tree import ROOT

SHOWN = 5
"""How many near domains are told."""
_EXACT = 40
"""Up to how many domains are filled by CP-SAT, where counting alone cannot tell what they hold."""


def deciding_level(problem: Problem) -> int:
    """The level of which one domain must hold the gang; ROOT where any nodes will do."""
    return ROOT if problem.required is None else problem.required


def needed_members(problem: Problem) -> int:
    """How many members must be placed."""
    return max(problem.minimum, sum(pod_set.minimum for pod_set in problem.sets))


def held_by_domains(problem: Problem, budget: Budget, *, evicting: bool) -> dict[int, int]:
    """How many members each domain of the deciding level can hold, pinned ones there included; minimums aside."""
    loose = _without_minimums(problem)
    level = deciding_level(problem)
    case = case_of(loose, evicting=False)
    if evicting and problem.victims:
        counted = None if problem.victim_gangs or problem.budgets else members_by_domain(_all_gone(loose), level)
    else:
        counted = members_by_domain(case, level)
    if counted is not None:
        return {domain: counted.get(domain, 0) for domain in range(case.tree.count(level))}
    return _filled(loose, case, level, budget, evicting=evicting)


def near_domains(problem: Problem, budget: Budget, *, refused: bool = True) -> tuple[NearDomain, ...]:
    """The domains that miss the fewest members, with everything evicted that may be. `refused`: that no plan exists
    is proven, so that none holds all that are needed, even if as many fit that are not the right ones of each set.
    """
    case = case_of(problem, evicting=True)
    level, needed = deciding_level(problem), needed_members(problem)
    held = held_by_domains(problem, budget, evicting=True)
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


def _all_gone(problem: Problem) -> Case:
    """The case in which every victim has gone already."""
    amounts = room(problem, range(len(problem.victims)))
    nodes = tuple(replace(node, free=tuple(amounts[position].tolist())) for position, node in enumerate(problem.nodes))
    return case_of(replace(problem, nodes=nodes, victims=()), evicting=False)


def _filled(loose: Problem, case: Case, level: int, budget: Budget, *, evicting: bool) -> dict[int, int]:
    """Fill the most promising domains by CP-SAT; the others, and where time runs out, an upper bound by counting."""
    whole = case_of(loose, evicting=evicting)
    held = _at_most(whole, level)
    promising = sorted(held, key=lambda domain: (-held[domain], domain))[:_EXACT]
    for domain in promising:
        inside = _inside(loose, whole, level, domain, evicting=evicting)
        solved = solve_within(inside, budget.portion(1 / _EXACT), frozenset({"extras"}))
        if isinstance(solved, Solved) and solved.proven:
            nodes = set(case.tree.nodes(level, domain))
            held[domain] = sum(node in nodes for row in solved.nodes for node in row)
    return held


def _at_most(case: Case, level: int) -> dict[int, int]:
    """An upper bound for every domain, pinned members there included."""
    most = most_members(case, pending(case.problem), level)
    pinned = Counter(case.tree.domain(level, case.pinned_node(seat)) for seat in case.pinned)
    return {domain: count + pinned[domain] for domain, count in enumerate(most.tolist())}


def _inside(loose: Problem, case: Case, level: int, domain: int, *, evicting: bool) -> Case:
    """The case in which pending members may only run in one domain."""
    nodes = frozenset(case.tree.nodes(level, domain))
    shapes = tuple(replace(shape, nodes=shape.nodes & nodes) for shape in loose.shapes)
    return case_of(replace(loose, shapes=shapes), evicting=evicting)


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
