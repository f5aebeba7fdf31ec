"""Capacity that terminating pods still hold: the last part of goal 3, before waste.

`a=2~2` is a node with two free slots, both still held by terminating pods.
"""

import pytest
from brute_force import best, is_as_good
from drawings import PATIENT, Drawing, placed, pods, rows

from solver.branch_and_bound.by_domain import solve_by_domains
from solver.cp_sat.solve import Solved
from solver.instance import instance_of
from solver.plan import Plan, Proof
from solver.problem import Problem
from solver.solve import by_model, decide
from solver.tree import ROOT
from solver.tree_dp.multi_class import mixtures_of
from solver.verify.rules import verify

TIGHT_BUT_TERMINATING = """
    s0/b0: a=2~2
    s0/b1: b=4
"""
WIDE = """
    s0/b0: a=2~2 b=2~1
    s0/b1: c=2~1 d=2
    s1/b2: e=3 f=3
    s1/b3: g=4~4 h=1~1
"""


def best_by_every_way(problem: Problem) -> list[str]:
    """The nodes that all ways to plan agree on, proven, and as the reference has them."""
    plan, expected = placed(problem), best(problem)
    for answer in (plan, by_model(problem, PATIENT), decide(problem, PATIENT)):
        assert isinstance(answer, Plan)
        assert expected is not None
        assert is_as_good(problem, (answer.nodes, answer.victims), expected)
        assert answer.proof is Proof.OPTIMAL
        assert verify(problem, answer) == ()
    return rows(problem, plan)


def terminating(problem: Problem) -> int:
    """The plan's value of the goal."""
    return next(goal.value for goal in placed(problem).goals if goal.name == "terminating")


def test_the_place_that_is_free_now_wins_over_the_one_that_leaves_less() -> None:
    problem = Drawing(TIGHT_BUT_TERMINATING).gang(pods(2))
    assert best_by_every_way(problem) == ["b b"]
    assert terminating(problem) == 0


def test_members_of_several_kinds_wait_for_as_little_as_members_of_one() -> None:
    problem = Drawing(TIGHT_BUT_TERMINATING).gang(pods(1, name="one"), pods(1, name="two", shapes=[1]), asks=(1, 1))
    assert best_by_every_way(problem) == ["b", "b"]


def test_members_of_several_kinds_in_one_set_wait_for_as_little() -> None:
    """The brute-force reference compares the order of ranks only after this goal."""
    problem = Drawing("s0/b0: a=3~3\ns0/b1: b=6").gang(pods(2, shapes=[0, 1]), asks=(1, 2))
    assert best_by_every_way(problem) == ["b b"]


def test_compactness_comes_first() -> None:
    problem = Drawing("s0/b0: a=2~2\ns0/b1: b c").gang(pods(2))
    assert best_by_every_way(problem) == ["a a"]
    assert terminating(problem) == 2


def test_the_domain_of_which_terminating_pods_hold_less_wins_though_both_wait() -> None:
    problem = Drawing("s0/b0: a=3~3\ns0/b1: b=5~4").gang(pods(3))
    assert best_by_every_way(problem) == ["b b b"]
    assert terminating(problem) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_every_number_of_members_is_as_the_reference_says(count: int) -> None:
    best_by_every_way(Drawing(WIDE).gang(pods(count)))
    best_by_every_way(Drawing(WIDE).gang(pods(count, shapes=[each % 2 for each in range(count)]), asks=(1, 2)))


def test_at_the_same_price_the_eviction_that_leaves_nothing_to_wait_for_wins() -> None:
    """Both nodes lose one pod. Terminating pods would still hold two of the slots that the gang uses on `a`."""
    problem = Drawing("s0/b0: a=2~2+low\ns0/b1: b=2+low*3").gang(pods(3, required=1))
    assert best_by_every_way(problem) == ["b b b"]
    assert terminating(problem) == 0


def test_a_cost_that_has_no_place_for_it_gives_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes have terminating pods. A cost of 14 bits has no place for them, and the way down compares them."""
    text = """
        s0/b0: a=2~2 b=2~1
        s0/b1: c=2~1 d=3~3
        s1/b2: e=3~2 f=2~2
    """
    problem = Drawing(text).gang(pods(2, name="one"), pods(1, name="two", shapes=[1]), asks=(1, 2))
    instance, expected = instance_of(problem, evicting=False), best(problem)
    assert expected is not None
    bounds = set[int]()
    for bits in (14, 59):
        monkeypatch.setattr("solver.tree_dp.multi_class.COST_BITS", bits)
        mixtures = mixtures_of(instance)
        assert mixtures is not None
        solved = solve_by_domains(instance, PATIENT, worthwhile=0)
        assert isinstance(solved, Solved), bits
        assert (solved.nodes, solved.proven) == (expected.rows, True), bits
        in_cluster = mixtures.best(ROOT, 0)
        assert in_cluster is not None
        bounds.add(in_cluster.terminating)
        assert mixtures.narrowed(ROOT, 0).reached["terminating", ""] == terminating(problem), bits
    assert bounds == {0, terminating(problem)}
