"""Nodes without their victims: what could be had there, and whether all of them may really go with their gangs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from solver.instance import Instance
from solver.problem import Problem, VictimTable


def cleared(instance: Instance) -> Instance:
    """The instance in which all useful victims have gone already. Whoever has no place there has none at all."""
    return replace(instance, useful=())


def all_that_go(problem: Problem, nodes: Iterable[int]) -> tuple[int, ...] | None:
    """The victims that go where all on these nodes do, and all in anybody's way there: a gang that is cut below its
    minimum goes whole. None where that is not allowed: by a budget, because part of such a gang may not be evicted, or
    because members may want somebody to stay.
    """
    stay = [rule.victims for rule in problem.affinities] + [rule.victims for rule in problem.spreads]
    if any(stay):
        return None
    # places: nodes, going: victims, both as flags. Invariant: whoever is flagged must go. Gangs are looked at once:
    # the rest of a broken gang is on other nodes, and breaks no other gang.
    places = np.zeros(len(problem.nodes), dtype=np.bool_)
    places[list(nodes)] = True
    going = places[problem.victims.node]
    for rule in problem.conflicts:
        if places[list(rule.nodes)].any():
            going[list(rule.victims)] = True
    gang_of = problem.victims.gang
    broken = gangs_broken(problem, np.flatnonzero(going).tolist())
    going |= np.isin(gang_of, broken)
    going_of_gang = Counter(gang_of[going].tolist())
    if any(going_of_gang[gang] < problem.victim_gangs[gang].running for gang in broken):
        return None
    if any(going[list(budget.victims)].sum() > budget.allowed for budget in problem.budgets):
        return None
    return tuple(np.flatnonzero(going).tolist())


def gangs_cut(victims: VictimTable, gone: Iterable[int]) -> Counter[int]:
    """How many of each gang are among these victims."""
    gangs = victims.gang[list(gone)]
    return Counter(gangs[gangs >= 0].tolist())


def gangs_broken(problem: Problem, gone: Iterable[int]) -> list[int]:
    """The gangs of which too few remain without these victims."""
    victims = frozenset(gone)
    cut = gangs_cut(problem.victims, victims)
    return [gang for gang, count in cut.items() if problem.victim_gangs[gang].falls_short(victims, count)]
