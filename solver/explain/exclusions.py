"""Reasons why nodes can hold no member of a gang: eligibility, conflicts and missing capacity.

The reasons follow from the problem without a search, so this module does not load CP-SAT.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from kube.requests import shortage
from solver.capacity import Counts, capacities, pending, room
from solver.instance import Instance
from solver.problem import Problem

PLACED = "the members that are missing have their nodes elsewhere"
"""The reason that is given for each node of a domain if the gang has no member left to place, because all members have
nodes in other domains.
"""


def excluded_nodes(instance: Instance, level: int, domains: list[int]) -> Iterator[dict[str, int]]:
    """Yield, for each domain in `domains` (numbers at `level`), how many of its nodes can hold no member, by reason.

    Each node is counted under one reason; the most frequent reason comes first. Victims that may be evicted count as
    gone.
    """
    problem = instance.problem
    shapes = list(dict.fromkeys(member.shape for member in pending(problem)))
    evictable = _evictable(instance)
    amounts = room(problem, evictable)
    blocked = _blocked(problem, evictable)
    capacity = capacities(problem, amounts)
    for shape, nodes in blocked.items():
        capacity[shape, list(nodes)] = 0
    useless = capacity[shapes].max(axis=0, initial=0) == 0
    for domain in domains:
        inside = np.array(instance.tree.nodes(level, domain), dtype=np.int64)
        reasons = Counter(
            _reason(instance, blocked, amounts, node, shapes) for node in inside[useless[inside]].tolist()
        )
        yield dict(sorted(reasons.items(), key=lambda each: (-each[1], each[0])))


def _evictable(instance: Instance) -> list[int]:
    """Return the useful victims that may be evicted: no disruption budget that covers them has `allowed` 0."""
    kept = frozenset[int]().union(*(budget.victims for budget in instance.problem.budgets if budget.allowed <= 0))
    return [victim for victim in instance.useful if victim not in kept]


def _blocked(problem: Problem, evictable: list[int]) -> dict[int, dict[int, str]]:
    """Return, by shape and node, the reason why a victim that cannot be evicted keeps members of the shape off the
    node. Nodes without such a victim have no entry. `evictable`: the victims that may be evicted.
    """
    may_go, found = set(evictable), dict[int, dict[int, str]]()
    for rule in problem.conflicts:
        if not rule.victims <= may_go:
            for shape in rule.shapes:
                found.setdefault(shape, {}).update(dict.fromkeys(rule.nodes, rule.reason))
    return found


def _reason(
    instance: Instance, blocked: dict[int, dict[int, str]], amounts: Counts, node: int, shapes: list[int]
) -> str:
    """Return why a node can hold no member: the conflict or missing resource of the first shape in `shapes` for which
    the node is eligible.

    The gang's scarcest resource is checked first. If the node is eligible for no shape, the result is the reason why it
    is not eligible for the first shape. `blocked`: by shape and node, the reasons of conflicts. `amounts`: free
    amounts.
    """
    problem = instance.problem
    for position in shapes:
        shape = problem.shapes[position]
        if node not in shape.nodes:
            continue
        others = [each for each in range(len(problem.resources)) if each != instance.scarce]
        short = [each for each in (instance.scarce, *others) if 0 < shape.requests[each] > amounts[node, each]]
        return shortage(problem.resources[short[0]]) if short else blocked[position][node]
    reasons = [problem.shapes[each].excluded.get(node, "not eligible") for each in shapes]
    return reasons[0] if reasons else PLACED
