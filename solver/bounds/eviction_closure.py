"""Victims that must be evicted together: running gangs that are cut below their minimum are evicted whole."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from solver.instance import Instance
from solver.problem import Problem, VictimTable


def cleared(instance: Instance) -> Instance:
    """Return the instance as if all useful victims were gone already. If the gang has no plan in the result, the gang
    has no plan in `instance` either.
    """
    return replace(instance, useful=())


def closure_of_nodes(problem: Problem, nodes: Iterable[int]) -> tuple[int, ...] | None:
    """Return the victims that must be evicted if all victims on `nodes` are evicted, and all victims that conflict with
    members on `nodes`.

    A gang that the evictions cut below its minimum is evicted whole. None if these evictions are not allowed: a
    disruption budget forbids them, or some pods of a broken gang may not be evicted. None also if members may have pod
    affinity to victims, or a topology spread constraint counts victims.
    """
    stay = [rule.victims for rule in problem.affinities] + [rule.victims for rule in problem.spreads]
    if any(stay):
        return None
    # places: flags by node, whether the node is among `nodes`. going: flags by victim, whether the victim must be
    # evicted. One pass over the running gangs is enough: the other victims of a broken gang are on other nodes, and
    # their eviction breaks no further gang.
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
    """Return, by running gang, how many of its members are among the victims `gone`. Gangs without such a member have
    no entry.
    """
    gangs = victims.gang[list(gone)]
    return Counter(gangs[gangs >= 0].tolist())


def gangs_broken(problem: Problem, gone: Iterable[int]) -> list[int]:
    """Return the running gangs that are below a minimum once the victims `gone` are evicted."""
    victims = frozenset(gone)
    cut = gangs_cut(problem.victims, victims)
    return [gang for gang, count in cut.items() if problem.victim_gangs[gang].falls_short(victims, count)]
