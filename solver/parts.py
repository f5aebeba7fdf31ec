"""A part of a case: the whole gang inside some of the nodes, as a small case of its own."""

from collections.abc import Sequence
from dataclasses import replace

from solver.case import Case, case_of
from solver.problem import NO_VICTIMS, Exclusion, PodSet, Shape
from solver.scoring import Nodes


def part_of(case: Case, nodes: Sequence[int]) -> Case:
    """The case of placing every member on these nodes, without evictions. Expects pinned members to be on them.

    What is scarcest stays what it is in the whole case.
    """
    problem = case.problem
    place = {node: position for position, node in enumerate(nodes)}
    return case_of(
        replace(
            problem,
            nodes=problem.nodes.at(nodes),
            shapes=tuple(_shape(shape, place) for shape in problem.shapes),
            sets=tuple(_pod_set(pod_set, place) for pod_set in problem.sets),
            minimum=sum(len(pod_set.members) for pod_set in problem.sets),
            exclusions=tuple(_exclusion(rule, nodes) for rule in problem.exclusions),
            victims=NO_VICTIMS,
            victim_gangs=(),
            budgets=(),
        ),
        evicting=False,
        scarce=case.scarce,
    )


def whole_nodes(nodes: Sequence[int], rows: Nodes) -> Nodes:
    """Rows of a part in the positions of the whole case."""
    return tuple(tuple(None if node is None else nodes[node] for node in row) for row in rows)


def _shape(shape: Shape, place: dict[int, int]) -> Shape:
    return Shape(
        requests=shape.requests,
        nodes=frozenset(here for node, here in place.items() if node in shape.nodes),
        preferences={here: shape.preferences[node] for node, here in place.items() if node in shape.preferences},
    )


def _pod_set(pod_set: PodSet, place: dict[int, int]) -> PodSet:
    members = tuple(
        member if member.node is None else replace(member, node=place[member.node]) for member in pod_set.members
    )
    return replace(pod_set, members=members, minimum=len(members))


def _exclusion(rule: Exclusion, nodes: Sequence[int]) -> Exclusion:
    return replace(rule, group=tuple(rule.group[node] for node in nodes))
