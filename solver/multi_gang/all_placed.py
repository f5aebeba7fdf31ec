"""Many competing gangs, placed whole and without evictions: first as compact as possible together, then each gang on
the best nodes that the others leave.

Compactness (goal 3) is decided over classes of alike nodes (`solver.multi_gang.column_generation`). Then each gang in
turn is replanned on the capacity that the other gangs leave, and takes the best of the plans that are as compact. Only
the goals up to compactness are optimised over all gangs together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.branch_and_bound.subproblem import unevicting
from solver.capacity import Counts, fitting
from solver.cp_sat.lexicographic import TimeBudget
from solver.deadline import DeadlineCheck, no_deadline_check
from solver.multi_gang.column_generation.generation import ChosenColumns, ColumnGeneration
from solver.multi_gang.shared_nodes import SharedNodes, displaced_gangs_of, set_of, shared_nodes
from solver.objective import Nodes
from solver.plan import Plan
from solver.problem import Limits, Problem
from solver.solve import decide

_CHOOSING = 0.5
"""The share of the deterministic time that CP-SAT gets to choose among columns. The generation of the columns takes
about as long, and is not counted in this share.
"""
_SOME = Limits(deterministic=0.2, seconds=1.0)
"""The limits of a solve that replans one gang."""


@dataclass(frozen=True, slots=True)
class AllPlaced:
    """The nodes of each gang's members, by set and rank. A gang that other gangs displace has None in place of its
    nodes.

    `proven`: the number of levels, from the widest on, on which all placed gangs together provably touch the fewest
    domains.
    """

    nodes: tuple[Nodes | None, ...]
    proven: int


def place_all(
    gangs: Sequence[Problem],
    units: Sequence[Sequence[int]],
    budget: TimeBudget,
    over: DeadlineCheck = no_deadline_check,
) -> AllPlaced | None:
    """Place all members of all gangs except displaced gangs. The gangs are as compact together as can be found until
    `over` returns True.

    None if no placement of these gangs was found, or if `shared_nodes` cannot represent the gangs. `units`: by gang and
    resource, the size of one unit in the gang's problem.
    """
    cluster = shared_nodes(gangs, units)
    if cluster is None:
        return None
    out = displaced_gangs_of(cluster)
    if not out:
        return _placed(cluster, budget, over)
    stay = [gang for gang in range(len(gangs)) if gang not in out]
    fewer = shared_nodes([gangs[gang] for gang in stay], [units[gang] for gang in stay])
    found = None if fewer is None else _placed(fewer, budget, over)
    if found is None:
        return None
    nodes = dict(zip(stay, found.nodes, strict=True))
    return replace(found, nodes=tuple(nodes.get(gang) for gang in range(len(gangs))))


def _placed(cluster: SharedNodes, budget: TimeBudget, over: DeadlineCheck) -> AllPlaced | None:
    """Return the placement of all gangs of `cluster`; None if none was found. The search for a more compact placement
    stops when `over` returns True.
    """
    generation = ColumnGeneration(cluster.pricing, cluster.demands, cluster.displaced)
    chosen = generation.solve(budget.portion(_CHOOSING), over)
    nodes = None if chosen is None else _replanned(cluster, _seated(cluster, chosen), over)
    if chosen is None or nodes is None:
        return None
    sums = [sum(level) for level in zip(*(_spread(cluster, row) for row in nodes), strict=True)]
    short = (level for level, total in enumerate(sums) if total > chosen.bounds[level])
    rows = (_rows(problem, row) for problem, row in zip(cluster.gangs, nodes, strict=True))
    return AllPlaced(tuple(rows), next(short, cluster.tree.depth))


def _seated(cluster: SharedNodes, chosen: ChosenColumns) -> list[list[int]]:
    """Return, by gang, the nodes of its members if the gang is placed as its column says. Gangs with the largest
    members are placed first.

    On each class of nodes, a gang takes the node that holds most of its remaining members and leaves the least
    capacity. A gang that does not fit beside the gangs before it gets no nodes. This can happen because columns are
    counted for each shape by itself: members of two shapes that are limited by different resources can be too many
    together.
    """
    free, node_class = cluster.free.copy(), cluster.pricing.classes.node_class
    nodes: dict[int, list[int]] = {column.gang: [] for column in chosen.columns}
    jobs = [(column.gang, where, count) for column in chosen.columns for where, count in sorted(column.use.items())]
    size = cluster.displaced.sum(axis=1)
    shape = [demand.shape for demand in cluster.demands]
    failed = set[int]()
    for gang, where, count in sorted(jobs, key=lambda job: (-size[shape[job[0]]], -job[2], job)):
        inside = np.flatnonzero(node_class == where)
        left = count
        while left and gang not in failed:
            fits = fitting(free[inside], cluster.asked[gang])
            best = int(np.lexsort((fits, -np.minimum(fits, left)))[0])
            took = min(left, int(fits[best]))
            if took == 0:
                failed.add(gang)
                np.add.at(free, nodes.pop(gang), cluster.asked[gang])
                break
            free[inside[best]] -= took * cluster.asked[gang]
            nodes[gang] += [int(inside[best])] * took
            left -= took
    return [nodes.get(gang, []) for gang in range(len(cluster.gangs))]


def _replanned(cluster: SharedNodes, placed: list[list[int]], over: DeadlineCheck) -> list[list[int]] | None:
    """Replan each gang in turn on the capacity that the other gangs leave, until `over` returns True. Return the nodes
    by gang.

    `placed`: the nodes so far. Gangs without nodes are planned first. None if one of the gangs without nodes cannot be
    placed.
    """
    used = np.zeros_like(cluster.free)
    found = [np.array(nodes, dtype=np.int64) for nodes in placed]
    for gang, nodes in enumerate(found):
        np.add.at(used, nodes, cluster.asked[gang])
    for gang in sorted(range(len(found)), key=lambda each: bool(placed[each])):
        if placed[gang] and over():
            break
        np.subtract.at(used, found[gang], cluster.asked[gang])
        row = _best_beside(cluster, gang, used)
        if row is None and not placed[gang]:
            return None
        if row is not None and (not placed[gang] or _spread(cluster, row) <= _spread(cluster, found[gang])):
            found[gang] = row
        np.add.at(used, found[gang], cluster.asked[gang])
    return [nodes.tolist() for nodes in found]


def _best_beside(cluster: SharedNodes, gang: int, used: Counts) -> Counts | None:
    """Return the best nodes for all members of a gang on the capacity that other gangs leave; None if no placement is
    found. `used`, nodes x resources: the amounts that other gangs use.
    """
    problem = cluster.gangs[gang]
    answer = decide(_beside(cluster, gang, used), _SOME)
    if not isinstance(answer, Plan):
        return None
    row = answer.nodes[problem.sets.index(set_of(problem))]
    return None if None in row else np.array(row, dtype=np.int64)


def _beside(cluster: SharedNodes, gang: int, used: Counts) -> Problem:
    """Return the gang's problem on the capacity that other gangs leave, without evictions. `used`, nodes x resources:
    the amounts that other gangs use.
    """
    problem, sizes = cluster.gangs[gang], cluster.units[gang]
    places = [cluster.resources.index(name) for name in problem.resources]
    free = problem.nodes.free + -used[:, places] // np.array(sizes, dtype=np.int64)
    return replace(unevicting(problem), nodes=problem.nodes.with_free(free))


def _spread(cluster: SharedNodes, nodes: Iterable[int]) -> list[int]:
    """Return, by level, the number of domains that contain these nodes."""
    touched = list(nodes)
    return [len({cluster.tree.domain(level, node) for node in touched}) for level in range(cluster.tree.depth)]


def _rows(problem: Problem, nodes: Sequence[int]) -> Nodes:
    """Return nodes by set and rank. `nodes`: the nodes of the only set that has members, by rank; all other sets have
    no members.
    """
    return tuple(tuple(nodes) if pod_set.members else () for pod_set in problem.sets)
