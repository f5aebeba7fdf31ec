"""Narrowing a case to what a most compact plan can use leaves the best plan in it."""

import pytest
from brute_force import best, is_as_good
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.branch_and_bound.reduction import compact, spread_of
from solver.cp_sat.lexicographic import time_budget_of
from solver.cp_sat.solve import Solved, solve_within
from solver.instance import instance_of
from solver.problem import Limits


@pytest.mark.parametrize("seeds", chunks(1200, 100, fast=60, fresh=18))
def test_the_best_plan_is_among_the_most_compact_ones(seeds: range) -> None:
    narrowed = 0
    for seed in seeds:
        problem = random_problem(seed)
        if problem.minimum < sum(len(pod_set.members) for pod_set in problem.sets):
            continue
        expected = best(problem)
        instance = instance_of(problem, evicting=False)
        if expected is None or expected.victims or not instance.pending:
            continue
        found = compact(instance, time_budget_of(Limits()), worthwhile=0)
        solved = solve_within(found.instance, time_budget_of(Limits()))
        assert isinstance(solved, Solved), f"seed {seed}"
        assert is_as_good(problem, (solved.nodes, ()), expected), f"seed {seed}"
        assert found.spread in (None, spread_of(instance, solved)), f"seed {seed}"
        narrowed += int(found.instance.capacity.sum()) < int(instance.capacity.sum())
    assert narrowed or not has_rare_cases(seeds)
