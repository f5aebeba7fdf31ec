"""The random problems ask for everything that a problem can ask for, and often enough it makes the difference."""

import pytest
from brute_force import Outcome, best
from features import FEATURES
from random_problems import random_problem

from solver.plan import Plan
from solver.problem import Limits, Problem
from solver.solve import decide

pytestmark = [pytest.mark.timeout(3600), pytest.mark.thorough, pytest.mark.long]
"""Not to be held against a slow machine."""

SAMPLE = 400
DRAWN = 0.02
"""The least share of the instances that have a feature."""
DECIDING = 2
"""The least number of instances for each feature in which it decides.

A feature decides if a solver without it gives another plan, or gives a plan although the problem is infeasible.
"""


def answer(problem: Problem) -> Outcome | None:
    """The solver's plan alone."""
    found = decide(problem, Limits(seconds=600.0))
    return Outcome(found.nodes, found.victims) if isinstance(found, Plan) else None


def frequencies() -> dict[str, tuple[float, int]]:
    """Return, by feature, the share of instances that have it, and the number of instances in which it decides.

    The count of deciding instances stops at the number that the tests require.
    """
    drawn, deciding = dict.fromkeys(FEATURES, 0), dict.fromkeys(FEATURES, 0)
    for problem in map(random_problem, range(SAMPLE)):
        expected = best(problem)
        for name, without in FEATURES.items():
            blind = without(problem)
            if blind != problem:
                drawn[name] += 1
                if deciding[name] < DECIDING:
                    deciding[name] += answer(blind) != expected
    return {name: (drawn[name] / SAMPLE, deciding[name]) for name in FEATURES}


def test_each_feature_is_drawn_and_a_solver_blind_to_it_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    found = frequencies()
    with capsys.disabled():
        print(f"\n{'feature':50} drawn")  # noqa: T201 - a report for whoever runs the tests
        for name, (drawn, _) in found.items():
            print(f"{name:50} {drawn:5.1%}")  # noqa: T201
    rare = {name: shares for name, shares in found.items() if shares[0] < DRAWN}
    idle = {name: shares for name, shares in found.items() if shares[1] < DECIDING}
    assert (rare, idle) == ({}, {})
