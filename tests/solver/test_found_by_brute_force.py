"""Regression tests for faults that the random problems have found, each reduced to a minimal problem."""

from dataclasses import replace

from drawings import Drawing, placed, pods, rows

from solver.problem import Limits, Multiple
from solver.solve import by_model
from solver.verify.rules import verify


def test_a_gang_that_needs_nobody_is_placed_with_nobody_where_nobody_fits() -> None:
    """No node has room; the model had no domain of which to leave the least room."""
    problem = Drawing("b0: a=0\nb1: b=0").gang(pods(2, minimum=0), minimum=0)
    plan = placed(problem)
    assert rows(problem, plan) == ["- -"]
    assert by_model(problem, Limits()) == plan
    assert verify(problem, plan) == ()


def test_a_gang_that_needs_nobody_is_placed_with_nobody_where_a_rule_forbids_all() -> None:
    """There is room for three, which are to come in fours."""
    problem = Drawing("b0: a=1 b=2").gang(pods(3, minimum=0), minimum=0)
    plan = placed(replace(problem, multiples=(Multiple(0, 4),)))
    assert rows(problem, plan) == ["- - -"]
