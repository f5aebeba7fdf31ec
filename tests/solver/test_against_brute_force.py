"""The solver against a reference that tries every plan, on small random problems.

`PHALANX_BRUTE_FORCE_INSTANCES` says how many (2,000; `make test-long` asks for 20,000).
"""

import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
from brute_force import GOALS, PLACE_GOALS, VICTIM_GOALS, Outcome, World, best, deciding, is_as_good
from random_problems import random_problem
from thorough import chunks

from solver.instance import instance_of
from solver.objective import CRITERIA, criterion, terms
from solver.plan import Answer, NoPlan, Plan, Proof
from solver.problem import Limits, Problem
from solver.solve import by_model, decide, solve
from solver.tree_dp import single_class
from solver.tree_dp.single_class import solve_tree_dp
from solver.verify.rules import verify

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_BRUTE_FORCE_INSTANCES", "2000"))
CHUNK = 100
PATIENT = Limits(seconds=600.0)
"""CP-SAT's own unit of work alone ends a search, so that a slow machine proves the same."""
SAMPLE = 1500
"""Instances over which it is counted how often each goal decides."""


def answers(problem: Problem) -> Iterator[Answer]:
    """Yield the answer of every solution method that the solver has for this problem."""
    yield solve(problem, PATIENT)
    if solve_tree_dp(instance_of(problem, evicting=False)) is not None:
        yield by_model(problem, PATIENT)
        with patch.object(single_class, "_MANY", 1):
            yield decide(problem, PATIENT)


@pytest.mark.parametrize("seeds", chunks(INSTANCES, CHUNK, fast=30))
def test_the_plan_is_the_best_of_all_plans(seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        expected = best(problem)
        for answer in answers(problem):
            if expected is None:
                assert isinstance(answer, NoPlan), f"seed {seed}: a plan where there is none"
                assert answer.proof is Proof.INFEASIBLE, f"seed {seed}"
                continue
            assert isinstance(answer, Plan), f"seed {seed}: no plan where there is one"
            assert is_as_good(problem, (answer.nodes, answer.victims), expected), f"seed {seed}"
            assert answer.proof is Proof.OPTIMAL, f"seed {seed}"
            assert verify(problem, answer) == (), f"seed {seed}"
            assert told(answer) == counted(problem, expected), f"seed {seed}"


def told(plan: Plan) -> dict[str, int]:
    """The plan's own figures."""
    return {goal.name: goal.value for goal in plan.goals}


def counted(problem: Problem, outcome: Outcome) -> dict[str, int]:
    """The reference's values of the goals: of most goals the first number, times -1 where more is better.

    Ties have no number: their value is always 0.
    """
    world, scores = World(problem), dict(VICTIM_GOALS + PLACE_GOALS)
    least = max(problem.minimum, sum(pod_set.minimum for pod_set in problem.sets))
    found: dict[str, int] = {}
    for row in CRITERIA:
        if row.name == "victims":
            found[row.name] = len(outcome.victims)
        elif row.name == "extras":
            found[row.name] = len(world.placed(outcome)) - least
        elif row.by_level:
            spread = scores[row.name](world, outcome)
            found |= {row.named(name): spread[level][0] for level, name in enumerate(problem.levels)}
        elif row.name == "ties":
            found[row.name] = 0
        else:
            first = first_number(scores[row.name](world, outcome))
            found[row.name] = -first if row.more_is_better else first
    return found


def first_number(score: Any) -> int:
    """Return the first number of a score of the reference, whose parts may be nested."""
    while not isinstance(score, int):
        score = score[0]
    return score


def out(goal: str) -> set[str]:
    """Return the solver's terms that correspond to a goal of the reference, or to a part of it (`goal/part`)."""
    name, _, part = goal.partition("/")
    return {part} if part else {term.name for term in criterion(name).terms}


@cache
def deciding_seeds() -> dict[str, list[int]]:
    """By goal, the instances whose best plan would be another one without it."""
    seeds: dict[str, list[int]] = {goal: [] for goal in GOALS}
    for seed in range(SAMPLE):
        for goal in deciding(random_problem(seed)):
            seeds[goal].append(seed)
    return seeds


@pytest.mark.long
@pytest.mark.thorough
def test_every_goal_decides_in_a_hundredth_of_the_instances() -> None:
    deciders: dict[str, set[int]] = {}
    for goal, seeds in deciding_seeds().items():
        deciders.setdefault(goal.split("/")[0], set()).update(seeds)
    shares = {goal: len(seeds) / SAMPLE for goal, seeds in deciders.items()}
    assert min(shares.values()) >= 0.01, shares


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS)
def test_a_solver_without_the_goal_does_not_pass(goal: str) -> None:
    seeds = deciding_seeds()[goal]
    assert seeds
    assert any(differs(seed, terms() - out(goal)) for seed in seeds)
    assert not any(differs(seed, None) for seed in seeds)


def differs(seed: int, wanted: frozenset[str] | None) -> bool:
    problem = random_problem(seed)
    answer = decide(problem, PATIENT, wanted)
    expected = best(problem)
    assert expected is not None
    return not isinstance(answer, Plan) or not is_as_good(problem, (answer.nodes, answer.victims), expected)
