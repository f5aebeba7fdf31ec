"""What can be said about a problem by counting alone."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solver.problem import Member, Problem
from solver.tree import ROOT

Counts = NDArray[np.int64]
PLENTY = 1 << 40
"""More members than anybody asks for: the capacity for members that ask for nothing."""


def deciding_level(problem: Problem) -> int:
    """The level of which one domain must hold the gang; ROOT where any nodes will do."""
    return ROOT if problem.required is None else problem.required


def needed_members(problem: Problem) -> int:
    """How many members must be placed, those included that have a node already."""
    return max(problem.minimum, sum(pod_set.minimum for pod_set in problem.sets))


def pending(problem: Problem) -> tuple[Member, ...]:
    """The members that have no node yet, in order of set and rank."""
    return tuple([member for pod_set in problem.sets for member in pod_set.members if member.node is None])


def scarcest(problem: Problem) -> int:
    """The resource of which the pending members ask the largest share of what is free (decision 2).

    What is wholly taken is infinitely scarce; between equals the first one.
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
    """Free amounts per node and resource once the victims at these positions are gone."""
    amounts = problem.nodes.free.copy()
    victims = np.fromiter(evicting, dtype=np.int64)
    if len(victims):
        np.add.at(amounts, problem.victims.node[victims], problem.victims.requests[victims])
    return amounts


def fitting(amounts: Counts, request: Counts) -> Counts:
    """For how many members with this request each row of amounts has room."""
    asks = request > 0
    if not asks.any():
        return np.full(len(amounts), PLENTY, dtype=np.int64)
    found: Counts = (np.maximum(amounts[:, asks], 0) // request[asks]).min(axis=1)
    return found


def capacities(problem: Problem, amounts: Counts) -> Counts:
    """How many members of each shape each node could hold, were they alone there: shapes x nodes."""
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
    """A measure of what looking for a plan takes."""
    return sum(len(pod_set.members) for pod_set in problem.sets) * len(problem.nodes)
