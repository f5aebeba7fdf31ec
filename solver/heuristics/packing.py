"""Place as many members as possible in a domain, for explanations. The method is faster than CP-SAT, but in some cases
it finds no plan.
"""

from dataclasses import replace

import numpy as np

from solver.bounds.member_classes import MemberClass, sorted_kinds
from solver.capacity import Counts, fitting
from solver.instance import Instance
from solver.objective import Nodes
from solver.problem import PodSet, Problem
from solver.tree import ROOT


def thinned(instance: Instance) -> Instance:
    """Return the instance without nodes that only one member class can use, and that this class does not need.

    A class does not need a node if larger nodes of the same domain have capacity for all members of the class. The
    domain is of the narrowest level that a constraint of the class names. So each set keeps capacity for as many
    members as before, though maybe not on the best nodes. Raises `OutOfTimeError`.
    """
    problem = instance.problem
    if instance.evicting or _has_neighbour_rules(problem):
        return instance
    kinds = sorted_kinds(instance)
    # capacity: member classes x nodes; alone: nodes, whether only one class can use a node. Such nodes of each class
    # are sorted by domain, then by capacity. before: the capacity of larger nodes in the same domain. A node is left
    # out if that is enough for the class.
    capacity = instance.capacity[[kind.shape for kind in kinds]]
    alone = (capacity > 0).sum(axis=0) == 1
    left = instance.capacity.copy()
    for kind, room in instance.deadline.iterate(zip(kinds, capacity, strict=True), every=8):
        if _has_count_rules(problem.sets[kind.pod_set]):
            continue
        nodes = np.flatnonzero(alone & (room > 0))
        domains = instance.tree.domains(_narrowest_rule(instance, kind))[nodes]
        order = np.lexsort((-room[nodes], domains))
        nodes, domains = nodes[order], domains[order]
        before = np.cumsum(room[nodes]) - room[nodes]
        before -= before[np.searchsorted(domains, domains)]
        left[kind.shape, nodes[before >= len(kind.ranks)]] = 0
    return replace(instance, capacity=left)


def filled(instance: Instance, level: int, domain: int) -> Nodes | None:
    """Return the node of each member in a plan that provably places as many members inside a domain as possible.

    The proof is an upper bound by counting, which the plan reaches. None if the plan does not reach the bound, or if
    constraints limit where members may be. Raises `OutOfTimeError`.
    """
    problem, kinds = instance.problem, sorted_kinds(instance)
    free_to_go = not (_has_neighbour_rules(problem) or instance.evicting or instance.pinned)
    if not free_to_go or any(
        _has_count_rules(problem.sets[kind.pod_set]) or _narrowest_rule(instance, kind) > level for kind in kinds
    ):
        return None
    # room: classes x nodes; free: nodes x resources; requests: classes x resources; most: classes. scarce: by resource,
    # whether a node runs short of it if it takes the most of every class at once. counts: classes, the bound to reach.
    nodes = np.array(instance.tree.nodes(level, domain), dtype=np.int64)
    room = instance.capacity[[kind.shape for kind in kinds]][:, nodes]
    free = np.maximum(instance.amounts[nodes], 0)
    requests = np.array([problem.shapes[kind.shape].requests for kind in kinds], dtype=np.int64)
    most = np.minimum(room.sum(axis=1), [len(kind.ranks) for kind in kinds])
    scarce = (free < room.T @ requests).any(axis=0)
    counts = _at_most(requests[:, scarce], free[room.max(axis=0) > 0][:, scarce], most.tolist())
    rows: list[list[int | None]] = [[None] * len(pod_set.members) for pod_set in problem.sets]
    # Best fit, the class with the largest members first: the fullest nodes come before the others. As in the first fit
    # of block_by_block, `taken` is the number of members beyond the capacity before each node, cut to what fits there.
    for place in instance.deadline.iterate(np.argsort(-requests[:, instance.scarce], kind="stable").tolist(), every=8):
        order = np.argsort(free[:, instance.scarce], kind="stable")
        fits = np.minimum(room[place][order], fitting(free[order], requests[place]))
        taken = np.clip(counts[place] - (np.cumsum(fits) - fits), 0, fits)
        if taken.sum() < counts[place]:
            return None
        free[order] -= taken[:, None] * requests[place]
        for rank, node in zip(kinds[place].ranks, np.repeat(nodes[order], taken).tolist(), strict=False):
            rows[kinds[place].pod_set][rank] = node
    return tuple(map(tuple, rows))


def _has_neighbour_rules(problem: Problem) -> bool:
    """Return whether the problem has constraints that relate members to other pods or sets: exclusions, separations,
    pod affinity, topology spread, or multiples of the whole gang.
    """
    apart = problem.exclusions or problem.separations
    return bool(apart or problem.affinities or problem.spreads or problem.multiples)


def _has_count_rules(pod_set: PodSet) -> bool:
    """Return whether the set has constraints on counts of members in a domain: slices, multiples or caps."""
    return bool(pod_set.slices or pod_set.multiples or pod_set.caps)


def _narrowest_rule(instance: Instance, kind: MemberClass) -> int:
    """Return the narrowest level at which one domain must hold all members of the class's pod set. ROOT if no
    constraint names such a level.
    """
    problem = instance.problem
    levels = [problem.required, problem.sets[kind.pod_set].required]
    levels += [rule.level for rule in problem.together if kind.pod_set in rule.pod_sets]
    return max((level for level in levels if level is not None), default=ROOT)


def _at_most(requests: Counts, free: Counts, most: list[int]) -> list[int]:
    """Return, by member class, an upper bound on how many of its members fit. The counts come from the tightest of
    several upper bounds on all members together.

    Each bound measures the capacity of all nodes together in one unit: a resource, or members of one class. It fills
    this capacity with the smallest members first, because this gives the most members.

    `requests`: classes x resources that can run short on a node. `free`: nodes x resources. `most`: by class, the most
    members if no other class is placed.
    """
    measures = [([0] * len(most), 0)]
    measures += [(requests[:, each].tolist(), int(free[:, each].sum())) for each in range(requests.shape[1])]
    for asked in requests:
        if (asked > 0).any():
            sizes = (requests[:, asked > 0] // asked[asked > 0]).min(axis=1)
            measures.append((sizes.tolist(), int(fitting(free, asked).sum())))
    return min((_smallest_first(sizes, room, most) for sizes, room in measures), key=sum)


def _smallest_first(sizes: list[int], room: int, most: list[int]) -> list[int]:
    """Return, by class, how many members fit if members of the sizes `sizes` share the amount `room`. The smallest
    sizes are placed first. `most`: the most members of each class.
    """
    counts = list(most)
    for place in sorted(range(len(sizes)), key=sizes.__getitem__):
        if sizes[place] > 0:
            counts[place] = min(counts[place], room // sizes[place])
            room -= counts[place] * sizes[place]
    return counts
