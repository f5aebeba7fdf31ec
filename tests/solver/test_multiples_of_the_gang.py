"""Numbers per domain that are multiples, counted over all sets of a gang together."""

from itertools import product

import pytest
from drawings import Drawing, pods

from solver.plan import NoPlan, Plan
from solver.problem import Multiple, Problem
from solver.solve import solve
from solver.verify.rules import verify

SPINE, BLOCK = 0, 1

TWO_SPINES = Drawing("""
    x/x0: a=4
    x/x1: b=2
    y/y0: c=6
    y/y1: d=4
""")
"""Slots by block: 4 and 2, 6 and 4."""


def blocks(problem: Problem, plan: Plan) -> dict[str, int]:
    """Members by node; each block has one."""
    seated = [node for row in plan.nodes for node in row if node is not None]
    return {problem.nodes[node].name: seated.count(node) for node in sorted(set(seated))}


def test_twelve_pods_of_two_sets_in_threes_by_spine_and_twos_by_block() -> None:
    """Taking all that y offers leaves 10 + 2, which are no threes; 6 and 6 are."""
    problem = TWO_SPINES.gang(
        pods(1, name="master"), pods(11, name="worker"), multiples=(Multiple(SPINE, 3), Multiple(BLOCK, 2))
    )
    plan = solve(problem)
    assert isinstance(plan, Plan)
    assert verify(problem, plan) == ()
    by_block = blocks(problem, plan)
    assert by_block["a"] + by_block["b"] == 6
    assert all(count % 2 == 0 for count in by_block.values())


def test_a_set_may_break_what_the_gang_keeps() -> None:
    """One master and three workers are two twos together, though neither is by itself."""
    problem = Drawing("s/p: a=2\ns/q: b=2").gang(
        pods(1, name="master"), pods(3, name="worker"), multiples=(Multiple(BLOCK, 2),)
    )
    plan = solve(problem)
    assert isinstance(plan, Plan)
    assert blocks(problem, plan) == {"a": 2, "b": 2}


SIZES = [(masters, workers, of) for masters, workers, of in product((1, 2), (2, 3, 4), (2, 3)) if masters + workers < 6]


@pytest.mark.parametrize(("masters", "workers", "of"), SIZES)
def test_there_is_a_plan_exactly_where_trying_everything_finds_one(masters: int, workers: int, of: int) -> None:
    free = {"a": 3, "b": 2, "c": 1}
    problem = Drawing("s/p: a=3\ns/q: b=2\ns/r: c=1").gang(
        pods(masters, name="m"), pods(workers, name="w"), multiples=(Multiple(BLOCK, of),)
    )
    total = masters + workers
    possible = any(
        sum(counts) == total and all(count % of == 0 for count in counts)
        for counts in product(*(range(room + 1) for room in free.values()))
    )
    answer = solve(problem)
    assert isinstance(answer, NoPlan) is not possible
    if isinstance(answer, Plan):
        assert verify(problem, answer) == ()


def test_the_verifier_sees_a_broken_multiple() -> None:
    free = Drawing("s/p: a=3\ns/q: b=1").gang(pods(1, name="m"), pods(3, name="w"))
    plan = solve(free)
    assert isinstance(plan, Plan)
    strict = Drawing("s/p: a=3\ns/q: b=1").gang(pods(1, name="m"), pods(3, name="w"), multiples=(Multiple(BLOCK, 2),))
    assert "the gang is not in multiples of 2 in each block" in verify(strict, plan)
