"""Finds members without a node, and the reasons: members that a plan leaves out, and members that no node could ever
hold.

Reasons have the scheduler's text if there is one (noderesources/fit.go: "Insufficient cpu").
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kube.requests import shortage
from planning.devices.counts import DeviceCount, counts_in
from planning.framing.gang_problem import Framing
from planning.framing.promised_neighbours import AFFINITY
from planning.message import Names
from solver.capacity import scarcest
from solver.plan import NearDomain, Plan
from solver.problem import Problem

NOT_FOUND = "no better plan found in the time given"
"""The reason for a node that has free capacity for a member but takes none, although the gang has no rules."""
_Reason = TypeVar("_Reason", bound=str | Names)
Reasons = Mapping[str, int]
"""By reason, the number of nodes that take no member for this reason, the most frequent reason first."""


@dataclass(frozen=True, slots=True)
class Misfits:
    """Pods of one shape that no node could hold, even if every pod that may be evicted were gone. `reasons`: why the
    nodes cannot hold them.
    """

    pods: tuple[str, ...]
    reasons: Reasons


def left_out(framing: Framing, plan: Plan) -> tuple[int, Reasons]:
    """Return how many members a plan leaves without a node, and the reasons why nodes take none of them.

    No pod is evicted for members beyond the minimum. So a reason says why the capacity that is free after the plan does
    not suffice, or which other rule excludes the node.
    """
    shapes, count = _unplaced(framing.problem, plan.nodes)
    if not count:
        return 0, {}
    free = _free_after(framing.problem, plan.nodes, plan.victims)
    return count, _counted(_reason_by_node(framing.problem, shapes, free, otherwise=_own_rule(framing.problem, plan)))


def left_out_beside(
    framing: Framing, beside: Framing, plan: Plan, in_beside: Plan, takers: Mapping[str, Names]
) -> Mapping[str | Names, int]:
    """Return the reasons why nodes take none of the members without a node, for a gang that was planned together with
    others.

    A node may have capacity for a member before the other gangs are placed, and none after. Then the reason names these
    gangs.

    :param beside: the gang's problem after the other gangs are placed.
    :param in_beside: the plan, with the positions of the problem `beside`.
    :param takers: by node, the reason that names the gangs with new members there.
    """
    shapes, _ = _unplaced(framing.problem, plan.nodes)
    rule = _own_rule(framing.problem, plan)
    alone = _reason_by_node(framing.problem, shapes, _free_after(framing.problem, plan.nodes, plan.victims), rule)
    there, _ = _unplaced(beside.problem, in_beside.nodes)
    free = _free_after(beside.problem, in_beside.nodes, in_beside.victims)
    reasons = dict(zip(beside.nodes, _reason_by_node(beside.problem, there, free, rule), strict=True))
    found: list[str | Names] = []
    for node, reason in zip(framing.nodes, alone, strict=True):
        taken = reason == rule and node in takers and reasons.get(node) != rule
        found.append(takers[node] if taken else reason)
    return _counted(found)


def _unplaced(problem: Problem, nodes: Sequence[Sequence[int | None]]) -> tuple[list[int], int]:
    """Return the shapes of the members without a node, each shape once, and the number of these members.

    `nodes`: the node of each member, by set and rank.
    """
    waiting = [
        member.shape
        for pod_set, row in zip(problem.sets, nodes, strict=True)
        for member, node in zip(pod_set.members, row, strict=True)
        if node is None
    ]
    return list(dict.fromkeys(waiting)), len(waiting)


def _free_after(
    problem: Problem, nodes: Sequence[Sequence[int | None]], victims: Iterable[int]
) -> Sequence[Sequence[int]]:
    """Return the free capacity, by node and then by resource, after a plan's evictions and placements.

    `nodes`: the node of each member, by set and rank. `victims`: the positions of the evicted pods.
    """
    free: list[list[int]] = problem.nodes.free.tolist()
    for victim in (problem.victims[each] for each in victims):
        _add(free[victim.node], victim.requests, 1)
    for pod_set, row in zip(problem.sets, nodes, strict=True):
        for member, node in zip(pod_set.members, row, strict=True):
            if node is not None and member.node is None:
                _add(free[node], problem.shapes[member.shape].requests, -1)
    return free


def _own_rule(problem: Problem, plan: Plan) -> str:
    """Return the reason why a node takes no member although it has free capacity for one.

    The reason is a required level or another rule of the gang. Without such a rule, the reason is that the search found
    no plan in time.
    """
    if _required_domain(problem, plan):
        return f"outside the gang's {problem.levels[problem.required or 0]}"
    between_members = (
        problem.together,
        problem.multiples,
        problem.exclusions,
        problem.separations,
        problem.spreads,
        problem.conflicts,
        problem.affinities,
    )
    of_sets = (each.required is not None or each.slices or each.multiples or each.caps for each in problem.sets)
    return "the gang's own rules" if any(between_members) or any(of_sets) else NOT_FOUND


def misfits(framing: Framing) -> list[Misfits]:
    """Return the members that no node could hold, by shape.

    Empty for a gang whose members share one shape, because the message about the nearest domains says the same.
    """
    problem = framing.problem
    wanting = [
        (member.shape, whose.pod.metadata.name)
        for pod_set, members in zip(problem.sets, framing.members, strict=True)
        for member, whose in zip(pod_set.members, members, strict=True)
        if member.node is None
    ]
    shapes = list(dict.fromkeys(shape for shape, _ in wanting))
    if len(shapes) == 1 or len(framing.nodes) == len(framing.guests):
        return []
    most = problem.nodes.free.tolist()
    for node, requests in zip(problem.victims.node.tolist(), problem.victims.requests.tolist(), strict=True):
        _add(most[node], requests, 1)
    order = _order(problem)
    return [
        Misfits(
            tuple(name for each, name in wanting if each == shape), _counted(_reason_by_node(problem, [shape], most))
        )
        for shape in shapes
        if not any(_short(problem, shape, most[node], order) is None for node in problem.shapes[shape].nodes)
    ]


def limiting_budgets(framing: Framing, nearest: Iterable[NearDomain]) -> tuple[str, ...]:
    """Return the disruption budgets that do not allow the eviction of all pods that could be victims in the domains
    `nearest`.

    `nearest`: the domains that lack capacity for the fewest members.
    """
    problem, names = framing.problem, dict[str, None]()
    places = _places(framing, nearest)
    for budget in problem.budgets:
        if budget.name.startswith(AFFINITY):
            continue
        if sum(int(problem.victims.node[each]) in places for each in budget.victims) > budget.allowed:
            names[budget.name] = None
    return tuple(names)


def overruling_budgets(framing: Framing, nearest: Iterable[NearDomain]) -> tuple[str, ...]:
    """Return the disruption budgets of pods that two budgets cover, on nodes of the domains `nearest` that members may
    use.

    `nearest`: the domains that lack capacity for the fewest members. The Eviction API answers with an error for a pod
    under two budgets.
    """
    if not framing.overruled:
        return ()
    usable = frozenset[int]().union(*(shape.nodes for shape in framing.problem.shapes))
    usable_nodes = [framing.nodes[place] for place in _places(framing, nearest) & usable]
    return tuple(sorted({name for node in usable_nodes for name in framing.overruled.get(node, ())}))


def whole_gangs(framing: Framing, nearest: Iterable[NearDomain]) -> tuple[str, ...]:
    """Return the running gangs that keep the domains `nearest` full and that cannot be evicted, as messages name them.

    `nearest`: the domains that lack capacity for the fewest members. Too many pods of such a gang are on nodes that
    members may use: without these pods, the gang would be below its minimum. The gang cannot be evicted as a whole
    either, because some of its pods may not be evicted.
    """
    problem = framing.problem
    usable = frozenset[int]().union(*(shape.nodes for shape in problem.shapes))
    places, found = _places(framing, nearest) & usable, list[str]()
    members: dict[int, set[int]] = {}
    for victim, whose in enumerate(problem.victims.gang.tolist()):
        members.setdefault(whose, set()).add(victim)
    for position, gang in enumerate(problem.victim_gangs):
        members_of_gang = members.get(position, set())
        inside = {victim for victim in members_of_gang if int(problem.victims.node[victim]) in places}
        parts = [(inside, gang.running - gang.minimum)]
        parts += [(inside & each.victims, each.running - each.minimum) for each in gang.sets]
        if len(members_of_gang) < gang.running and any(len(part) > max(0, spare) for part, spare in parts):
            found.append(gang.name)
    return tuple(sorted(found))


def devices_near(framing: Framing, near: NearDomain) -> tuple[DeviceCount, ...]:
    """Return how many devices of a near domain match what the gang's members need, and how many of them are free."""
    paths, depth = framing.problem.nodes.layout.paths, len(near.path)
    inside = {name for above, name in zip(paths, framing.nodes, strict=False) if (*above, name)[:depth] == near.path}
    return counts_in(inside, framing.devices, near.needed)


def _places(framing: Framing, nearest: Iterable[NearDomain]) -> set[int]:
    """Return the positions of all nodes in the domains `nearest`, without domains that can hold all needed members."""
    paths = [each.path for each in nearest if each.fits < each.needed]
    return {
        position
        for position, above in enumerate(framing.problem.nodes.layout.paths)
        if any((*above, framing.nodes[position])[: len(path)] == path for path in paths)
    }


def _required_domain(problem: Problem, plan: Plan) -> bool:
    """Whether the other members must run in a certain domain, because one domain of a required level must hold the gang
    and a member has a node there.
    """
    return problem.required is not None and any(node is not None for nodes in plan.nodes for node in nodes)


def _reason_by_node(
    problem: Problem, shapes: Sequence[int], free: Sequence[Sequence[int]], otherwise: str = ""
) -> list[str]:
    """Return, for each node, the reason why it holds no member of the shapes; `otherwise` if it has free capacity for
    one.
    """
    found, order = list[str](), _order(problem)
    for node in range(len(problem.nodes)):
        eligible = [shape for shape in shapes if node in problem.shapes[shape].nodes]
        short = [_short(problem, shape, free[node], order) for shape in eligible]
        if not eligible:
            found.append(problem.shapes[shapes[0]].excluded.get(node, "not eligible"))
        else:
            found.append(otherwise if None in short else short[0] or "")
    return found


def _counted(reasons: Iterable[_Reason]) -> Mapping[_Reason, int]:
    """Return how many nodes have each reason, the most frequent reason first."""
    return dict(sorted(Counter(reasons).items(), key=lambda each: (-each[1], str(each[0]))))


def _order(problem: Problem) -> list[int]:
    """Return the positions of the resources, the gang's scarcest resource first.

    Messages name the first resource in this order that is short.
    """
    scarce = scarcest(problem)
    return [scarce, *(each for each in range(len(problem.resources)) if each != scarce)]


def _short(problem: Problem, shape: int, free: Sequence[int], order: Sequence[int]) -> str | None:
    """Return the scheduler's reason for the first resource that is short for a member of the shape; None if none is
    short.

    `free`: the node's free capacity by resource. `order`: positions of resources.
    """
    requests = problem.shapes[shape].requests
    resource = next((problem.resources[each] for each in order if 0 < requests[each] > free[each]), None)
    return None if resource is None else shortage(resource)


def _add(amounts: list[int], more: Sequence[int], sign: int) -> None:
    for position, amount in enumerate(more):
        amounts[position] += sign * amount
