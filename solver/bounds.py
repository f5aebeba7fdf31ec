"""What can be said about a problem by counting alone."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solver.problem import Member, Problem

Counts = NDArray[np.int64]
PLENTY = 1 << 40
"""More members than anybody asks for: the capacity for members that ask for nothing."""


def pending(problem: Problem) -> tuple[Member, ...]:
    """The members that have no node yet, in order of set and rank."""
    return tuple(member for pod_set in problem.sets for member in pod_set.members if member.node is None)


def scarcest(problem: Problem) -> int:
    """The resource of which the pending members ask the largest share of what is free (contract section 4, goal 4).

    A resource of which nothing is free counts as infinitely scarce; between equals the first one.
    """
    best, best_share = 0, (False, Fraction(0))
    members = pending(problem)
    for resource in range(len(problem.resources)):
        asked = sum(problem.shapes[member.shape].requests[resource] for member in members)
        free = sum(max(0, node.free[resource]) for node in problem.nodes)
        share = (asked > 0 and free == 0, Fraction(asked, free) if free else Fraction(0))
        if share > best_share:
            best, best_share = resource, share
    return best


def room(problem: Problem, evicting: Iterable[int] = ()) -> Counts:
    """Free amounts per node and resource once the victims at these positions are gone."""
    amounts = np.array([node.free for node in problem.nodes], dtype=np.int64)
    amounts = amounts.reshape(len(problem.nodes), len(problem.resources))
    for position in evicting:
        victim = problem.victims[position]
        amounts[victim.node] += np.array(victim.requests, dtype=np.int64)
    return amounts


def capacities(problem: Problem, amounts: Counts) -> Counts:
    """How many members of each shape each node could hold, were they alone there: shapes x nodes."""
    capacity = np.zeros((len(problem.shapes), len(problem.nodes)), dtype=np.int64)
    for position, shape in enumerate(problem.shapes):
        eligible = sorted(shape.nodes)
        fits = np.full(len(eligible), PLENTY, dtype=np.int64)
        for resource, request in enumerate(shape.requests):
            if request > 0:
                fits = np.minimum(fits, np.maximum(amounts[eligible, resource], 0) // request)
        capacity[position, eligible] = fits
    return capacity


def too_few(problem: Problem, capacity: Counts, amounts: Counts, nodes: list[int]) -> bool:
    """Whether these nodes certainly cannot hold the minimum of the gang, pinned members counted wherever they are.

    A bound by counting: members of a shape beyond its capacity, and members beyond what the least request leaves of
    any resource, cannot be placed.
    """
    held = sum(member.node is not None for pod_set in problem.sets for member in pod_set.members)
    waiting = pending(problem)
    if held + most_members(problem, waiting, capacity, amounts, nodes) < problem.minimum:
        return True
    for pod_set in problem.sets:
        open_members = tuple(member for member in pod_set.members if member.node is None)
        missing = pod_set.minimum - (len(pod_set.members) - len(open_members))
        if most_members(problem, open_members, capacity, amounts, nodes) < missing:
            return True
    return False


def most_members(
    problem: Problem, members: tuple[Member, ...], capacity: Counts, amounts: Counts, nodes: list[int]
) -> int:
    """An upper bound on how many of these members the nodes can hold. `amounts`: room per node and resource."""
    counts = Counter(member.shape for member in members)
    most = sum(min(count, int(capacity[shape, nodes].sum())) for shape, count in counts.items())
    usable = [node for node in nodes if any(capacity[shape, node] for shape in counts)]
    for resource in range(len(problem.resources)):
        least = min((problem.shapes[shape].requests[resource] for shape in counts), default=0)
        if least > 0:
            most = min(most, int((np.maximum(amounts[usable, resource], 0) // least).sum()))
    return most
