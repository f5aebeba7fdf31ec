"""Many gangs at once, as compact as possible in sum: compared with all possible plans, and for competing gangs."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from drawings import Drawing, pods
from thorough import chunks, has_rare_cases

from solver.cp_sat.lexicographic import time_budget_of
from solver.deadline import Deadline
from solver.multi_gang.column_generation.generation import ColumnGeneration
from solver.multi_gang.column_generation.pricing import (
    INFEASIBLE_COLUMN,
    GangDemand,
    PriceTables,
    PricingProblem,
    node_classes_of,
)
from solver.multi_gang.joint import solve_all_placed
from solver.multi_gang.joint_problem import ManyGangs, Share, faults_of_all_placed
from solver.nodes import Node, NodeTable, nodes_of
from solver.plan import Proof
from solver.problem import Cap, Limits, Member, PodSet, Problem, Shape, Spread
from solver.tree import ROOT, tree_of

LIMITS = Limits(10.0, 600.0)
LEVELS = ("block", "rack", "node")


def together(*gangs: Problem) -> ManyGangs:
    return ManyGangs(gangs, tuple((1,) * len(gang.resources) for gang in gangs))


def domains_of(joint: ManyGangs, shares: tuple[Share | None, ...]) -> list[int]:
    """Level by level, the domains that all gangs touch, summed."""
    rows = [share.nodes[0] for share in shares if share is not None]
    return _spread(joint, [tuple(node for node in row if node is not None) for row in rows])


def test_two_gangs_do_not_both_get_the_rack_that_is_best_for_either() -> None:
    """b0 has four nodes, b1 and b2 three each: the gang of four needs b0, the first of three must leave it."""
    room = Drawing("b0: a b c d\nb1: e f g\nb2: h i j")
    joint = together(room.gang(pods(3)), room.gang(pods(4)), room.gang(pods(3)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares) == [3, 10]
    assert answer.levels == 2
    assert answer.proof is Proof.FEASIBLE
    assert faults_of_all_placed(joint, answer) == ()


def test_a_gang_that_can_spread_at_no_cost_leaves_the_whole_nodes_to_others() -> None:
    """Pods of 4 need half a node each, pods of 8 a whole one: only two nodes are whole."""
    room = Drawing("b0: a=8 b=8 c=4 d=4")
    joint = together(room.gang(pods(2), asks=(4,)), room.gang(pods(2), asks=(8,)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares) == [2, 4]
    assert answer.levels == 2


def test_that_half_a_rack_cannot_be_had_is_known_to_the_bound() -> None:
    """Racks of three nodes hold one gang of two each: the fourth gang is divided, though there are nodes for all."""
    room = Drawing("b0: a b c\nb1: d e f\nb2: g h i")
    joint = together(*(room.gang(pods(2)) for _ in range(4)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares) == [5, 8]
    assert answer.levels == 2


def test_that_whole_members_do_not_part_so_is_known_where_domains_are_few() -> None:
    """Three blocks hold 8, 7 and 8 members. No division of the gangs of 5, 3, 4, 5 and 5 has parts of 8 at most."""
    room = Drawing("b0: a=2 b=4 c d\nb1: e=2 f=2 g h i\nb2: j=2 k=2 l=4")
    joint = together(*(room.gang(pods(count)) for count in (5, 3, 4, 5, 5)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares)[0] == 6
    assert answer.levels >= 1
    assert faults_of_all_placed(joint, answer) == ()


def test_gangs_that_find_no_place_one_after_the_other_are_parted_among_wide_domains() -> None:
    """Two blocks have six nodes each. With both gangs of two in one block, the second gang of four finds no block."""
    room = Drawing("b0: a b c d e f\nb1: g h i j k l")
    joint = together(*(room.gang(pods(count), required=0) for count in (2, 2, 4, 4)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares) == [4, 12]
    assert answer.levels == 2
    assert faults_of_all_placed(joint, answer) == ()


def test_a_gang_with_parts_in_several_wide_domains_is_one_plan() -> None:
    """Five members in blocks of two nodes, and a gang of one that must be in a block with the odd one."""
    room = Drawing("b0: a b\nb1: c d\nb2: e f")
    joint = together(room.gang(pods(1), required=0), room.gang(pods(5)))
    allotting = _generation(joint).allotting
    allotment = allotting.least(0, [], time_budget_of(LIMITS))
    assert allotment is not None
    assert sorted(map(len, allotment.parts)) == [1, 3]
    assert [sum(own.values()) for own in allotment.parts] == [1, 5]
    assert allotment.bound == 4


def test_who_has_no_room_beside_the_earlier_is_left_out_and_the_later_are_not() -> None:
    """Three nodes, gangs of two, two and one: the second has no place, the third has one."""
    room = Drawing("b0: a b c")
    joint = together(*(room.gang(pods(count)) for count in (2, 2, 1)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert [share is None for share in answer.shares] == [False, True, False]
    assert domains_of(joint, answer.shares) == [2, 3]
    assert answer.levels == 2
    assert faults_of_all_placed(joint, answer) == ()
    other = replace(answer, shares=(None, answer.shares[0], answer.shares[2]))
    assert faults_of_all_placed(joint, other) == ("not every gang that has room is placed whole and without evictions",)


def test_gangs_that_ask_for_nothing_are_placed_beside_others() -> None:
    """The gang of two fills both nodes. The other gangs request nothing, so that they share one of these nodes."""
    room = Drawing("b0: a b")
    nothing = room.gang(pods(3), asks=(0,))
    joint = together(nothing, room.gang(pods(2)), nothing)
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares) == [3, 4]
    assert answer.levels == 2
    assert faults_of_all_placed(joint, answer) == ()
    on_one = replace(nothing, shapes=(Shape((0,), room.named("b")),))
    assert solve_all_placed(together(on_one, nothing), LIMITS) is not None


def test_no_answer_where_a_gang_may_be_placed_in_part() -> None:
    room = Drawing("b0: a b c")
    part = room.gang(pods(2))
    part = replace(part, minimum=1, sets=(replace(part.sets[0], minimum=1),))
    assert solve_all_placed(together(part, part), LIMITS) is None


def test_no_answer_for_gangs_with_rules_of_their_own() -> None:
    room = Drawing("b0: a b c d")
    plain = room.gang(pods(2))
    capped = replace(plain, sets=(replace(plain.sets[0], caps=(Cap(0, 1),)),))
    spread = replace(plain, spreads=(Spread((0,), (0,), ("x",) * 4, {"x": 0}, 1),))
    assert solve_all_placed(together(plain, plain), LIMITS) is not None
    assert solve_all_placed(together(plain, capped), LIMITS) is None
    assert solve_all_placed(together(plain, spread), LIMITS) is None


def test_levels_are_not_believed_of_an_answer_that_leaves_somebody_out() -> None:
    room = Drawing("b0: a b c d")
    joint = together(room.gang(pods(2)), room.gang(pods(2)))
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert faults_of_all_placed(joint, replace(answer, shares=(answer.shares[0], None))) != ()
    twice = replace(answer, shares=(answer.shares[0], answer.shares[0]))
    assert faults_of_all_placed(joint, twice) == ("a has too little cpu", "b has too little cpu")


def large(nodes: int, asks: Sequence[tuple[int, int]], members: int, most: int) -> ManyGangs:
    """Return gangs of `members` pods each, on nodes in racks of twenty with mostly different free capacities.

    :param most: the largest number of CPUs of a node.
    """
    room = nodes_of(
        Node(
            f"n{node}",
            (f"b{node // 100}", f"b{node // 100}r{node // 20}"),
            (node * 37 % 65, node * 101 % (most + 1)),
            (0, 0),
        )
        for node in range(nodes)
    )
    pod_set = PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(members)), members)
    everywhere = frozenset(range(nodes))
    return together(
        *(Problem(LEVELS, ("gpu", "cpu"), room, (Shape(each, everywhere),), (pod_set,), members) for each in asks)
    )


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The additions that each look at a pricing took."""
    found: list[int] = []
    prices = PricingProblem.prices

    def counting(pricing: PricingProblem, *args: Any, **options: Any) -> PriceTables:
        tables = prices(pricing, *args, **options)
        found.append(tables.after[0].size * len(tables.after[0]))
        return tables

    monkeypatch.setattr(PricingProblem, "prices", counting)
    return found


def test_bidding_ends_after_a_certain_effort_and_keeps_what_it_found(looked: list[int]) -> None:
    """Tables for six gangs of 256 are expensive. Their effort is counted, and the solver gives a plan nevertheless."""
    joint = large(600, [(1, 1), (2, 3), (3, 5), (1, 2), (2, 4), (3, 1)], 256, 256)
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert all(share is not None for share in answer.shares)
    assert faults_of_all_placed(joint, answer) == ()
    assert sum(looked) < 1_300_000_000


def test_where_the_time_is_over_every_gang_keeps_its_place_after_those_before_it(looked: list[int]) -> None:
    """A machine so slow that nothing can be generated: six looks, one for each gang, and a plan with its bounds."""
    joint = large(600, [(1, 1), (2, 3), (3, 5), (1, 2), (2, 4), (3, 1)], 16, 16)
    answer = solve_all_placed(joint, LIMITS, Deadline(lambda: 0.0))
    assert answer is not None
    assert all(share is not None for share in answer.shares)
    assert faults_of_all_placed(joint, answer) == ()
    assert len(looked) == len(joint.gangs)
    assert answer.levels == 0


def two_resources(nodes: Sequence[str], asks: Sequence[tuple[int, int]], required: int | None = None) -> ManyGangs:
    """Gangs of two pods each. Of nodes with eight GPUs and eight CPUs the racks are given."""
    room = nodes_of(Node(f"n{number}", ("b0", rack), (8, 8), (0, 0)) for number, rack in enumerate(nodes))
    pod_set, everywhere = PodSet("main", (Member("m0", 0), Member("m1", 0)), 2), frozenset(range(len(nodes)))
    return together(
        *(
            Problem(LEVELS, ("gpu", "cpu"), room, (Shape(a, everywhere),), (pod_set,), 2, required=required)
            for a in asks
        )
    )


def test_gangs_limited_by_different_resources_are_placed_though_they_want_the_same_rack() -> None:
    """Both gangs need the only rack of two nodes.

    A node cannot hold a pod with all GPUs and a pod with all CPUs. Counting by shape does not detect this.
    """
    joint = two_resources(("r0", "r0", "r1", "r2"), [(8, 1), (1, 8)])
    answer = solve_all_placed(joint, LIMITS)
    assert answer is not None
    assert domains_of(joint, answer.shares) == [2, 3, 4]
    assert answer.levels == 1
    assert faults_of_all_placed(joint, answer) == ()
    late = solve_all_placed(joint, LIMITS, Deadline(lambda: 0.0))
    assert late is not None
    assert domains_of(joint, late.shares) == [2, 3, 4]


def test_no_answer_where_a_gang_limited_by_another_resource_finds_no_place_at_all() -> None:
    assert solve_all_placed(two_resources(("r0", "r0", "r1", "r2"), [(8, 1), (1, 8)], required=1), LIMITS) is None


def test_gangs_whose_tables_would_be_too_large_are_not_weighed() -> None:
    """21 kinds of members on 4,100 kinds of nodes, for each of up to 97 members: 67 MB for the first table alone."""
    assert solve_all_placed(large(4_100, [(0, each) for each in range(1, 22)], 97, 4_098), LIMITS) is None


@pytest.mark.parametrize("level", range(6))
def test_many_members_on_many_levels_do_not_make_a_place_too_dear(level: int) -> None:
    """With 1,600 members on 60 nodes under five levels, the best plan's cost stays below the cost of infeasibility."""
    nodes = nodes_of(
        Node(f"n{node}", tuple(f"{wide}-{node // wide}" for wide in (32, 16, 8, 4, 2)), (50,), (0,))
        for node in range(60)
    )
    tree = tree_of(nodes, 6)
    holds = np.full((1, 60), 50)
    generation = ColumnGeneration(
        PricingProblem(tree, node_classes_of(tree, holds, holds), 1_600),
        [GangDemand(0, 1_600, ROOT)],
        np.ones((1, 1), int),
    )
    weights = generation.weights(level)
    prices = generation.pricing.prices(weights, np.zeros_like(generation.own), generation.own)
    least = prices.least(generation.demands[0])
    assert weights[level] == max(weights[level:])
    assert least < INFEASIBLE_COLUMN // 2
    uses = generation.pricing.best(prices, generation.demands[0])
    assert generation.pricing.spread(generation.demands[0], uses[0]) == (1, 2, 4, 8, 16, 32)


def random_gangs(seed: int) -> ManyGangs:
    """Two or three gangs of up to three pods each on five nodes in two or three racks of two blocks."""
    dice = random.Random(seed)  # noqa: S311 -- not for secrets
    places = sorted((dice.randrange(2), dice.randrange(2)) for _ in range(5))
    nodes = tuple(
        Node(f"n{position}", (f"b{block}", f"b{block}r{rack}"), (dice.randint(0, 8), dice.randint(4, 16)), (0, 0))
        for position, (block, rack) in enumerate(places)
    )
    return together(*(_gang(dice, nodes) for _ in range(dice.choice((2, 3)))))


def _gang(dice: random.Random, nodes: tuple[Node, ...]) -> Problem:
    asks = dice.choice(((1, 1), (2, 2), (4, 4), (2, 5), (0, 3), (3, 1)))
    everywhere = range(len(nodes))
    eligible = frozenset(everywhere if dice.random() < 0.7 else dice.sample(everywhere, 4))
    members = tuple(Member(f"m{rank}", 0) for rank in range(dice.randint(1, 3)))
    pod_set = PodSet("main", members, len(members))
    required = dice.choice((None, None, 0, 1))
    return Problem(
        LEVELS, ("gpu", "cpu"), nodes_of(nodes), (Shape(asks, eligible),), (pod_set,), len(members), required=required
    )


def only(joint: ManyGangs, gangs: list[int]) -> ManyGangs:
    """Return the joint problem of some of the gangs."""
    return together(*(joint.gangs[gang] for gang in gangs))


def plans(joint: ManyGangs, gang: int = 0, taken: tuple[tuple[int, ...], ...] = ()) -> Iterator[list[int]]:
    """The domains of every plan that places all members, level by level."""
    if gang == len(joint.gangs):
        yield _spread(joint, taken)
        return
    problem = joint.gangs[gang]
    members = len(problem.sets[0].members)
    for row in combinations_with_replacement(sorted(problem.shapes[0].nodes), members):
        level = problem.required
        inside = level is None or len({problem.nodes[node].path[level] for node in row}) == 1
        if inside and _fits(joint, (*taken, row)):
            yield from plans(joint, gang + 1, (*taken, row))


def _fits(joint: ManyGangs, rows: tuple[tuple[int, ...], ...]) -> bool:
    nodes = joint.gangs[0].nodes
    asked = [[0] * len(node.free) for node in nodes]
    for problem, row in zip(joint.gangs, rows, strict=False):
        for node in row:
            for resource, amount in enumerate(problem.shapes[0].requests):
                asked[node][resource] += amount
    return all(
        wants <= 0 or wants <= has
        for node, amounts in zip(nodes, asked, strict=True)
        for wants, has in zip(amounts, node.free, strict=True)
    )


def _spread(joint: ManyGangs, rows: list[tuple[int, ...]] | tuple[tuple[int, ...], ...]) -> list[int]:
    nodes, depth = joint.gangs[0].nodes, len(joint.gangs[0].levels)
    whole = [(*node.path, node.name) for node in nodes]
    return [sum(len({whole[node][: level + 1] for node in row}) for row in rows) for level in range(depth)]


def _generation(joint: ManyGangs) -> ColumnGeneration:
    """Return the column generation of gangs that request one resource and may use all nodes."""
    nodes, depth = joint.gangs[0].nodes, len(joint.gangs[0].levels)
    asks = np.array([gang.shapes[0].requests[0] for gang in joint.gangs])
    members = [len(gang.sets[0].members) for gang in joint.gangs]
    room = nodes.free[:, 0] // asks[:, None]
    tree = tree_of(nodes, depth)
    demands = [
        GangDemand(shape, count, ROOT if gang.required is None else gang.required)
        for shape, (gang, count) in enumerate(zip(joint.gangs, members, strict=True))
    ]
    holds = np.minimum(room, max(members))
    classes = node_classes_of(tree, holds, room)
    return ColumnGeneration(PricingProblem(tree, classes, max(members)), demands, asks[:, None] // asks)


@pytest.mark.parametrize("seeds", chunks(240, 60))
def test_no_plan_has_fewer_domains_than_wide_levels_are_said_to_need(seeds: range) -> None:
    exact = known = 0
    for seed in seeds:
        dice = random.Random(seed)  # noqa: S311 -- not for secrets
        places = sorted((dice.randrange(2), dice.randrange(2)) for _ in range(6))
        room = nodes_of(
            Node(f"n{position}", (f"b{block}", f"b{block}r{rack}"), (dice.randint(0, 4),), (0,))
            for position, (block, rack) in enumerate(places)
        )
        joint = together(*(_of_one_resource(dice, room) for _ in range(dice.choice((2, 3)))))
        best = min(plans(joint), default=None)
        if best is None:
            continue
        allotting = _generation(joint).allotting
        for level in range(2):
            allotment = allotting.least(level, best[:level], time_budget_of(LIMITS))
            assert allotment is not None, seed
            assert allotment.bound <= best[level], seed
            assert [sum(own.values()) for own in allotment.parts] == [len(g.sets[0].members) for g in joint.gangs]
            exact += allotment.bound == best[level]
            known += 1
    assert exact >= known * 9 // 10 > 0 or not has_rare_cases(seeds)


def _of_one_resource(dice: random.Random, nodes: NodeTable) -> Problem:
    members = tuple(Member(f"m{rank}", 0) for rank in range(dice.randint(1, 3)))
    return Problem(
        LEVELS,
        ("cpu",),
        nodes,
        (Shape((dice.choice((1, 1, 2, 3)),), frozenset(range(len(nodes)))),),
        (PodSet("main", members, len(members)),),
        len(members),
        required=dice.choice((None, None, 0, 1)),
    )


@pytest.mark.parametrize("seeds", chunks(240, 60))
def test_what_is_called_proven_is_what_the_best_of_all_plans_touches(seeds: range) -> None:
    placed = proven = left_out = 0
    for seed in seeds:
        joint = random_gangs(seed)
        answer = solve_all_placed(joint, LIMITS)
        if answer is None:
            continue
        placed += 1
        assert faults_of_all_placed(joint, answer) == (), seed
        having: list[int] = []
        for gang, share in enumerate(answer.shares):
            fits = any(True for _ in plans(only(joint, [*having, gang])))
            assert fits is (share is not None), seed
            having += [gang] if fits else []
        best = min(plans(only(joint, having)))
        found = domains_of(joint, answer.shares)
        assert found >= best, seed
        assert found[: answer.levels] == best[: answer.levels], seed
        proven += answer.levels == len(LEVELS)
        left_out += len(having) < len(joint.gangs)
    if has_rare_cases(seeds):
        assert placed >= len(seeds) // 3
        assert left_out >= 1
        assert proven >= placed * 9 // 10
