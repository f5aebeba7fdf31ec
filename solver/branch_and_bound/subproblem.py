"""A part of an instance: the whole gang on some of the nodes, as a small instance of its own."""

from collections.abc import Sequence
from dataclasses import replace

from solver.instance import Instance, blocked_nodes, instance_of
from solver.objective import Nodes
from solver.problem import NO_VICTIMS, Affinity, PodSet, Problem, Shape


def part_of(instance: Instance, nodes: Sequence[int]) -> Instance:
    """Return the instance in which every member must be placed on these nodes, without evictions. Pinned members must
    be on these nodes already.

    The scarcest resource stays that of the whole instance.
    """
    problem = instance.problem
    place = {node: position for position, node in enumerate(nodes)}
    return instance_of(
        replace(
            problem,
            nodes=problem.nodes.at(nodes),
            shapes=tuple(_shape(instance, each, place) for each in range(len(problem.shapes))),
            sets=tuple(_pod_set(pod_set, place) for pod_set in problem.sets),
            minimum=sum(len(pod_set.members) for pod_set in problem.sets),
            exclusions=tuple(replace(rule, group=_at(rule.group, nodes)) for rule in problem.exclusions),
            separations=tuple(replace(rule, group=_at(rule.group, nodes)) for rule in problem.separations),
            victims=NO_VICTIMS,
            victim_gangs=(),
            budgets=(),
            spreads=tuple(
                replace(rule, group=_at(rule.group, nodes), victims=frozenset()) for rule in instance.spreads
            ),
            conflicts=(),
            affinities=tuple(_among(_with_staying_victims(problem, rule), nodes) for rule in problem.affinities),
        ),
        evicting=False,
        scarce=instance.scarce,
        deadline=instance.deadline,
    )


def whole_nodes(nodes: Sequence[int], rows: Nodes) -> Nodes:
    """Return a plan of a part (`part_of`) with the node positions of the whole instance. `rows`: the plan's nodes by
    set and rank; `nodes`: the positions of the part's nodes.
    """
    return tuple(tuple(None if node is None else nodes[node] for node in row) for row in rows)


def unevicting(problem: Problem) -> Problem:
    """Return the problem as if no pod could be evicted. It must have no topology spread."""
    if not problem.victims:
        return problem
    shapes = problem.shapes
    if problem.conflicts:
        shapes = tuple(replace(each, nodes=each.nodes - blocked_nodes(problem, at)) for at, each in enumerate(shapes))
    return replace(
        problem,
        shapes=shapes,
        victims=NO_VICTIMS,
        victim_gangs=(),
        budgets=(),
        conflicts=(),
        affinities=tuple(_with_staying_victims(problem, rule) for rule in problem.affinities),
    )


def _with_staying_victims(problem: Problem, rule: Affinity) -> Affinity:
    """Return the pod affinity constraint as if no victim may be evicted: its victims count like pods outside the
    problem.
    """
    nodes = [int(problem.victims.node[victim]) for victim in rule.victims]
    there = tuple(
        names | {name for node in nodes if (name := group[node]) is not None}
        for group, names in zip(rule.groups, rule.there, strict=True)
    )
    return replace(rule, there=there, victims=frozenset())


def _among(rule: Affinity, nodes: Sequence[int]) -> Affinity:
    return replace(rule, groups=tuple(_at(group, nodes) for group in rule.groups))


def _shape(instance: Instance, position: int, place: dict[int, int]) -> Shape:
    shape, eligible = instance.problem.shapes[position], instance.eligible(position)
    return Shape(
        requests=shape.requests,
        nodes=frozenset(inner for node, inner in place.items() if node in eligible),
        preferences={inner: shape.preferences[node] for node, inner in place.items() if node in shape.preferences},
    )


def _pod_set(pod_set: PodSet, place: dict[int, int]) -> PodSet:
    members = tuple(
        member if member.node is None else replace(member, node=place[member.node]) for member in pod_set.members
    )
    return replace(pod_set, members=members, minimum=len(members))


def _at(group: tuple[str | None, ...], nodes: Sequence[int]) -> tuple[str | None, ...]:
    return tuple(group[node] for node in nodes)
