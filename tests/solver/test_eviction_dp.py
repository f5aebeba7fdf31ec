"""Plans with evictions for gangs of equal members: counting gives the plans of the brute-force search."""

from dataclasses import replace
from random import Random

import pytest
from brute_force import best, is_as_good
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.cp_sat.solve import Solved
from solver.eviction.dynamic_programme import solve_eviction_dp
from solver.eviction.lower_bounds import prices_of
from solver.eviction.node_victims import VictimSearch
from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.plan import Plan
from solver.problem import DisruptionBudget, Member, PodSet, Problem, Shape, Victim, VictimGang, victim_table
from solver.solve import solve
from solver.tree import ROOT


def _paid(problem: Problem) -> object:
    instance = instance_of(problem, evicting=True)
    prices = prices_of(instance, ROOT if problem.required is None else problem.required)
    return None if prices is None else solve_eviction_dp(instance, prices)


@pytest.mark.parametrize("seeds", chunks(3000, 500, fast=100, fresh=45))
def test_the_best_plan_by_counting_is_the_best_of_all_plans(seeds: range) -> None:
    found = 0
    for seed in seeds:
        problem = random_problem(seed)
        expected = best(problem)
        if not problem.victims or (expected is not None and not expected.victims):
            continue
        instance = instance_of(problem, evicting=True)
        if not instance.pending:
            continue
        prices = prices_of(instance, ROOT if problem.required is None else problem.required)
        solved = None if prices is None else solve_eviction_dp(instance, prices)
        if solved is not None:
            found += 1
            assert expected is not None, f"seed {seed}: a plan where there is none"
            assert is_as_good(problem, (solved.nodes, solved.victims), expected), f"seed {seed}"
            assert solved.proven
    assert found > len(seeds) // 100 or not has_rare_cases(seeds)


def test_a_spread_that_counts_victims_is_left_to_other_methods() -> None:
    """Zone y has 4 pods and zone x 1, with maxSkew 2: two members need an eviction in y, though y has free nodes."""
    problem = random_problem(1999368251)
    assert any(rule.victims and not rule.counted for rule in problem.spreads)
    assert _paid(problem) is None
    expected, plan = best(problem), solve(problem)
    assert expected is not None
    assert expected.victims
    assert isinstance(plan, Plan)
    assert is_as_good(problem, (plan.nodes, plan.victims), expected)


def _gangs_that_go_whole(seed: int) -> Problem:
    """Return a problem with running gangs at their minimum on several nodes, and with running pods without a gang.

    Each running pod is as large as the pending members or a little larger. The amounts are so large that the digits of
    a price do not fit in one machine word.
    """
    draw = Random(seed)  # noqa: S311 - instances are to be repeatable, not secret
    large = 1 << 38
    nodes = draw.randint(4, 6)
    gangs: tuple[int | None, ...] = (0, 0, 1, draw.choice((1, None)), draw.choice((0, 1, None)), None)
    places = [*range(nodes), *range(nodes)]
    draw.shuffle(places)
    members = draw.randint(1, 3)
    return Problem(
        levels=("rack", "node"),
        resources=("memory",),
        nodes=nodes_of(Node(f"n{node}", (f"r{draw.randint(0, 1)}",), (0,), (0,)) for node in range(nodes)),
        shapes=(Shape((large,), frozenset(range(nodes))),),
        sets=(PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(members)), members),),
        minimum=members,
        required=draw.choice((None, 0)),
        victims=victim_table(
            Victim(f"v/{place}", node, 0, (large + draw.randint(0, 15),), gang=gang)
            for place, (node, gang) in enumerate(zip(places, gangs, strict=False))
        ),
        victim_gangs=tuple(VictimGang(f"g{gang}", gangs.count(gang), gangs.count(gang)) for gang in (0, 1)),
    )


@pytest.mark.parametrize("seeds", chunks(1200, 300, fast=60, fresh=15))
def test_shares_of_gangs_that_go_whole_add_up_over_several_words(seeds: range) -> None:
    """A share of a high digit that ran over into the next word made a split gang look one too cheap."""
    found = 0
    for seed in seeds:
        problem = _gangs_that_go_whole(seed)
        prices = prices_of(instance_of(problem, evicting=True), ROOT if problem.required is None else problem.required)
        solved = _paid(problem)
        if isinstance(solved, Solved):
            assert prices is not None
            found += len(prices.weights.cuts) > 1
            assert (solved.nodes, solved.victims) == best(problem), f"seed {seed}"
    assert found > len(seeds) // 60 or not has_rare_cases(seeds)


#  r0: a (two small victims)   b (one large)   c (one large, started later)
CHOICE = Problem(
    levels=("rack", "node"),
    resources=("gpu",),
    nodes=nodes_of(Node(name, ("r0",), (0,), (0,)) for name in "abc"),
    shapes=(Shape((4,), frozenset({0, 1, 2})),),
    sets=(PodSet("main", (Member("m0", 0),), 1),),
    minimum=1,
    victims=victim_table(
        (
            Victim("v/0", 0, 0, (2,)),
            Victim("v/1", 0, 0, (2,)),
            Victim("v/2", 1, 0, (4,), started=1),
            Victim("v/3", 2, 0, (4,), started=2),
        )
    ),
)


def test_fewer_victims_then_those_that_started_last() -> None:
    assert _paid(CHOICE) is not None
    assert solve(CHOICE).victims == (3,)  # type: ignore[union-attr]


def test_a_plan_that_a_budget_forbids_is_not_taken_for_the_best() -> None:
    """The relaxation's best plan evicts c, which its budget forbids. So counting gives no result; search finds b."""
    problem = replace(CHOICE, budgets=(DisruptionBudget("v/tenth", frozenset({3}), 0),))
    assert _paid(problem) is None
    assert solve(problem).victims == (2,)  # type: ignore[union-attr]


def test_a_gang_that_would_go_whole_is_not_cut() -> None:
    victims = (*CHOICE.victims[:3], replace(CHOICE.victims[3], gang=0), Victim("v/4", 0, 0, (0,), gang=0))
    problem = replace(CHOICE, victims=victim_table(victims), victim_gangs=(VictimGang("g", 2, 2),))
    assert solve(problem).victims == (2,)  # type: ignore[union-attr]


def test_nobody_goes_from_an_overcommitted_node_that_is_not_used() -> None:
    nodes = nodes_of(replace(node, free=(-1,)) for node in CHOICE.nodes)
    room = victim_table(replace(victim, requests=(victim.requests[0] + 1,)) for victim in CHOICE.victims)
    problem = replace(CHOICE, nodes=nodes, victims=room)
    assert _paid(problem) is not None
    assert solve(problem).victims == (3,)  # type: ignore[union-attr]


def test_too_many_choices_on_one_node_are_left_to_the_search() -> None:
    """Forty pods of forty sizes, of which about half would do: more choices than can be looked at."""
    victims = victim_table(Victim(f"v/{size}", 0, 0, (40 + size, 80 - size)) for size in range(40))
    shape = Shape((1200, 1200), frozenset({0}))
    problem = Problem(
        levels=("node",),
        resources=("cpu", "gpu"),
        nodes=nodes_of([Node("a", (), (0, 0), (0, 0))]),
        shapes=(shape,),
        sets=(PodSet("main", (Member("m0", 0),), 1),),
        minimum=1,
        victims=victims,
    )
    instance = instance_of(problem, evicting=True)
    choice = VictimSearch(instance, 0, dict.fromkeys(range(40), 1), shape.requests).best(1)
    assert choice is not None
    assert not choice.exact
    assert _paid(problem) is None


def test_too_many_choices_on_all_nodes_together_are_left_to_the_search() -> None:
    """No node has more choices than can be looked at, but there are many nodes."""
    nodes, pods = 400, 10
    draw = Random(1)  # noqa: S311 - as above
    problem = Problem(
        levels=("node",),
        resources=("cpu", "memory"),
        nodes=nodes_of(Node(f"n{node}", (), (0, 0), (0, 0)) for node in range(nodes)),
        shapes=(Shape((12_000, 48_000), frozenset(range(nodes))),),
        sets=(PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(8)), 8),),
        minimum=8,
        victims=victim_table(
            Victim(f"v/{node}-{pod}", node, 0, (draw.randint(500, 4_000), draw.randint(500, 16_000)))
            for node in range(nodes)
            for pod in range(pods)
        ),
    )
    instance = instance_of(problem, evicting=True)
    prices = prices_of(instance, ROOT)
    assert prices is not None
    requests = problem.shapes[0].requests
    choices = [VictimSearch(instance, node, prices.shares_on(node), requests).best(1) for node in range(3)]
    assert [choice is None or choice.exact for choice in choices] == [True, True, True]
    assert _paid(problem) is None
