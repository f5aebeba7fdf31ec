"""Nodes without their victims: what could be had there, and whether all of them may really go."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from solver.case import Case
from solver.problem import Problem


def cleared(case: Case) -> Case:
    """The case in which all useful victims have gone already. Whoever has no place there has none at all."""
    return replace(case, useful=())


def all_that_go(problem: Problem, nodes: Iterable[int]) -> tuple[int, ...] | None:
    """The victims that go where all on these nodes do: a gang that is cut below its minimum goes whole. None where
    that is not allowed: by a budget, or because part of such a gang may not be evicted.
    """
    places = frozenset(nodes)
    going = {position for position, victim in enumerate(problem.victims) if victim.node in places}
    cut = Counter(gang for each in going if (gang := problem.victims[each].gang) is not None)
    broken = {gang for gang, count in cut.items() if _falls_short(problem, gang, count)}
    going |= {position for position, victim in enumerate(problem.victims) if victim.gang in broken}
    whole = Counter(problem.victims[each].gang for each in going)
    if any(whole[gang] < problem.victim_gangs[gang].running for gang in broken):
        return None
    if any(len(budget.victims & going) > budget.allowed for budget in problem.budgets):
        return None
    return tuple(sorted(going))


def _falls_short(problem: Problem, gang: int, gone: int) -> bool:
    running = problem.victim_gangs[gang]
    return running.running - gone < running.minimum
