"""Examples that compare the plan of a greedy scheduler with the best plan, as rows of a table.

Two plans are equal if a symmetry of the cluster maps one to the other. A symmetry renames domains and nodes and leaves
the cluster unchanged. Members of one set with equal requests are interchangeable as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from brute_force import PLACE_GOALS, VICTIM_GOALS, Outcome, World
from drawings import placed, refused

from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.objective import goals_of
from solver.plan import Plan, Proof
from solver.problem import PodSet, Problem, Shape
from solver.verify.rules import verify

WIDE, NARROW, NODE = 0, 1, 2
"""Levels: spines and blocks, or blocks and racks, or power domains and racks; and nodes."""

_MANY = re.compile(r"(\S+)\*(\d+)")


@dataclass(frozen=True)
class Placement:
    """The nodes of members by rank, one string for each set.

    `a*3 b` means three members on node a and one on node b. `-` means a member without a node.
    """

    rows: tuple[str, ...]
    evicting: str = ""


def puts(*rows: str, evicting: str = "") -> Placement:
    """A placement and the victims that it costs, by name; `low-*4` are low-0 to low-3."""
    return Placement(rows, evicting)


@dataclass(frozen=True)
class Example:
    """A row of the table.

    `greedy` describes a greedy scheduler's result in words. `walk` is its plan; None: it has none. `best` is the best
    plan, or several plans that are equally good except for the order of node names; None: the problem is infeasible.
    """

    id: str
    greedy: str
    problem: Problem
    best: Placement | tuple[Placement, ...] | None
    walk: Placement | None = None


def hold(example: Example) -> None:
    """Check that the solver proves the example's best plan or its infeasibility.

    The greedy plan, if the example has one, must be worse or break a constraint.
    """
    problem = example.problem
    if example.best is None:
        refused(problem)
    else:
        plan = placed(problem)
        best = example.best if isinstance(example.best, tuple) else (example.best,)
        assert _outline(problem, Outcome(plan.nodes, plan.victims)) in [_outlined(problem, each) for each in best], plan
    if example.walk is not None:
        assert _is_worse(problem, _read(problem, example.walk)), "greedy does as well"


def problem_of(
    resources: Sequence[str],
    nodes: dict[str, tuple[int, ...]],
    shapes: Iterable[tuple[int, ...]],
    *sets: PodSet,
    **rules: Any,
) -> Problem:
    """A problem of several resources. `nodes`: what is free by `spine/block/node`; members may run everywhere."""
    paths = [name.split("/") for name in nodes]
    everywhere = frozenset(range(len(nodes)))
    return Problem(
        levels=("spine", "block", "node")[-len(paths[0]) :],
        resources=tuple(resources),
        nodes=nodes_of(
            Node(path[-1], tuple(path[:-1]), free, (0,) * len(free))
            for path, free in zip(paths, nodes.values(), strict=True)
        ),
        shapes=tuple(Shape(requests, everywhere) for requests in shapes),
        sets=sets,
        minimum=sum(len(each.members) for each in sets),
        **rules,
    )


def _read(problem: Problem, placement: Placement) -> Outcome:
    """Positions for names."""
    nodes = {node.name: position for position, node in enumerate(problem.nodes)}
    running = {victim.key: position for position, victim in enumerate(problem.victims)}
    rows = tuple(tuple(None if name == "-" else nodes[name] for name in _names(row)) for row in placement.rows)
    gone = []
    for name in placement.evicting.split():
        if many := re.fullmatch(r"(\S+-)\*(\d+)", name):
            gone += [running[f"{many[1]}{number}"] for number in range(int(many[2]))]
        else:
            gone.append(running[name])
    return Outcome(rows, tuple(sorted(gone)))


def _names(row: str) -> list[str]:
    names: list[str] = []
    for part in row.split():
        many = _MANY.fullmatch(part)
        names += [many[1]] * int(many[2]) if many else [part]
    return names


def _outlined(problem: Problem, placement: Placement) -> object:
    return _outline(problem, _read(problem, placement))


def _outline(problem: Problem, plan: Outcome) -> object:
    """Return the tree with the running pods, victims and new members of each leaf, without names.

    Two plans that are equal up to a symmetry of the cluster have equal outlines.
    """
    comes: list[Counter[Any]] = [Counter() for _ in problem.nodes]
    for number, (pod_set, row) in enumerate(zip(problem.sets, plan.rows, strict=True)):
        for member, node in zip(pod_set.members, row, strict=True):
            if node is not None:
                comes[node][number, member.shape, member.node is not None] += 1
    leaves = [
        (problem.nodes[node].path, (*_likeness(problem, node, plan.victims), tuple(sorted(comes[node].items()))))
        for node in range(len(problem.nodes))
    ]
    return _folded(leaves)


def _likeness(problem: Problem, node: int, victims: Sequence[int]) -> tuple[object, ...]:
    """Return all attributes that distinguish a node from others, without its name, and its victims in the plan."""
    at = problem.nodes[node]
    return (
        at.free,
        at.terminating,
        tuple((node in shape.nodes, shape.preferences.get(node, 0)) for shape in problem.shapes),
        tuple(rule.group.count(rule.group[node]) for rule in problem.exclusions),
        tuple(
            sorted(
                (
                    each.priority,
                    each.requests,
                    each.started,
                    -1 if each.gang is None else each.gang,
                    tuple(number for number, budget in enumerate(problem.budgets) if position in budget.victims),
                    position in victims,
                )
                for position, each in enumerate(problem.victims)
                if each.node == node
            )
        ),
    )


def _folded(leaves: list[tuple[tuple[str, ...], Any]]) -> object:
    """Leaves with their paths as nested tuples, sorted at every level."""
    if not leaves[0][0]:
        return tuple(sorted(leaf for _, leaf in leaves))
    domains: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
    for path, leaf in leaves:
        domains.setdefault(path[0], []).append((path[1:], leaf))
    return tuple(sorted(map(_folded, domains.values()), key=repr))


def _is_worse(problem: Problem, walk: Outcome) -> bool:
    """Whether a plan breaks a rule or is beaten, by the reference's own reading of the goals."""
    instance = instance_of(problem, evicting=bool(walk.victims))
    plan = Plan(walk.rows, walk.victims, goals_of(instance, walk.rows, walk.victims), Proof.FEASIBLE)
    if verify(problem, plan):
        return True
    best, world = placed(problem), World(problem)
    goals = VICTIM_GOALS + PLACE_GOALS
    found, beaten = (
        [score(world, outcome) for _, score in goals] for outcome in (Outcome(best.nodes, best.victims), walk)
    )
    return bool(found < beaten)
