"""A problem with values derived from it, such as capacities. They are computed once and read by every step of a
solve.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.capacity import PLENTY, Counts, capacities, room, scarcest
from solver.deadline import NO_DEADLINE, Deadline
from solver.problem import Member, Problem, Spread
from solver.tree import ROOT, Tree, tree_of


class Seat(NamedTuple):
    """The identity of a member in a problem: its pod set, by position, and its rank in this set."""

    pod_set: int
    rank: int


@dataclass(frozen=True)
class Instance:
    """A problem with derived values, either with evictions or without.

    `scarce`: the position of the scarcest resource. `useful`: victims whose eviction can help (none without evictions).
    `amounts[node, resource]`: the free amounts if all useful victims are gone. `capacity[shape, node]`: how many
    members of a shape fit into these amounts. `potential[node]`: how much of the scarcest resource the gang could use
    on the node; 0 if no pending member can run on it. `name_rank[node]`: the node's place in natural order of names.
    `pending`: members without a node. `pinned`: members that have a node already. `deadline`: when all work on the
    instance must end.
    """

    problem: Problem
    tree: Tree
    scarce: int
    useful: tuple[int, ...]
    capacity: Counts
    potential: tuple[int, ...]
    name_rank: tuple[int, ...]
    pending: tuple[Seat, ...]
    pinned: tuple[Seat, ...]
    amounts: Counts
    deadline: Deadline = NO_DEADLINE

    @property
    def evicting(self) -> bool:
        """Whether the instance allows evictions and has a victim whose eviction can help the gang."""
        return bool(self.useful)

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """By node, whether at least one pending member fits on it. If the instance allows evictions, the useful victims
        count as evicted.
        """
        usable: NDArray[np.bool_] = self.capacity.max(axis=0, initial=0) > 0
        return usable

    @cached_property
    def usable_amounts(self) -> Counts:
        """The free amounts, nodes x resources. Negative amounts are 0, and so are all amounts of nodes that can hold no
        pending member.
        """
        return np.where(self.usable[:, None], np.maximum(self.amounts, 0), 0)

    def eligible(self, shape: int) -> frozenset[int]:
        """Return the nodes that members of a shape may use, regardless of free capacity. Without evictions, nodes on
        which a victim would have to be evicted first are left out.
        """
        nodes = self.problem.shapes[shape].nodes
        return nodes if self.evicting else nodes - blocked_nodes(self.problem, shape)

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """The topology spread constraints that depend on which members are placed or which victims are evicted."""
        return self.problem.spreads if self.evicting else tuple(rule for rule in self.problem.spreads if rule.counted)

    def member(self, seat: Seat) -> Member:
        """Return the member with this set and rank."""
        return self.problem.sets[seat.pod_set].members[seat.rank]

    def request(self, seat: Seat) -> int:
        """Return the member's request of the scarcest resource."""
        return self.problem.shapes[self.member(seat).shape].requests[self.scarce]

    def pinned_node(self, seat: Seat) -> int:
        """Return the node of a pinned member. Raises `ValueError` for a member without a node."""
        node = self.member(seat).node
        if node is None:
            raise ValueError("this member is not pinned")
        return node

    def domain_potential(self, level: int, domain: int) -> int:
        """Return the summed potential of a domain's nodes: how much of the scarcest resource the gang could use
        there.
        """
        return self.potentials[level + 1][domain]

    @cached_property
    def potentials(self) -> tuple[tuple[int, ...], ...]:
        """By level, ROOT first, the summed potential of every domain: `potentials[level + 1][domain]`, because ROOT is
        -1.
        """
        each = np.array(self.potential, dtype=np.int64)
        return tuple(tuple(self.tree.summed(level, each).tolist()) for level in range(ROOT, self.tree.depth))

    def parents(self, level: int, node: int) -> tuple[tuple[int, int], ...]:
        """Return the domains that contain a node on all levels wider than `level`, as pairs of level and domain. The
        pairs begin with the next wider level and end with ROOT, the whole cluster.
        """
        return tuple((each, self.tree.domain(each, node)) for each in range(level - 1, ROOT - 1, -1))


def instance_of(
    problem: Problem, *, evicting: bool, scarce: int | None = None, deadline: Deadline = NO_DEADLINE
) -> Instance:
    """Compute the instance of a problem. `evicting`: whether victims may be evicted; False: as if no pod could be
    evicted.

    `scarce`: the position of the scarcest resource, if it was computed from another problem; None: it is computed from
    this problem.
    """
    seats = [
        (Seat(set_position, rank), member)
        for set_position, pod_set in enumerate(problem.sets)
        for rank, member in enumerate(pod_set.members)
    ]
    pinned = [seat for seat, member in seats if member.node is not None]
    waiting = [seat for seat, member in seats if member.node is None]
    usable = np.zeros(len(problem.nodes), dtype=np.bool_)
    for shape in {member.shape for _, member in seats if member.node is None}:
        usable[_usable(problem, shape, evicting=evicting)] = True
    useful = useful_victims(problem, usable) if evicting else ()
    amounts = room(problem, useful)
    scarce = scarcest(problem) if scarce is None else scarce
    tree = tree_of(problem.nodes, len(problem.levels))
    return Instance(
        problem=problem,
        tree=tree,
        scarce=scarce,
        useful=useful,
        capacity=_capacity(problem, amounts, evicting=evicting).clip(max=min(PLENTY, len(waiting))),
        potential=tuple(np.where(usable, np.maximum(amounts[:, scarce], 0), 0).tolist()),
        name_rank=tree.name_rank,
        pending=tuple(waiting),
        pinned=tuple(pinned),
        amounts=amounts,
        deadline=deadline,
    )


def blocked_nodes(problem: Problem, shape: int) -> frozenset[int]:
    """Return the nodes that a shape may use only after an eviction. On such a node a victim conflicts with the shape,
    or the node's group has too many pods for a topology spread constraint.
    """
    conflicts = (rule.nodes for rule in problem.conflicts if shape in rule.shapes)
    spreads = (_too_full(rule) for rule in problem.spreads if shape in rule.shapes and not rule.counted)
    return frozenset[int]().union(*conflicts, *spreads)


def _too_full(spread: Spread) -> frozenset[int]:
    """Return the nodes of groups that have more pods than `maxSkew` (`skew`) allows, even if no member is placed and no
    victim is evicted.
    """
    least = 0 if spread.from_zero else min(spread.counts.values(), default=0)
    full = {name for name, count in spread.counts.items() if count - least > spread.skew}
    return frozenset(node for node, name in enumerate(spread.group) if name in full)


def _usable(problem: Problem, shape: int, *, evicting: bool) -> Counts:
    """Return the positions of a shape's eligible nodes. `evicting` False: without nodes on which a victim would have to
    be evicted first.
    """
    positions = problem.shapes[shape].positions
    blocked = frozenset[int]() if evicting else blocked_nodes(problem, shape)
    return positions[~np.isin(positions, list(blocked))] if blocked else positions


def _capacity(problem: Problem, amounts: Counts, *, evicting: bool) -> Counts:
    capacity = capacities(problem, amounts)
    for shape in () if evicting else range(len(problem.shapes)):
        if blocked := blocked_nodes(problem, shape):
            capacity[shape, list(blocked)] = 0
    return capacity


def useful_victims(problem: Problem, eligible: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the victims whose eviction can help the gang, and the other victims of the running gangs that they belong
    to.

    A victim is useful if it is on an `eligible` node, or if it conflicts with a member on such a node. It is also
    useful if a topology spread or pod affinity constraint names it. If a useful victim belongs to a gang, all victims
    of that gang are useful, because a broken gang is evicted whole. Evicting any other victim frees nothing that the
    gang could use, so no best plan evicts it.
    """
    victims = problem.victims
    near = eligible[victims.node]
    for rule in problem.conflicts:
        if eligible[list(rule.nodes)].any():
            near[list(rule.victims)] = True
    for spread in problem.spreads:
        near[list(spread.victims)] = True
    for affinity in problem.affinities:
        near[list(affinity.victims)] = True
    broken = np.zeros(len(problem.victim_gangs) + 1, dtype=np.bool_)  # the last, -1, means no gang
    broken[victims.gang[near]] = True
    broken[-1] = False
    return tuple(np.flatnonzero(near | broken[victims.gang]).tolist())
