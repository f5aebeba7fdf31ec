"""Exclusions whose groups lack some nodes: domains with equal content are subject to different rules."""

import pytest
from drawings import Drawing, placed, pods, rows

from solver.problem import Exclusion, Limits
from solver.solve import by_model

TWO_ALIKE = Drawing("s0/b0: a=3\ns0/b1: b=2 c=2\ns1/b2: d=3\ns1/b3: e=2 f=2")
SPINES = (("x", None), (None, "x"))
"""The group of the nodes of each spine."""


def one_each(groups: tuple[str | None, str | None]) -> tuple[Exclusion, ...]:
    """At most one member on the nodes of a group."""
    return (Exclusion((0,), tuple(groups[spine] for spine in (0, 0, 0, 1, 1, 1))),)


@pytest.mark.parametrize("groups", SPINES)
@pytest.mark.parametrize("required", [None, 0, 1, 2])
def test_a_domain_that_may_not_hold_them_says_nothing_about_one_like_it(
    groups: tuple[str | None, str | None], required: int | None
) -> None:
    """The spine without a group takes both on one node, the one of which least is left."""
    problem = TWO_ALIKE.gang(pods(2, required=required), exclusions=one_each(groups))
    plan = placed(problem)
    assert rows(problem, plan) == ["e e" if groups[0] else "b b"]
    assert by_model(problem, Limits()) == plan
