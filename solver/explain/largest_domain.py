"""Whether a gang can never fit, whatever other pods run. Counting the nodes' capacity answers this quickly, and is a
proof.
"""

from dataclasses import replace

import numpy as np

from solver.bounds.domain_cover import most_members, too_small
from solver.capacity import deciding_level, needed_members, pending
from solver.explain.exclusions import excluded_nodes
from solver.instance import instance_of
from solver.plan import NearDomain
from solver.problem import Problem
from solver.tree import ROOT
from solver.tree_dp.single_class_counts import has_room, members_by_domain


def too_small_for(problem: Problem) -> NearDomain | None:
    """Return the domain of the required level (or the cluster) that holds the most members, if counting proves that no
    domain holds the minimum. Else None.

    `fits` of the result is exact if the members are alike, else an upper bound. `fits` can reach `needed`: enough
    members fit then, but the constraints of the gang's sets are not met.

    :param problem: without victims and without members that have a node.
    """
    instance = instance_of(problem, evicting=False)
    if not (too_small(instance) or has_room(instance) is False):
        return None
    level, tree = deciding_level(problem), instance.tree
    sets = tuple(replace(pod_set, minimum=0) for pod_set in problem.sets)
    without_minimums = instance_of(replace(problem, sets=sets, minimum=0, required=None), evicting=False)
    counted = members_by_domain(without_minimums, level)
    if counted is None:
        counts = most_members(instance, pending(problem), level)
    else:
        counts = np.array([counted.get(domain, 0) for domain in range(tree.count(level))], dtype=np.int64)
    if not len(counts):
        return None
    sizes = np.array([len(tree.nodes(level, domain)) for domain in range(tree.count(level))], dtype=np.int64)
    # Among domains that hold equally many members: the one with the most nodes, then the first in the order of the
    # tree.
    largest = max(range(len(counts)), key=lambda domain: (counts[domain], sizes[domain], -domain))
    (excluded,) = excluded_nodes(instance, level, [largest])
    return NearDomain(
        level="" if level == ROOT else problem.levels[level],
        path=() if level == ROOT else tree.paths[level][largest],
        fits=int(counts[largest]),
        needed=needed_members(problem),
        nodes=int(sizes[largest]),
        excluded=excluded,
    )
