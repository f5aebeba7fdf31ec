"""When a time limit ends, the solver returns a verified plan with true bounds, or Unproven. It never raises an error.

Limits are in CP-SAT's own unit of work, the same on every machine.
"""

from functools import cache

import pytest
from brute_force import Outcome, best, is_as_good
from claimed_bounds import bounds_hold
from ortools.sat.python.cp_model import CpModel
from random_problems import random_problem
from thorough import chunks

from solver.cp_sat.lexicographic import Search, SolveStatus, TimeBudget, Wall
from solver.deadline import Deadline
from solver.plan import Answer, NoPlan, Proof
from solver.problem import Limits, Problem
from solver.solve import decide
from solver.verify.rules import verify

INSTANCES = 150
LIMITS = [0.0, *(2.0**-exponent for exponent in (14, 12, 10, 8))]


@cache
def reference(seed: int) -> tuple[Problem, Outcome | None]:
    """A problem and its best plan, found by trying every plan."""
    problem = random_problem(seed)
    return problem, best(problem)


@cache
def answer(seed: int, work: float) -> Answer:
    """Return the answer to an instance within `work` units of deterministic time; cached."""
    return worked_out(seed, work)


def worked_out(seed: int, work: float) -> Answer:
    return decide(reference(seed)[0], Limits(deterministic=work, seconds=600.0))


@pytest.mark.parametrize("work", LIMITS)
@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=25))
def test_what_is_claimed_holds_however_little_time_there_is(work: float, seeds: range) -> None:
    for seed in seeds:
        problem, expected = reference(seed)
        found = answer(seed, work)
        if isinstance(found, NoPlan):
            assert found.proof is Proof.UNPROVEN or expected is None, f"seed {seed}: a proof of what is not so"
            continue
        assert expected is not None, f"seed {seed}: a plan where there is none"
        assert verify(problem, found) == (), f"seed {seed}"
        if found.proof is Proof.OPTIMAL:
            assert is_as_good(problem, (found.nodes, found.victims), expected), f"seed {seed}: not the best"
        assert bounds_hold(problem, found, expected), f"seed {seed}: {found.goals}"


@pytest.mark.thorough
def test_every_way_to_end_is_among_them() -> None:
    """Short limits give all four proofs: Optimal and Feasible plans, Infeasible and Unproven rejections."""
    ends = {answer(seed, work).proof for work in LIMITS for seed in range(INSTANCES)}
    assert ends == set(Proof)


@pytest.mark.parametrize("seeds", chunks(INSTANCES, INSTANCES, fast=25))
def test_little_time_gives_the_same_answer_every_time(seeds: range) -> None:
    for seed in seeds:
        assert answer(seed, LIMITS[2]) == worked_out(seed, LIMITS[2]), f"seed {seed}"


def test_time_that_ends_between_two_looks_at_the_clock_is_no_fault() -> None:
    """CP-SAT refuses a limit below 0, and calls the model invalid."""
    looks = iter([0.5])
    cp = CpModel()
    cp.new_int_var(0, 5, "")
    budget = TimeBudget(1.0, Wall(10.0, Deadline(lambda: next(looks, -0.5))))
    assert Search(cp, budget).any_solution() is SolveStatus.UNKNOWN
