"""Lower bounds on the price of victims for the first, second, ... member on each node. One additional member is a slot.

The input is the requests and prices of the victims. The result is a table, nodes x members. All arrays are computed for
many nodes with equally many victims at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.capacity import Counts
from solver.instance import Instance

INFEASIBLE_SLOT = 1 << 62
"""The cost of a slot for which no victims free enough, and the price of a victim that cannot be evicted.

It is never added to another cost. Feasible prices have at most 59 bits (`lower_bounds`), so that a sum of them stays
below it.
"""
_SUBSETS = 8
"""The most victims of one node of which all combinations are tried. For more, a weaker bound is used."""
_BATCH = 512
"""The number of nodes in one batch."""


@dataclass(frozen=True)
class PaidVictims:
    """Victims as parallel arrays, one row for each. `node`: the victim's node. `held`: victims x resources, its
    requests. `paid`: its price; `INFEASIBLE_SLOT`: it cannot be evicted.
    """

    node: Counts
    held: Counts
    paid: Counts


def slot_costs(instance: Instance, victims: PaidVictims, most: int) -> Counts:
    """Return, nodes x members, a lower bound on the additional price of victims for each further member on a node.

    `most`: the number of columns, the most members on one node. A lower bound for n members is computed for each n by
    itself. Its lower convex hull gives the costs of single members. These sum up to a lower bound for any division of
    members among nodes. Raises `OutOfTimeError`.
    """
    return _marginal(_totals(instance, victims, most))


def most_on_a_node(instance: Instance) -> int:
    """Return an upper bound on the number of members on any node, once all victims are gone: how often the smallest
    request of every resource fits.
    """
    # amounts: nodes x resources; fitting: nodes, the minimum over the requested resources.
    least = _least_requests(instance)
    asked = np.flatnonzero(least > 0)
    fitting = (np.maximum(instance.amounts[:, asked], 0) // least[asked]).min(axis=1, initial=len(instance.pending))
    return int(np.where(instance.usable, fitting, 0).max(initial=0))


def _totals(instance: Instance, victims: PaidVictims, most: int) -> Counts:
    """Return, nodes x (`most` + 1), a lower bound on the price of the victims that must be evicted so that 0, 1, ...
    members fit on a node.

    Each number of members is bounded separately, so the bounds of one node need not be convex.
    """
    problem = instance.problem
    least = _least_requests(instance)
    free = problem.nodes.free
    totals = np.full((len(problem.nodes), most + 1), INFEASIBLE_SLOT, dtype=np.int64)
    totals[:, 0] = 0
    # asked: members x resources, the requests of 1, 2, ... members together. missing, below: nodes of the batch x
    # members x resources, what evictions must free.
    asked = np.arange(1, most + 1, dtype=np.int64)[:, None] * least
    may_go = np.flatnonzero(instance.usable[victims.node] & (victims.paid < INFEASIBLE_SLOT))
    may_go = may_go[np.argsort(victims.node[may_go], kind="stable")]
    for nodes, first in instance.deadline.iterate(_batches(instance.usable, victims.node[may_go]), every=4):
        places = may_go[first]
        held, prices = victims.held[places], victims.paid[places]
        missing = np.where(least > 0, asked - free[nodes][:, None], 0)
        exact = held.shape[1] <= _SUBSETS
        totals[nodes, 1:] = (_cheapest if exact else _cheapest_at_least)(held, prices, missing)
    return totals


def _least_requests(instance: Instance) -> Counts:
    """Return, by resource, the smallest request of a pending member."""
    shapes = {instance.member(seat).shape for seat in instance.pending}
    requests = np.array([instance.problem.shapes[shape].requests for shape in sorted(shapes)], dtype=np.int64)
    least: Counts = requests.min(axis=0)
    return least


def _batches(usable: NDArray[np.bool_], on: Counts) -> Iterator[tuple[Counts, Counts]]:
    """Yield usable nodes in batches, so that arrays are computed for many nodes at once. All nodes of a batch have
    equally many victims.

    Each item is a pair: the nodes of the batch, and an array (nodes x victims) with the positions of their victims.
    `on`: the node of each victim, ascending.
    """
    counts = np.bincount(on, minlength=len(usable))
    starts = np.cumsum(counts) - counts
    for count in np.unique(counts[usable]).tolist():
        nodes = np.flatnonzero(usable & (counts == count))
        for first in range(0, len(nodes), _BATCH):
            batch = nodes[first : first + _BATCH]
            yield batch, starts[batch][:, None] + np.arange(count)


def _cheapest(held: Counts, paid: Counts, missing: Counts) -> Counts:
    """Return, nodes x members, the price of the cheapest victims that free enough for so many members. All combinations
    of the victims on a node are tried.

    `held[node, victim, resource]`: requests. `paid[node, victim]`: prices. `missing[node, members, resource]`: what
    must be freed.
    """
    count = held.shape[1]
    # Every subset of the victims is tried: chosen is subsets x victims (0 or 1), freed is nodes x subsets x resources,
    # price is nodes x subsets. That is only possible for few victims (`_SUBSETS`).
    chosen = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    freed = chosen @ held
    price = paid @ chosen.T
    found = np.full(missing.shape[:2], INFEASIBLE_SLOT, dtype=np.int64)
    for members in range(missing.shape[1]):
        enough = (freed >= missing[:, None, members]).all(axis=2)
        found[:, members] = np.where(enough, price, INFEASIBLE_SLOT).min(axis=1)
    return found


def _cheapest_at_least(held: Counts, paid: Counts, missing: Counts) -> Counts:
    """Return, nodes x members, a lower bound on the price of the cheapest victims that free enough.

    A node needs as many victims as would suffice if each were the largest in its resource, and each is priced as the
    cheapest. If some victims are necessary because all others free too little, the bound is at least their price.
    `held[node, victim, resource]`: requests. `paid[node, victim]`: prices. `missing[node, members, resource]`: what
    must be freed.
    """
    # freed[node, k, resource]: the requests of the k + 1 victims with the largest ones. others[node, victim, resource]:
    # the requests of all other victims. price[node, k]: the price of the k cheapest. This is a lower bound: fewer
    # victims free too little of some resource, and no k victims are cheaper.
    freed = np.cumsum(-np.sort(-held, axis=1), axis=1)
    others = freed[:, -1:, :] - held
    price = np.concatenate([np.zeros((len(paid), 1), dtype=np.int64), np.cumsum(np.sort(paid, axis=1), axis=1)], axis=1)
    found = np.full(missing.shape[:2], INFEASIBLE_SLOT, dtype=np.int64)
    for members in range(missing.shape[1]):
        short = freed < missing[:, None, members]
        victims = np.where(missing[:, members] > 0, short.sum(axis=1) + 1, 0).max(axis=1)
        possible = victims <= held.shape[1]
        forced = ((others < missing[:, None, members]) & (missing[:, None, members] > 0)).any(axis=2)
        least = np.where(forced, paid, 0).sum(axis=1)[possible]
        found[possible, members] = np.maximum(least, price[np.flatnonzero(possible), victims[possible]])
    return found


def _marginal(totals: Counts) -> Counts:
    """Return, nodes x members, the additional cost of each further member on a node, along the lower convex hull of
    `totals`, rounded down.

    totals: nodes x (members + 1), slots: nodes x members. For every n, slots[:n].sum() <= totals[n], and slots never
    decrease along a row. So the n cheapest slots of any nodes are a lower bound for n members on these nodes, however
    they are divided. A knapsack with convex costs is solved by taking the cheapest slots.
    """
    nodes, most = totals.shape[0], totals.shape[1] - 1
    slots = np.full((nodes, most), INFEASIBLE_SLOT, dtype=np.int64)
    counts = np.arange(most + 1)
    at, rows = np.zeros(nodes, dtype=np.int64), np.arange(nodes)
    while True:
        steps = counts - at[:, None]
        gain = totals - totals[rows, at][:, None]
        slope = np.where((steps > 0) & (totals < INFEASIBLE_SLOT), gain // np.maximum(steps, 1), INFEASIBLE_SLOT)
        best = slope.min(axis=1)
        to = most - slope[:, ::-1].argmin(axis=1)
        moved = best < INFEASIBLE_SLOT
        if not moved.any():
            return slots
        inside = (counts[1:] > at[:, None]) & (counts[1:] <= to[:, None]) & moved[:, None]
        slots = np.where(inside, best[:, None], slots)
        at = np.where(moved, to, at)
