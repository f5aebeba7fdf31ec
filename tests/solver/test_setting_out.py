"""CP-SAT starts from a quick plan if there is one: the final plan is equal with and without it."""

from unittest.mock import patch

from random_problems import random_problem

from solver.cp_sat.lexicographic import Search, SolveStatus
from solver.cp_sat.solve import Solved, solve_model
from solver.heuristics.greedy import greedy_plans
from solver.instance import Instance, instance_of
from solver.plan import Plan
from solver.problem import Limits

PATIENT = Limits(seconds=600.0)


def solved_from(instance: Instance, start: Plan | None) -> tuple[Solved | SolveStatus, int]:
    """The answer, and how often a first solution was looked for."""
    looks, any_solution = [], Search.any_solution

    def counted(search: Search) -> SolveStatus:
        looks.append(search)
        return any_solution(search)

    with patch.object(Search, "any_solution", counted):
        return solve_model(instance, PATIENT, start=start), len(looks)


def test_the_answer_is_the_same_and_no_first_solution_is_looked_for() -> None:
    spared = evicting = 0
    for seed in range(75):
        problem = random_problem(seed)
        plan = next(greedy_plans(problem), None)
        if plan is None:
            continue
        instance = instance_of(problem, evicting=bool(plan.victims))
        (expected, _), (found, looks) = solved_from(instance, None), solved_from(instance, plan)
        assert found == expected, f"seed {seed}"
        spared += not looks
        evicting += bool(plan.victims) and not looks
    assert spared > 17
    assert evicting > 3


def test_a_plan_with_evictions_is_no_start_where_nobody_goes() -> None:
    tried = 0
    for seed in range(150):
        problem = random_problem(seed)
        plan = next(greedy_plans(problem), None)
        if plan is None or not plan.victims:
            continue
        instance = instance_of(problem, evicting=False)
        assert solved_from(instance, plan) == solved_from(instance, None), f"seed {seed}"
        tried += 1
    assert tried > 6
