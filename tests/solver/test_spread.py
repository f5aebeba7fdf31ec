"""Topology spread among the members, planned and not checked afterwards."""

from collections import Counter
from random import Random

import pytest
from brute_force import best, is_as_good
from drawings import Drawing, placed, pods, refused, rows
from thorough import mostly

from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.plan import Plan, Proof
from solver.problem import Cap, Limits, Member, PodSet, Problem, Shape, Slice, Spread
from solver.solve import by_model, decide
from solver.tree_dp.single_class_tables import ways_to_count

pytestmark = pytest.mark.repetitive

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


def alike_members_of_three_levels(draw: Random) -> Problem:
    """Return a random problem: up to ten members of one shape, up to three blocks, and one or two spread rules.

    The first rule spreads over blocks, racks or nodes, a second one over blocks. Some problems have a required level, a
    cap or slices as well.
    """
    racks = [
        (f"b{block}", f"b{block}r{rack}") for block in range(draw.randint(1, 3)) for rack in range(draw.randint(1, 3))
    ]
    paths = [path for path in racks for _ in range(draw.randint(1, 4))]
    room = [draw.choice((0, 1, 2, 3, 4, 8)) for _ in paths]
    nodes = [Node(f"n{at}", path, (room[at], 20), (draw.choice((0, 0, 0, 1)), 0)) for at, path in enumerate(paths)]
    group = draw.choice(([path[0] for path in paths], [path[1] for path in paths], [node.name for node in nodes]))
    skews, count = (1, 1, 1, 2, 3), draw.randint(1, 10)
    before = {name: draw.choice((0, 0, 0, 1, 2)) if draw.random() < 0.3 else 0 for name in sorted(set(group))}
    rules = [Spread((0,), (0,), tuple(group), before, draw.choice(skews))]
    if draw.random() < 0.15:
        blocks = tuple(path[0] for path in paths)
        rules.append(Spread((0,), (0,), blocks, dict.fromkeys(sorted(set(blocks)), 0), draw.choice(skews)))
    held = draw.randrange(len(nodes)) if draw.random() < 0.1 else None
    members = tuple(Member(f"m{rank}", 0, held if rank == 0 else None) for rank in range(count))
    least = draw.choice((count, count, draw.randint(0, count)))
    pod_set = PodSet(
        "main",
        members,
        least,
        required=draw.choice((None, None, None, 0, 1)) if held is None else None,
        slices=(Slice(draw.choice((0, 1)), 2),) * (least == count and not count % 2 and draw.random() < 0.25),
        caps=(Cap(draw.choice((0, 1, 2)), draw.randint(1, 4)),) * (draw.random() < 0.2),
    )
    shape = Shape((1, 1), frozenset(at for at in range(len(nodes)) if draw.random() < 0.95), {}, {0: 5})
    levels, resources = ("block", "rack", "node"), ("gpu", "pods")
    return Problem(levels, resources, nodes_of(nodes), (shape,), (pod_set,), least, spreads=tuple(rules))


def by_counting(problem: Problem) -> int:
    """Return the number of cases that counting distinguishes; 0 if counting cannot solve the problem."""
    return len(ways_to_count(instance_of(problem, evicting=False)) or ())


@pytest.mark.parametrize("seeds", mostly([range(100)], [range(start, start + 100) for start in range(100, 600, 100)]))
def test_plans_of_alike_members_are_those_of_brute_force(seeds: range) -> None:
    counted = 0
    for seed in seeds:
        problem = alike_members(Random(seed))  # noqa: S311 - repeatable, not secret
        counted += by_counting(problem) > 0
        answer, expected = decide(problem, Limits()), best(problem)
        if expected is None:
            assert answer.proof is Proof.INFEASIBLE, f"seed {seed}"
            continue
        assert isinstance(answer, Plan), f"seed {seed}"
        assert is_as_good(problem, (answer.nodes, answer.victims), expected), f"seed {seed}"
        assert answer.proof is Proof.OPTIMAL, f"seed {seed}"
    assert counted > 60


@pytest.mark.parametrize("seeds", mostly([range(100)], [range(100, 200)]))
def test_plans_by_counting_are_those_of_the_model(seeds: range) -> None:
    """Counting and the CP-SAT model give equal nodes, goals and proofs for any final count of the emptiest group."""
    in_several_ways = 0
    for seed in seeds:
        problem = alike_members_of_three_levels(Random(seed))  # noqa: S311 - repeatable, not secret
        in_several_ways += by_counting(problem) > 1
        counted, modelled = decide(problem, Limits()), by_model(problem, Limits(seconds=600.0, deterministic=60.0))
        assert counted == modelled, f"seed {seed}"
    assert in_several_ways > 20


def test_few_groups_are_counted_once_for_each_number_that_the_emptiest_may_end_with() -> None:
    zones = {"x": 0, "y": 0}
    all_three = TWO_ZONES.gang(pods(3), spreads=(Spread((0,), (0,), ZONES, zones, 1),))
    assert by_counting(all_three) == 1  # one in the emptiest, two in the other
    assert by_counting(TWO_ZONES.gang(pods(3), spreads=(Spread((0,), (0,), ZONES, zones, 2),))) == 2
    many = ("a", "b", "c", "d")
    assert by_counting(TWO_ZONES.gang(pods(3), spreads=(Spread((0,), (0,), many, dict.fromkeys(many, 0), 1),))) == 1


def test_a_spread_of_members_that_are_not_alike_says_how_many_the_emptiest_group_has() -> None:
    """Nine members over two zones: four in one and five in the other, which the bound on domains knows at once."""
    two = tuple(Shape((request,), frozenset(range(4))) for request in (1, 2))
    members = tuple(Member(f"m{rank}", rank % 2) for rank in range(9))
    nodes = nodes_of([Node(f"n{at}", (zone,), (99,), (0,)) for at, zone in enumerate(ZONES)])
    sets = (PodSet("main", members, 9),)
    rule = Spread((0, 1), (0, 1), ZONES, {"x": 0, "y": 0}, 1)
    problem = Problem(("zone", "node"), ("gpu",), nodes, two, sets, 9, spreads=(rule,))
    plan = decide(problem, Limits())
    assert isinstance(plan, Plan)
    assert plan.proof is Proof.OPTIMAL
    assert sorted(Counter(ZONES[node] for node in plan.nodes[0] if node is not None).values()) == [4, 5]
