"""Gangs of one priority that are planned on one snapshot, and how one of them is stated and planned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cluster.snapshot import Snapshot
from gangs.model import Gang
from planning.decision import Decision
from planning.framing.gang_problem import Framing
from planning.framing.running_gangs import RunningGangs
from solver.heuristics.greedy import unproven
from solver.instance import instance_of
from solver.multi_gang.joint_problem import JointAnswer, Share
from solver.objective import goals_of, is_of_level
from solver.plan import Goal, Plan, Proof
from solver.problem import Limits, Problem
from solver.verify.rules import verify

FrameOne = Callable[[Gang, Snapshot], Framing | Decision]
PlanOne = Callable[[Gang, Snapshot, bool], Decision]


@dataclass(frozen=True, slots=True)
class Tier:
    """Gangs of one priority, in order of precedence, on one snapshot. `frame`: states one of them, or decides at once
    that there is nothing to place; `plan`: plans one alone; it is told whether that is the best for all.
    """

    gangs: tuple[Gang, ...]
    snapshot: Snapshot
    running: RunningGangs
    limits: Limits
    frame: FrameOne
    plan: PlanOne


def share_as_plan(problem: Problem, share: Share, answer: JointAnswer) -> Plan | None:
    """The share as a plan with its goals; None where it breaks a rule. Goals that are proven for all gangs together are
    so for each.
    """
    goals = goals_of(instance_of(problem, evicting=bool(share.victims)), share.nodes, share.victims)
    if answer.proof is not Proof.OPTIMAL:
        known = _before_levels(goals) + answer.levels if answer.levels else 0
        first = (replace(goal, bound=goal.value) for goal in goals[:known])
        goals = (*first, *unproven(problem, goals[known:]))
        if answer.levels == len(problem.levels):
            goals = _with_ranks(problem, goals)
    plan = Plan(share.nodes, share.victims, goals, answer.proof)
    return None if verify(problem, plan) else plan


def _before_levels(goals: Sequence[Goal]) -> int:
    """How many goals come before compactness."""
    return next(place for place, goal in enumerate(goals) if is_of_level(goal.name))


def _with_ranks(problem: Problem, goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """The goals of a gang of one set where compactness is proven on all levels: ranks cannot be better, summed over all
    gangs, where of each on each level neighbours by rank are apart once less than it has domains.
    """
    domains = goals[_before_levels(goals) :][: len(problem.levels)]
    least = {name: goal.value - 1 for name, goal in zip(problem.levels, domains, strict=True)}
    return tuple(
        replace(goal, bound=goal.value)
        if goal.name == "ranks" and (goal.parts or {problem.levels[0]: goal.value}) == least
        else goal
        for goal in goals
    )
