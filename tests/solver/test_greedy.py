"""Quick plans of the greedy heuristics: their claims hold, and easy problems always get one."""

import pytest
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.heuristics.greedy import greedy_plans
from solver.plan import Plan, Proof
from solver.problem import Limits
from solver.solve import decide
from solver.verify.rules import verify

INSTANCES = 300
SOUND, FOUND = 0.6, 0.8
"""The least shares: of quick plans, and of gangs that can be placed. Some rules are known to the verifier alone."""


@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=50))
def test_quick_plans_mostly_pass_the_verifier_and_claim_no_more_than_that(seeds: range) -> None:
    made, sound = 0, 0
    for seed in seeds:
        for plan in greedy_plans(random_problem(seed)):
            assert plan.proof is Proof.FEASIBLE
            made += 1
            sound += not verify(random_problem(seed), plan)
    assert sound > SOUND * made or not has_rare_cases(seeds), (made, sound)


@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=50))
def test_there_is_a_quick_plan_for_most_gangs_that_have_one(seeds: range) -> None:
    placeable, found = 0, 0
    for seed in seeds:
        problem = random_problem(seed)
        if isinstance(decide(problem, Limits()), Plan):
            placeable += 1
            found += any(not verify(problem, plan) for plan in greedy_plans(problem))
    assert found > FOUND * placeable or not has_rare_cases(seeds), (placeable, found)
