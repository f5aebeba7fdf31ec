"""Leave out domains that no most compact plan can use: such a domain and the best other domains together hold too
little.

A bound gives, for each level from the widest on, the fewest domains that can hold the gang. Only domains that can be
part of such a choice of few domains stay, and a plan is sought within them. If the plan meets the bounds, all most
compact plans lie within these domains. If not, the plan's numbers of domains are upper bounds for the next attempt.
"""

from dataclasses import dataclass, replace

import numpy as np

from solver.bounds.domain_cover import Covers, DomainCounts
from solver.cp_sat.lexicographic import TimeBudget
from solver.cp_sat.solve import Solved, solve_within
from solver.instance import Instance, Seat
from solver.objective import goals_of, is_of_level, terms

WORTHWHILE = 12
"""From this number of usable nodes on, the reduction takes less time than it saves."""


@dataclass(frozen=True)
class Compact:
    """An instance over the nodes that its most compact plans can use. `spread`: the values of goal 3 of these plans;
    None: the values are not proven.
    """

    instance: Instance
    spread: DomainCounts | None = None


def compact(instance: Instance, budget: TimeBudget, worthwhile: int = WORTHWHILE) -> Compact:
    """Return an instance of which every member must be placed, without the domains that no most compact plan can use.

    `worthwhile`: the number of usable nodes from which on domains are left out.
    """
    seats = [*instance.pinned, *instance.pending]
    if int(instance.usable.sum()) < worthwhile:
        return Compact(instance)
    chain, bounds = _at_best(instance, seats)
    step = len(bounds) // instance.tree.depth
    depth = instance.tree.depth
    while depth > 0:
        solved = solve_within(chain[depth], budget, terms(counted=True))
        if not isinstance(solved, Solved):
            depth -= 1
            continue
        reached = spread_of(instance, solved)
        asked = (depth - 1) * step + 1
        missed = next((place for place in range(asked) if reached[place] > bounds[place]), None)
        if missed is None:
            return _settled(chain[depth], seats, solved, depth)
        if missed < asked - 1:
            depth = missed // step + 1
            continue
        wide = _keeping(chain[depth - 1], depth - 1, reached[missed], seats)
        solved = solve_within(wide, budget, terms(counted=True))
        if isinstance(solved, Solved):
            return _settled(wide, seats, solved, depth)
        return Compact(wide)
    return Compact(instance)


def _settled(instance: Instance, seats: list[Seat], solved: Solved, depth: int) -> Compact:
    """Return the instance without the domains that no plan as compact as `solved` can use. The first `depth` levels
    stay as they are.
    """
    if not solved.proven:
        return Compact(instance)
    reached = spread_of(instance, solved)
    for level in range(depth, instance.tree.depth):
        instance = _keeping(instance, level, reached[level * (len(reached) // instance.tree.depth)], seats)
    return Compact(instance, reached)


def spread_of(instance: Instance, solved: Solved) -> DomainCounts:
    """Return a plan's values of goal 3: for each level, the number of domains that the plan uses, in the form of
    `DomainCounts`.
    """
    goals = goals_of(instance, solved.nodes, solved.victims)
    return tuple(part for goal in goals if is_of_level(goal.name) for part in goal.digits)


def _at_best(instance: Instance, seats: list[Seat]) -> tuple[list[Instance], DomainCounts]:
    """Return two values: a list of ever smaller instances, and the lower bound on the number of domains of each level.

    The first instance of the list is the whole one. The instance at index n is narrowed on its first n levels. On such
    a level it has only the domains that a plan with the least number of domains can use.
    """
    chain, bounds = [instance], list[int]()
    sets = [[seat for seat in seats if seat.pod_set == position] for position in range(len(instance.problem.sets))]
    filled = [each for each in sets if each]
    for level in range(instance.tree.depth):
        fewest = Covers(chain[-1]).least(level, seats)
        chain.append(_keeping(chain[-1], level, fewest, seats))
        bounds.append(fewest)
        if len(filled) > 1:
            covers = Covers(chain[-1])
            bounds.append(max(fewest, sum(covers.least(level, each) for each in filled)))
    return chain, tuple(bounds)


def _keeping(instance: Instance, level: int, most: int, seats: list[Seat]) -> Instance:
    """Return the instance without the domains of `level` that no plan can use if it uses at most `most` domains of this
    level.
    """
    useful = Covers(instance).useful(level, seats, most)[instance.tree.domains(level)]
    return replace(instance, capacity=np.where(useful, instance.capacity, 0))
