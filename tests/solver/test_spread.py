"""Topology spread among the members, planned and not checked afterwards."""

from random import Random

import pytest
from brute_force import best
from drawings import Drawing, placed, pods, refused, rows

from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.plan import Plan, Proof
from solver.problem import Limits, Member, PodSet, Problem, Shape, Spread
from solver.solve import decide
from solver.tree_dp.single_class_tables import countable

TWO_ZONES = Drawing("b0: a=4 b=4\nb1: c=4 d=4")
ZONES = ("x", "x", "y", "y")


def spread(skew: int = 1, counts: dict[str, int] | None = None, **rules: bool) -> Spread:
    return Spread((0,), (0,), ZONES, counts or {"x": 0, "y": 0}, skew, **rules)


def test_four_pods_are_two_and_two_though_one_node_holds_them_all() -> None:
    problem = TWO_ZONES.gang(pods(4), spreads=(spread(),))
    assert rows(problem, placed(problem)) == ["a a c c"]


def test_a_skew_of_two_lets_one_zone_have_three() -> None:
    problem = TWO_ZONES.gang(pods(4), spreads=(spread(2),))
    assert rows(problem, placed(problem)) == ["a a a c"]


def test_pods_that_are_there_count() -> None:
    """Zone x has three others: four go to y, and then x may have more."""
    problem = TWO_ZONES.gang(pods(4), spreads=(spread(counts={"x": 3, "y": 0}),))
    assert rows(problem, placed(problem)) == ["c c c c"]
    problem = TWO_ZONES.gang(pods(6), spreads=(spread(counts={"x": 3, "y": 0}),))
    assert rows(problem, placed(problem)) == ["a a c c c c"]


def test_a_zone_without_a_node_here_stays_the_emptiest() -> None:
    """At most one pod in each of the others."""
    counts = {"x": 0, "y": 0, "z": 0}
    problem = TWO_ZONES.gang(pods(2), spreads=(spread(counts=counts),))
    assert rows(problem, placed(problem)) == ["a c"]
    answer = refused(TWO_ZONES.gang(pods(3), spreads=(spread(counts=counts),)))
    assert "topology spread dropped" in answer.would_fit_if


def test_too_few_zones_count_as_one_that_is_empty() -> None:
    refused(TWO_ZONES.gang(pods(4), spreads=(spread(from_zero=True),)))


def test_members_that_run_already_count_and_stay() -> None:
    problem = TWO_ZONES.gang(pods(4, held={0: 0, 1: 0}), spreads=(spread(),))
    assert rows(problem, placed(problem)) == ["a a c c"]


def alike_members(draw: Random) -> Problem:
    """Up to three members among up to six nodes of three racks, spread over nodes or racks that hold others already."""
    paths = sorted((f"r{draw.randrange(3)}",) for _ in range(draw.randint(2, 6)))
    nodes = [Node(f"n{at}", path, (draw.randrange(4), 9), (0, 0)) for at, path in enumerate(paths)]
    names = tuple(node.name if draw.random() < 0.5 else None for node in nodes)
    group = draw.choice(((*(node.name for node in nodes),), (*(node.path[0] for node in nodes),), names))
    elsewhere = ["elsewhere"] * (draw.random() < 0.2)
    counts = {name: draw.choice((0, 0, 1, 2)) for name in sorted({*group} - {None}, key=str) if name is not None}
    counts |= dict.fromkeys(elsewhere, 0)
    held = draw.randrange(len(nodes)) if draw.random() < 0.3 else None
    members = tuple(Member(f"m{rank}", 0, held if rank == 0 else None) for rank in range(draw.randint(1, 3)))
    shape = Shape((1, 1), frozenset(range(len(nodes))), {}, {0: 5} if draw.random() < 0.3 else {})
    counted = () if draw.random() < 0.1 else (0,)
    rule = Spread((0,), counted, group, counts, draw.choice((1, 1, 2)), draw.random() < 0.15)
    least = draw.randint(0, len(members))
    sets = (PodSet("main", members, least),)
    return Problem(("rack", "node"), ("gpu", "pods"), nodes_of(nodes), (shape,), sets, least, spreads=(rule,))


def by_counting(problem: Problem) -> bool:
    return countable(instance_of(problem, evicting=False)) is not None


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 600, 100)])
def test_plans_of_alike_members_are_those_of_brute_force(seeds: range) -> None:
    counted = 0
    for seed in seeds:
        problem = alike_members(Random(seed))  # noqa: S311 - repeatable, not secret
        counted += by_counting(problem)
        answer, expected = decide(problem, Limits()), best(problem)
        if expected is None:
            assert answer.proof is Proof.INFEASIBLE, f"seed {seed}"
            continue
        assert isinstance(answer, Plan), f"seed {seed}"
        assert (answer.nodes, answer.victims, answer.proof) == (*expected, Proof.OPTIMAL), f"seed {seed}"
    assert counted > 40


def test_more_empty_groups_than_members_are_counted_and_few_are_not() -> None:
    few, many = ("x", "x", "y", "y"), ("a", "b", "c", "d")
    assert not by_counting(TWO_ZONES.gang(pods(3), spreads=(Spread((0,), (0,), few, {"x": 0, "y": 0}, 1),)))
    assert by_counting(TWO_ZONES.gang(pods(3), spreads=(Spread((0,), (0,), many, dict.fromkeys(many, 0), 1),)))
