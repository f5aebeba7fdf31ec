"""The alternative to a plan: the best plan outside the domain that the plan uses, and the first goal in which it is
worse.
"""

from collections.abc import Iterator
from dataclasses import replace

from solver.deadline import NO_DEADLINE, Deadline
from solver.instance import Instance, instance_of
from solver.objective import criterion, goals_of
from solver.plan import Goal, NextDoor, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.solve import decide


def next_door(problem: Problem, plan: Plan, limits: Limits, deadline: Deadline = NO_DEADLINE) -> NextDoor | None:
    """Return the best plan outside the domain that `plan` uses, compared with `plan`.

    The domain is of the narrowest level above the node of which one domain holds the plan. None if no such level has
    several domains, if pinned members leave no choice, or if the alternative is not proven in time.
    """
    instance = instance_of(problem, evicting=bool(plan.victims))
    level = _level(instance, plan)
    if level is None or instance.pinned:
        return None
    home = {instance.tree.domain(level, node) for row in plan.nodes for node in row if node is not None}
    inside = frozenset(node for domain in home for node in instance.tree.nodes(level, domain))
    shapes = tuple(replace(shape, nodes=shape.nodes - inside) for shape in problem.shapes)
    name = problem.levels[level]
    other = decide(replace(problem, shapes=shapes), limits, deadline=deadline)
    if isinstance(other, NoPlan):
        return NextDoor(name) if other.proof is Proof.INFEASIBLE else None
    if other.proof is not Proof.OPTIMAL:
        return None
    used = sorted({instance.tree.domain(level, node) for row in other.nodes for node in row if node is not None})
    paths = tuple(instance.tree.paths[level][domain] for domain in used)
    goals = goals_of(instance_of(problem, evicting=bool(other.victims)), other.nodes, other.victims)
    for goal, part, own, other_value in _pairs(plan.goals, goals):
        if own != other_value:
            return NextDoor(name, paths, goal, part, own, other_value) if _worse(goal, own, other_value) else None
    return NextDoor(name, paths)


def _level(instance: Instance, plan: Plan) -> int | None:
    """Return the level of the domain that the alternative to `plan` must avoid; None if there is no such level.

    It is the narrowest level above the node that has several domains and of which one domain holds the plan.
    """
    for level in range(instance.tree.depth - 2, -1, -1):
        used = {instance.tree.domain(level, node) for row in plan.nodes for node in row if node is not None}
        if len(used) == 1 and instance.tree.count(level) > 1:
            return level
    return None


def _pairs(goals: tuple[Goal, ...], others: tuple[Goal, ...]) -> Iterator[tuple[str, str, int, int]]:
    """Yield the values to compare of two plans, in the order of the goals: goal, part, and the value in both plans.

    The parts of a goal come first, if both plans have the same parts. Then comes the goal's own value, with part "".
    `goals`: of the one plan; `others`: of the other.
    """
    for one, other in zip(goals, others, strict=True):
        if one.parts.keys() == other.parts.keys():
            yield from ((one.name, part, value, other.parts[part]) for part, value in one.parts.items())
        yield one.name, "", one.value, other.value


def _worse(goal: str, value: int, other_value: int) -> bool:
    """Return whether `other_value` is worse than `value` in this goal."""
    return other_value < value if criterion(goal).more_is_better else other_value > value
