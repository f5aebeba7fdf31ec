"""Who finds no room, and what is short: members that a plan leaves out, members that no node could ever hold.

Reasons are in the scheduler's words where it has some (noderesources/fit.go: "Insufficient cpu").
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube.requests import shortage
from planning.framing.gang_problem import Framing
from planning.framing.promised_neighbours import AFFINITY
from solver.capacity import scarcest
from solver.plan import NearDomain, Plan
from solver.problem import Problem

Reasons = Mapping[str, int]
"""Nodes by what keeps members off them, the most frequent reason first."""


@dataclass(frozen=True, slots=True)
class Misfits:
    """Pods that no node could hold, whoever were evicted, and why each node cannot."""

    pods: tuple[str, ...]
    reasons: Reasons


def left_out(framing: Framing, plan: Plan) -> tuple[int, Reasons]:
    """How many members a plan leaves without a node, and why each node takes none of them; nothing where it has all.

    Nobody is evicted for members beyond the minimum, so that what is free after the plan decides.
    """
    if all(node is not None for row in plan.nodes for node in row):
        return 0, {}
    problem, shapes = framing.problem, list[int]()
    free = problem.nodes.free.tolist()
    for victim in (problem.victims[each] for each in plan.victims):
        _add(free[victim.node], victim.requests, 1)
    count = 0
    for pod_set, nodes in zip(problem.sets, plan.nodes, strict=True):
        for member, node in zip(pod_set.members, nodes, strict=True):
            if node is None:
                count += 1
                shapes.append(member.shape)
            elif member.node is None:
                _add(free[node], problem.shapes[member.shape].requests, -1)
    inside = _required_domain(problem, plan)
    rule = f"outside the gang's {problem.levels[problem.required or 0]}" if inside else "the gang's own rules"
    return count, _reasons(problem, list(dict.fromkeys(shapes)), free, otherwise=rule)


def misfits(framing: Framing) -> list[Misfits]:
    """Of unlike members, those that no node could hold; nothing of a gang whose members are all alike."""
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
        Misfits(tuple(name for each, name in wanting if each == shape), _reasons(problem, [shape], most))
        for shape in shapes
        if not any(_short(problem, shape, most[node], order) is None for node in problem.shapes[shape].nodes)
    ]


def limiting_budgets(framing: Framing, nearest: Iterable[NearDomain]) -> tuple[str, ...]:
    """Disruption budgets that keep some of the victims in these domains from being evicted."""
    problem, names = framing.problem, dict[str, None]()
    places = _places(framing, nearest)
    for budget in problem.budgets:
        if budget.name.startswith(AFFINITY):
            continue
        if sum(int(problem.victims.node[each]) in places for each in budget.victims) > budget.allowed:
            names[budget.name] = None
    return tuple(names)


def overruling_budgets(framing: Framing, nearest: Iterable[NearDomain]) -> tuple[str, ...]:
    """Disruption budgets of which two are over pods in these domains, on nodes that members may use: the Eviction API
    answers with an error for those pods.
    """
    if not framing.overruled:
        return ()
    usable = frozenset[int]().union(*(shape.nodes for shape in framing.problem.shapes))
    usable_nodes = [framing.nodes[place] for place in _places(framing, nearest) & usable]
    return tuple(sorted({name for node in usable_nodes for name in framing.overruled.get(node, ())}))


def whole_gangs(framing: Framing, nearest: Iterable[NearDomain]) -> tuple[str, ...]:
    """Running gangs of which too many pods are in these domains, on nodes that members may use, and not all of which
    may be evicted: they cannot go as a whole.
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


def _places(framing: Framing, nearest: Iterable[NearDomain]) -> set[int]:
    """The nodes of the domains that miss members."""
    paths = [each.path for each in nearest if each.fits < each.needed]
    return {
        position
        for position, above in enumerate(framing.problem.nodes.layout.paths)
        if any((*above, framing.nodes[position])[: len(path)] == path for path in paths)
    }


def _required_domain(problem: Problem, plan: Plan) -> bool:
    """Whether one domain must hold the gang, and the plan is in one."""
    return problem.required is not None and any(node is not None for nodes in plan.nodes for node in nodes)


def _reasons(problem: Problem, shapes: Sequence[int], free: Sequence[Sequence[int]], otherwise: str = "") -> Reasons:
    """Why nodes hold none of the shapes; `otherwise` of a node that has room for one."""
    found, order = Counter[str](), _order(problem)
    for node in range(len(problem.nodes)):
        eligible = [shape for shape in shapes if node in problem.shapes[shape].nodes]
        short = [_short(problem, shape, free[node], order) for shape in eligible]
        if not eligible:
            found[problem.shapes[shapes[0]].excluded.get(node, "not eligible")] += 1
        else:
            found[otherwise if None in short else short[0] or ""] += 1
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _order(problem: Problem) -> list[int]:
    """The resources, the gang's scarcest first: the one that people are told of."""
    scarce = scarcest(problem)
    return [scarce, *(each for each in range(len(problem.resources)) if each != scarce)]


def _short(problem: Problem, shape: int, free: Sequence[int], order: Sequence[int]) -> str | None:
    """The resource that is short for a member of the shape; None where none is."""
    requests = problem.shapes[shape].requests
    resource = next((problem.resources[each] for each in order if 0 < requests[each] > free[each]), None)
    return None if resource is None else shortage(resource)


def _add(amounts: list[int], more: Sequence[int], sign: int) -> None:
    for position, amount in enumerate(more):
        amounts[position] += sign * amount
