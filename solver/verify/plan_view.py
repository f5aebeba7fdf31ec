"""A plan as a list of placed members, as the checks of a plan read it.

This module shares no code with the model that made the plan.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from solver.nodes import Path
from solver.plan import Plan
from solver.problem import Member, Problem


@dataclass(frozen=True, slots=True)
class PlacedMember:
    """A member that has a node in the plan. `new`: the plan gave it this node; False: it is pinned."""

    pod_set: int
    rank: int
    member: Member
    node: int
    new: bool


class PlanView:
    """A plan as a list of placed members, as the checks read it. The plan must have one row of nodes per set, and
    existing nodes.

    `placed`: all members with a node, in order of set and rank. `of_set`: by set, its placed members. `evicted`: the
    victims. `leaving`: by node, the summed requests of its victims.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.of_set = [
            [
                PlacedMember(position, rank, member, node, member.node is None)
                for rank, (member, node) in enumerate(zip(pod_set.members, row, strict=True))
                if node is not None
            ]
            for position, (pod_set, row) in enumerate(zip(problem.sets, plan.nodes, strict=True))
        ]
        self.placed = [each for members in self.of_set for each in members]
        self.evicted = problem.victims.at(plan.victims)
        self.leaving: dict[int, list[tuple[int, ...]]] = {}
        for victim in self.evicted:
            self.leaving.setdefault(victim.node, []).append(victim.requests)
        layout = problem.nodes.layout
        self._paths = {node: (*layout.paths[node], layout.names[node]) for node in {each.node for each in self.placed}}

    def path(self, level: int, node: int) -> Path:
        """Return the path of the domain of `level` (-1: the cluster) that contains a node. The node must have a placed
        member.
        """
        return self._paths[node][: level + 1]

    def domains(self, level: int, placed: Iterable[PlacedMember]) -> Counter[Path]:
        """Return, by path of a domain of `level` (-1: the cluster), how many of the members `placed` the domain has."""
        return Counter(self._paths[each.node][: level + 1] for each in placed)

    def asks(self, each: PlacedMember) -> tuple[int, ...]:
        """Return the amounts that a member requests, by resource."""
        return self.problem.shapes[each.member.shape].requests

    def level(self, level: int) -> str:
        """Return the name of a level, given its position."""
        return self.problem.levels[level]
