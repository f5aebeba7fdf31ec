"""Many gangs that compete, placed whole without evictions: together as compact as can be, then each at its best.

Compactness is settled over classes of nodes (`solver.multi_gang.column_generation`); then every gang in turn is planned
anew on what the others leave, so that it takes the best of the places that are as compact. Only the goals up to
compactness are weighed against each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.branch_and_bound.subproblem import unevicting
from solver.capacity import Counts, fitting
from solver.cp_sat.lexicographic import DeadlineCheck, TimeBudget, no_deadline_check
from solver.instance import blocked_nodes
from solver.multi_gang.column_generation.generation import ChosenColumns, ColumnGeneration
from solver.multi_gang.column_generation.pricing import GangDemand, PricingProblem, node_classes_of
from solver.objective import Nodes
from solver.plan import Plan
from solver.problem import Limits, PodSet, Problem
from solver.solve import decide
from solver.tree import ROOT, Tree, tree_of

_CHOOSING = 0.5
"""The share of the deterministic time for choosing among columns. Generating them is not counted in it, and takes as
long.
"""
_SOME = Limits(deterministic=0.2, seconds=1.0)
"""What planning one gang anew may take."""
_CELLS = 8_000_000
"""Numbers in a first table of the pricing problem, 64 MB; all tables of a round are several times as large."""


@dataclass(frozen=True, slots=True)
class AllPlaced:
    """Nodes by gang, set and rank; None for a gang that is crowded out. `proven`: the number of levels, from the widest
    on, on which all placed gangs together cannot touch fewer domains.
    """

    nodes: tuple[Nodes | None, ...]
    proven: int


def place_all(
    gangs: Sequence[Problem],
    units: Sequence[Sequence[int]],
    budget: TimeBudget,
    over: DeadlineCheck = no_deadline_check,
) -> AllPlaced | None:
    """All members of all gangs but those that are crowded out, as compact as is found until the time is `over`. None
    where they were not found to have room, or where a gang is not of alike members without further rules on the same
    nodes as the others.
    """
    cluster = _cluster(gangs, units)
    if cluster is None:
        return None
    out = _crowded_out(cluster)
    if not out:
        return _placed(cluster, budget, over)
    stay = [gang for gang in range(len(gangs)) if gang not in out]
    fewer = _cluster([gangs[gang] for gang in stay], [units[gang] for gang in stay])
    found = None if fewer is None else _placed(fewer, budget, over)
    if found is None:
        return None
    nodes = dict(zip(stay, found.nodes, strict=True))
    return replace(found, nodes=tuple(nodes.get(gang) for gang in range(len(gangs))))


def crowded_out(gangs: Sequence[Problem], units: Sequence[Sequence[int]]) -> frozenset[int]:
    """The gangs that certainly have no place beside those before them that have one: by counting there is less room
    than they ask for. Nobody where that is not known, or where not all gangs are placed whole and without evictions.
    """
    cluster = _cluster(gangs, units)
    return frozenset() if cluster is None else _crowded_out(cluster)


def _crowded_out(cluster: "_Cluster") -> frozenset[int]:
    if any(gang.victims or gang.minimum < len(_only(gang).members) for gang in cluster.gangs):
        return frozenset()
    generation, out = cluster.generation, set()
    left = generation.offered.sum(axis=1)
    for gang, demand in enumerate(generation.demands):
        takes = generation.displaced[demand.shape] * demand.members
        if (takes > left).any():
            out.add(gang)
        else:
            left -= takes
    return frozenset(out) if len(out) < len(cluster.gangs) else frozenset()


def _placed(cluster: "_Cluster", budget: TimeBudget, over: DeadlineCheck) -> AllPlaced | None:
    chosen = cluster.generation.solve(budget.portion(_CHOOSING), over)
    nodes = None if chosen is None else _anew(cluster, _seated(cluster, chosen), over)
    if chosen is None or nodes is None:
        return None
    sums = [sum(level) for level in zip(*(_spread(cluster, row) for row in nodes), strict=True)]
    short = (level for level, total in enumerate(sums) if total > chosen.bounds[level])
    rows = (_rows(problem, row) for problem, row in zip(cluster.gangs, nodes, strict=True))
    return AllPlaced(tuple(rows), next(short, cluster.tree.depth))


@dataclass(frozen=True)
class _Cluster:
    """The gangs on their nodes. `free` and `asked[gang]`: by resource of all gangs together, in base units."""

    gangs: Sequence[Problem]
    units: Sequence[Sequence[int]]
    resources: tuple[str, ...]
    tree: Tree
    free: Counts
    asked: Counts
    generation: ColumnGeneration


def _cluster(gangs: Sequence[Problem], units: Sequence[Sequence[int]]) -> _Cluster | None:
    if not all(_plain(gang) and _same_places(gang, gangs[0]) for gang in gangs):
        return None
    resources = tuple(dict.fromkeys(name for gang in gangs for name in gang.resources))
    free = _free(gangs, units, resources)
    if free is None:
        return None
    asked = np.array(
        [
            _aligned(np.array([gang.shapes[_only(gang).members[0].shape].requests]), gang, sizes, resources)[0]
            for gang, sizes in zip(gangs, units, strict=True)
        ]
    )
    tree = tree_of(gangs[0].nodes, len(gangs[0].levels))
    generation = _generation(gangs, tree, free, asked)
    if generation.pricing.cells(len(generation.displaced)) > _CELLS:
        return None
    return _Cluster(gangs, units, resources, tree, free, asked, generation)


def _generation(gangs: Sequence[Problem], tree: Tree, free: Counts, asked: Counts) -> ColumnGeneration:
    """Gangs that ask for the same, and may run on the same nodes, have one shape."""
    wants = [(tuple(row), _open_nodes(gang)) for row, gang in zip(asked.tolist(), gangs, strict=True)]
    kinds = list(dict.fromkeys(wants))
    requests = np.array([row for row, _ in kinds], dtype=np.int64)
    members = [len(_only(gang).members) for gang in gangs]
    displaced = np.array([_displaced(free, requests, row) for row in requests]).T
    wanted = sum(count * displaced[kinds.index(want)] for count, want in zip(members, wants, strict=True))
    room = np.minimum([fitting(free, row) for row in requests], np.reshape(wanted, (-1, 1)))
    holds = np.minimum(room, max(members))
    for shape, (_, eligible) in enumerate(kinds):
        barred = np.ones(len(free), dtype=np.bool_)
        barred[sorted(eligible)] = False
        holds[shape, barred] = 0
    demands = [
        GangDemand(kinds.index(want), count, _level(gang))
        for want, count, gang in zip(wants, members, gangs, strict=True)
    ]
    return ColumnGeneration(PricingProblem(tree, node_classes_of(tree, holds, room), max(members)), demands, displaced)


def _plain(gang: Problem) -> bool:
    """Whether the gang is one set of alike members without rules but a level above the node."""
    filled = [pod_set for pod_set in gang.sets if pod_set.members]
    numbers = gang.together or gang.multiples
    neighbours = gang.exclusions or gang.separations or gang.affinities or gang.spreads
    if len(filled) != 1 or numbers or neighbours:
        return False
    pod_set = filled[0]
    alike = {(member.shape, member.node) for member in pod_set.members} == {(pod_set.members[0].shape, None)}
    ruled = pod_set.slices or pod_set.multiples or pod_set.caps
    return alike and not ruled and _level(gang) < len(gang.levels) - 1


def _open_nodes(gang: Problem) -> frozenset[int]:
    """The nodes that members may use, room aside, without evictions."""
    shape = _only(gang).members[0].shape
    return gang.shapes[shape].nodes - blocked_nodes(gang, shape)


def _only(gang: Problem) -> PodSet:
    """The set that has members."""
    return next(pod_set for pod_set in gang.sets if pod_set.members)


def _level(gang: Problem) -> int:
    """The narrowest level of which one domain must hold the gang, or ROOT."""
    return max((level for level in (gang.required, _only(gang).required) if level is not None), default=ROOT)


def _same_places(one: Problem, other: Problem) -> bool:
    own, theirs = one.nodes.layout, other.nodes.layout
    return own is theirs or (own.names, own.paths) == (theirs.names, theirs.paths)


def _aligned(amounts: Counts, gang: Problem, units: Sequence[int], resources: Sequence[str]) -> Counts:
    """Amounts in rows, in base units, with the resources of all gangs; -1 where this one does not know a resource."""
    rows = amounts * np.array(units, dtype=np.int64)
    places = [gang.resources.index(name) if name in gang.resources else -1 for name in resources]
    return np.stack([rows[:, place] if place >= 0 else np.zeros(len(rows), dtype=np.int64) for place in places], axis=1)


def _free(gangs: Sequence[Problem], units: Sequence[Sequence[int]], resources: tuple[str, ...]) -> Counts | None:
    """What is free by node and resource; None where the gangs do not agree on it."""
    found = np.zeros((len(gangs[0].nodes), len(resources)), dtype=np.int64)
    known = np.zeros(len(resources), dtype=np.bool_)
    for gang, sizes in zip(gangs, units, strict=True):
        asked = np.array([name in gang.resources for name in resources])
        rows = _aligned(gang.nodes.free, gang, sizes, resources)
        if (rows[:, asked & known] != found[:, asked & known]).any():
            return None
        found[:, asked] = rows[:, asked]
        known |= asked
    return found


def _displaced(free: Counts, requests: Counts, request: Counts) -> Counts:
    """By shape, for how many members with `request` there is certainly no room where one of the shape is. Those that
    ask for nothing have places enough for all of them, of which each takes one.

    What limits them on a node is one resource: of it, a member of the shape takes the place of as many as it asks for
    whole times as much. The least of that over all resources which limit them somewhere holds on every node.
    """
    asks = np.flatnonzero(request > 0)
    if not len(asks):
        same: Counts = np.all(requests == request, axis=1).astype(np.int64)
        return same
    fits = np.maximum(free[:, asks], 0) // request[asks]
    limits = fits == fits.min(axis=1, keepdims=True)
    limiting: list[int] = []
    while limits.any():
        most = int(limits.sum(axis=0).argmax())
        limiting.append(int(asks[most]))
        limits = limits[~limits[:, most]]
    displaced: Counts = (requests[:, limiting] // request[limiting]).min(axis=1)
    return displaced


def _seated(cluster: _Cluster, chosen: ChosenColumns) -> list[list[int]]:
    """Nodes by gang for the columns, the largest members first, on the nodes of a class that hold most of what is left
    of a gang and least besides. No nodes for a gang that does not fit beside those before it: columns are counted shape
    by shape, and shapes that are limited by different resources can be too many together.
    """
    free, node_class = cluster.free.copy(), cluster.generation.pricing.classes.node_class
    nodes: dict[int, list[int]] = {column.gang: [] for column in chosen.columns}
    jobs = [(column.gang, where, count) for column in chosen.columns for where, count in sorted(column.use.items())]
    size = cluster.generation.displaced.sum(axis=1)
    shape = [demand.shape for demand in cluster.generation.demands]
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


def _anew(cluster: _Cluster, placed: list[list[int]], over: DeadlineCheck) -> list[list[int]] | None:
    """Every gang in its turn at its best place beside the others, as long as there is time; first those that have none
    yet. None where one of these finds none.
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


def _best_beside(cluster: _Cluster, gang: int, used: Counts) -> Counts | None:
    """The best nodes for all members of a gang beside what others use; None where none are found."""
    problem = cluster.gangs[gang]
    answer = decide(_beside(cluster, gang, used), _SOME)
    if not isinstance(answer, Plan):
        return None
    row = answer.nodes[problem.sets.index(_only(problem))]
    return None if None in row else np.array(row, dtype=np.int64)


def _beside(cluster: _Cluster, gang: int, used: Counts) -> Problem:
    """The gang's problem with what others use taken off."""
    problem, sizes = cluster.gangs[gang], cluster.units[gang]
    places = [cluster.resources.index(name) for name in problem.resources]
    free = problem.nodes.free + -used[:, places] // np.array(sizes, dtype=np.int64)
    return replace(unevicting(problem), nodes=problem.nodes.with_free(free))


def _spread(cluster: _Cluster, nodes: Iterable[int]) -> list[int]:
    """The domains that these nodes are in, level by level."""
    touched = list(nodes)
    return [len({cluster.tree.domain(level, node) for node in touched}) for level in range(cluster.tree.depth)]


def _rows(problem: Problem, nodes: Sequence[int]) -> Nodes:
    """The nodes of the one set that has members, in order of rank; the other sets are empty."""
    return tuple(tuple(nodes) if pod_set.members else () for pod_set in problem.sets)
