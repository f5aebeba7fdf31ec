"""Solving a case by CP-SAT: all goals in order, then the names."""

from dataclasses import dataclass

from solver import goals
from solver.case import Case
from solver.model import Model, alike, each_alone, model_of
from solver.naming import name_nodes
from solver.problem import Limits
from solver.scoring import Nodes
from solver.search import Budget, Found, Reached, Search, budget_of
from solver.victim_ties import prefer_first_keys, prefer_started_last

ALL_GOALS = frozenset(
    (
        "victims",
        "gangs_broken",
        "evicted",
        "extras",
        "lowest_ranks",
        "compactness",
        "preferences",
        "waste",
        "ranks",
        "terminating",
        "started",
        "names",
        "keys",
    )
)
_PHASES: tuple[tuple[goals.GoalStages, ...], ...] = (
    (goals.victims, goals.gangs_broken, goals.evicted),
    (goals.extras,),
    (goals.lowest_ranks,),
    (goals.compactness, goals.preferences),
    (goals.waste, goals.ranks, goals.terminating),
)
"""Goals that can be stated at the same time; the next phase depends on what the one before came to."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The best placement of a case: nodes by set and rank, victims, how far each stage is proven."""

    nodes: Nodes
    victims: tuple[int, ...]
    reached: tuple[Reached, ...]
    proven: bool


def solve_model(case: Case, limits: Limits, wanted: frozenset[str] = ALL_GOALS) -> Solved | Found:
    """The best placement; `Found.NONE` where there is none, confirmed, and `Found.UNKNOWN` where time ran out.

    `wanted`: goals to be heeded, by the names of their functions.
    """
    return solve_within(case, budget_of(limits), wanted)


def solve_within(case: Case, budget: Budget, wanted: frozenset[str] = ALL_GOALS) -> Solved | Found:
    """As `solve_model`, within a budget that others share."""
    model = model_of(case, alike(case) or each_alone(case))
    search = Search(model.cp, budget, linearization=2)
    found = search.any_solution()
    if found is Found.NONE:
        return _confirmed(case, budget)
    if found is Found.UNKNOWN:
        return found
    for phase in _PHASES:
        stated = (goal(model, search.solution) for goal in phase if goal.__name__ in wanted)
        search.minimise(stage for stages in stated for stage in stages)
    if "started" in wanted:
        prefer_started_last(model, search)
    nodes = _named(model, search, wanted)
    if "keys" in wanted:
        prefer_first_keys(model, search)
    victims = tuple(victim for victim, flag in sorted(model.evict.items()) if search.solution[flag.index])
    return Solved(nodes, victims, tuple(search.reached), search.proven)


def _confirmed(case: Case, budget: Budget) -> Found:
    """A second look, without presolve: CP-SAT 9.15 has called feasible models infeasible (google/or-tools#5274),
    without presolve it has not.
    """
    model = model_of(case, alike(case) or each_alone(case))
    search = Search(model.cp, budget, linearization=0, presolve=False)
    found = search.any_solution()
    return Found.NONE if found is Found.NONE else Found.UNKNOWN


def _named(model: Model, search: Search, wanted: frozenset[str]) -> Nodes:
    by_name = "names" in wanted
    if goals.apart(model):
        if by_name:
            search.minimise(goals.names(model, search.solution))
        rows = [sorted(search_nodes(model, search, kind)) for kind in range(len(model.kinds))]
    else:
        rows = name_nodes(model, search, by_name=by_name)
    problem = model.case.problem
    nodes: list[list[int | None]] = [[member.node for member in pod_set.members] for pod_set in problem.sets]
    for kind, row in zip(model.kinds, rows, strict=True):
        for rank, node in zip(kind.ranks, row, strict=False):
            nodes[kind.pod_set][rank] = node
    return tuple(map(tuple, nodes))


def search_nodes(model: Model, search: Search, kind: int) -> list[int]:
    """The nodes that a kind is on in the present solution."""
    return [node for node, variable in model.seats[kind].items() if search.solution[variable.index]]
