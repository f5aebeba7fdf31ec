"""Gangs of alike members on the same nodes as arrays: which shapes fit where, and which gangs certainly do not fit.

Column generation starts from these arrays. This module only counts and does not search.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solver.capacity import Counts, fitting
from solver.instance import blocked_nodes
from solver.multi_gang.column_generation.pricing import GangDemand, PricingProblem, node_classes_of
from solver.problem import PodSet, Problem
from solver.tree import ROOT, Tree, tree_of

_CELLS = 8_000_000
"""The most numbers in the first table of the pricing problem; they take 64 MB. All tables of one solve of the pricing
problem together are several times as large.
"""


@dataclass(frozen=True)
class SharedNodes:
    """Gangs, each of alike members, and the nodes that they share, as arrays.

    `free`: nodes x resources, in base units. `asked`: gangs x resources, what one member requests. `resources`: the
    names of the resources that occur in any gang's problem. `demands`: shape and number of members of each gang.
    `displaced[one, other]`: how many members of shape `other` certainly no longer fit on a node where a member of shape
    `one` is placed.
    """

    gangs: Sequence[Problem]
    units: Sequence[Sequence[int]]
    resources: tuple[str, ...]
    tree: Tree
    free: Counts
    asked: Counts
    pricing: PricingProblem
    demands: tuple[GangDemand, ...]
    displaced: Counts


def shared_nodes(gangs: Sequence[Problem], units: Sequence[Sequence[int]]) -> SharedNodes | None:
    """Return the gangs as arrays.

    None if a gang has unlike members, a constraint other than a required level, or other nodes than the other gangs.
    None also if the arrays would be too large. `units`: by gang and resource, the size of one unit in the gang's
    problem.
    """
    if not all(_plain(gang) and _same_places(gang, gangs[0]) for gang in gangs):
        return None
    resources = tuple(dict.fromkeys(name for gang in gangs for name in gang.resources))
    free = _free(gangs, units, resources)
    if free is None:
        return None
    asked = np.array(
        [
            _aligned(np.array([gang.shapes[set_of(gang).members[0].shape].requests]), gang, sizes, resources)[0]
            for gang, sizes in zip(gangs, units, strict=True)
        ]
    )
    tree = tree_of(gangs[0].nodes, len(gangs[0].levels))
    pricing, demands, displaced = _shapes(gangs, tree, free, asked)
    if pricing.cells(len(displaced)) > _CELLS:
        return None
    return SharedNodes(gangs, units, resources, tree, free, asked, pricing, demands, displaced)


def _shapes(
    gangs: Sequence[Problem], tree: Tree, free: Counts, asked: Counts
) -> tuple[PricingProblem, tuple[GangDemand, ...], Counts]:
    """Return the pricing problem, the gangs' demands, and how many members of each shape a member of each shape
    displaces.

    Gangs with equal requests and equal eligible nodes have one shape. `free`: nodes x resources. `asked`: gangs x
    resources, what one member requests.
    """
    wants = [(tuple(row), _open_nodes(gang)) for row, gang in zip(asked.tolist(), gangs, strict=True)]
    kinds = list(dict.fromkeys(wants))
    requests = np.array([row for row, _ in kinds], dtype=np.int64)
    members = [len(set_of(gang).members) for gang in gangs]
    displaced = np.array([_displaced(free, requests, row) for row in requests]).T
    wanted = sum(count * displaced[kinds.index(want)] for count, want in zip(members, wants, strict=True))
    room = np.minimum([fitting(free, row) for row in requests], np.reshape(wanted, (-1, 1)))
    holds = np.minimum(room, max(members))
    for shape, (_, eligible) in enumerate(kinds):
        barred = np.ones(len(free), dtype=np.bool_)
        barred[sorted(eligible)] = False
        holds[shape, barred] = 0
    demands = tuple(
        GangDemand(kinds.index(want), count, _level(gang))
        for want, count, gang in zip(wants, members, gangs, strict=True)
    )
    return PricingProblem(tree, node_classes_of(tree, holds, room), max(members)), demands, displaced


def _plain(gang: Problem) -> bool:
    """Whether the gang is one set of alike pending members whose only constraint is a required level above the node."""
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
    """Return the nodes that the gang's members may use without evictions, regardless of free capacity."""
    shape = set_of(gang).members[0].shape
    return gang.shapes[shape].nodes - blocked_nodes(gang, shape)


def set_of(gang: Problem) -> PodSet:
    """Return the gang's only set that has members."""
    return next(pod_set for pod_set in gang.sets if pod_set.members)


def _level(gang: Problem) -> int:
    """Return the narrowest level of which one domain must hold the gang; ROOT (the whole cluster) if no level is
    required.
    """
    return max((level for level in (gang.required, set_of(gang).required) if level is not None), default=ROOT)


def _same_places(one: Problem, other: Problem) -> bool:
    """Return whether the nodes of both problems have the same names and paths, in the same order."""
    own, theirs = one.nodes.layout, other.nodes.layout
    return own is theirs or (own.names, own.paths) == (theirs.names, theirs.paths)


def _aligned(amounts: Counts, gang: Problem, units: Sequence[int], resources: Sequence[str]) -> Counts:
    """Return rows of a gang's amounts in base units, with a column for each of `resources`; 0 for resources that the
    gang does not have.
    """
    rows = amounts * np.array(units, dtype=np.int64)
    places = [gang.resources.index(name) if name in gang.resources else -1 for name in resources]
    return np.stack([rows[:, place] if place >= 0 else np.zeros(len(rows), dtype=np.int64) for place in places], axis=1)


def _free(gangs: Sequence[Problem], units: Sequence[Sequence[int]], resources: tuple[str, ...]) -> Counts | None:
    """Return the free amounts, nodes x resources, in base units; None if two problems differ in a free amount."""
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
    """Return, by shape, how many members with the request `request` certainly no longer fit where a member of the shape
    is placed. `requests`: shapes x resources.

    For example, if a member of the shape takes 4 GPUs and `request` is 2 GPUs, 2 members no longer fit. Quotients are
    rounded down. Only the resource that limits such members on a node decides, and this resource differs between nodes.
    So the result is the minimum over a few resources, of which at least one limits such members on each node. If
    `request` is 0 for all resources, only the number of members is limited: the result is 1 for a shape without
    requests, else 0.
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


def displaced_gangs(gangs: Sequence[Problem], units: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return the displaced gangs: the gangs that, as counting proves, do not fit beside the earlier gangs. The count
    leaves out earlier gangs that are displaced themselves.

    Empty if `shared_nodes` cannot state the gangs as arrays, if all gangs would be displaced, or if some gang need not
    be placed whole and without evictions. `units`: by gang and resource, the size of one unit in the gang's problem.
    """
    cluster = shared_nodes(gangs, units)
    return frozenset() if cluster is None else displaced_gangs_of(cluster)


def displaced_gangs_of(cluster: SharedNodes) -> frozenset[int]:
    """Return the displaced gangs of `cluster` (`displaced_gangs`)."""
    if any(gang.victims or gang.minimum < len(set_of(gang).members) for gang in cluster.gangs):
        return frozenset()
    classes, out = cluster.pricing.classes, set()
    left = (classes.room * classes.nodes).sum(axis=1)
    for gang, demand in enumerate(cluster.demands):
        takes = cluster.displaced[demand.shape] * demand.members
        if (takes > left).any():
            out.add(gang)
        else:
            left -= takes
    return frozenset(out) if len(out) < len(cluster.gangs) else frozenset()
