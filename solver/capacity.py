"""Counts that need no search: the members that a problem must place, free amounts, the members that fit on a node, and
the scarcest resource.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solver.problem import Member, Problem
from solver.tree import ROOT

Counts = NDArray[np.int64]
PLENTY = 1 << 40
"""The number of members that fit on a node if they request nothing: more than any problem has."""


def deciding_level(problem: Problem) -> int:
    """Return the gang's required level: one domain of this level must hold the gang. ROOT if the gang has no required
    level.
    """
    return ROOT if problem.required is None else problem.required


def needed_members(problem: Problem) -> int:
    """Return how many members must be placed, pinned members included: the gang's minimum, or the sum of its sets'
    minimums if the sum is larger.
    """
    return max(problem.minimum, sum(pod_set.minimum for pod_set in problem.sets))


def pending(problem: Problem) -> tuple[Member, ...]:
    """Return the members that have no node yet, in order of set and rank. The solver looks for their nodes."""
    return tuple([member for pod_set in problem.sets for member in pod_set.members if member.node is None])


def scarcest(problem: Problem) -> int:
    """Return the resource (its position) of which the pending members request the largest share of the free amount
    (decision 2).

    A requested resource without a free amount is infinitely scarce. Among resources with equal shares, the first is
    returned.
    """
    best, best_share = 0, (False, Fraction(0))
    counts = Counter([member.shape for member in pending(problem)])
    for resource, total in enumerate(np.maximum(problem.nodes.free, 0).sum(axis=0).tolist()):
        asked = sum(count * problem.shapes[shape].requests[resource] for shape, count in counts.items())
        share = (asked > 0 and total == 0, Fraction(asked, total) if total else Fraction(0))
        if share > best_share:
            best, best_share = resource, share
    return best


def room(problem: Problem, evicting: Iterable[int] = ()) -> Counts:
    """Return free amounts, nodes x resources, as if the victims at these positions were evicted."""
    amounts = problem.nodes.free.copy()
    victims = np.fromiter(evicting, dtype=np.int64)
    if len(victims):
        np.add.at(amounts, problem.victims.node[victims], problem.victims.requests[victims])
    return amounts


def fitting(amounts: Counts, request: Counts) -> Counts:
    """Return, by row of `amounts` (rows x resources), how many members with the request `request` fit. The result is
    `PLENTY` if the members request nothing.
    """
    asks = request > 0
    if not asks.any():
        return np.full(len(amounts), PLENTY, dtype=np.int64)
    found: Counts = (np.maximum(amounts[:, asks], 0) // request[asks]).min(axis=1)
    return found


def capacities(problem: Problem, amounts: Counts) -> Counts:
    """Return, shapes x nodes, how many members of a shape fit on a node that gets no other members. 0 if the node is
    not eligible for the shape. `amounts`: the free amounts, nodes x resources.
    """
    capacity = np.zeros((len(problem.shapes), len(problem.nodes)), dtype=np.int64)
    room = np.maximum(amounts, 0)
    for position, shape in enumerate(problem.shapes):
        fits = np.full(len(problem.nodes), PLENTY, dtype=np.int64)
        for resource, request in enumerate(shape.requests):
            if request > 0:
                fits = np.minimum(fits, room[:, resource] // request)
        capacity[position, shape.positions] = fits[shape.positions]
    return capacity


def work(problem: Problem) -> int:
    """Return a measure of the effort of a search for a plan: the number of members times the number of nodes."""
    return sum(len(pod_set.members) for pod_set in problem.sets) * len(problem.nodes)
