"""Checks the bounds that a plan claims against the best plan."""

from brute_force import Outcome

from solver.instance import instance_of
from solver.objective import criterion, goals_of
from solver.plan import Goal, Plan
from solver.problem import Problem


def bounds_hold(problem: Problem, plan: Plan, expected: Outcome) -> bool:
    """Whether the best plan keeps the bounds of every goal until the plan is worse in one, that one included."""
    instance = instance_of(problem, evicting=bool(expected.victims))
    for mine, least in zip(plan.goals, goals_of(instance, expected.rows, expected.victims), strict=True):
        if not allows(mine, least.value):
            return False
        if (mine.value, mine.parts) != (least.value, least.parts):
            return True
    return True


def allows(goal: Goal, value: int) -> bool:
    """Whether the goal's bound allows a plan with this value."""
    return value <= goal.bound if criterion(goal.name).more_is_better else value >= goal.bound
