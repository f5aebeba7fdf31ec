"""Nodes without their victims: what could be had there, and whether all of them may really go."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from solver.case import Case
from solver.problem import Problem


def cleared(case: Case) -> Case:
    """The case in which all useful victims have gone already. Whoever has no place there has none at all."""
    return replace(case, useful=())


def all_that_go(problem: Problem, nodes: Iterable[int]) -> tuple[int, ...] | None:
    """The victims that go where all on these nodes do: a gang that is cut below its minimum goes whole. None where
    that is not allowed: by a budget, or because part of such a gang may not be evicted.
    """
    places = np.zeros(len(problem.nodes), dtype=np.bool_)
    places[list(nodes)] = True
    gang_of = problem.victims.gang
    cut = Counter(gang_of[places[problem.victims.node] & (gang_of >= 0)].tolist())
    broken = [gang for gang, count in cut.items() if _falls_short(problem, gang, count)]
    going = places[problem.victims.node] | np.isin(gang_of, broken)
    whole = Counter(gang_of[going].tolist())
    if any(whole[gang] < problem.victim_gangs[gang].running for gang in broken):
        return None
    if any(going[list(budget.victims)].sum() > budget.allowed for budget in problem.budgets):
        return None
    return tuple(np.flatnonzero(going).tolist())


def _falls_short(problem: Problem, gang: int, gone: int) -> bool:
    running = problem.victim_gangs[gang]
    return running.running - gone < running.minimum
