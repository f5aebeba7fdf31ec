"""Evictions over the nodes that can be in a best plan: the plans that trying all of them gives, and quick."""

import random

import pytest
from brute_force import best, is_as_good
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.cp_sat.lexicographic import SolveStatus
from solver.cp_sat.solve import Solved
from solver.eviction.lower_bounds import prices_of
from solver.eviction.solve import solve_evicting
from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.plan import Plan, Proof
from solver.problem import Limits, Member, PodSet, Problem, Shape, Victim, VictimGang, victim_table
from solver.solve import solve
from solver.tree import ROOT


@pytest.mark.parametrize("seeds", chunks(1600, 100, fast=60, fresh=23))
def test_the_best_plan_over_fewer_nodes_is_the_best_of_all_plans(seeds: range) -> None:
    found = 0
    for seed in seeds:
        problem = random_problem(seed)
        expected = best(problem)
        if not problem.victims or (expected is not None and not expected.victims):
            continue
        solved = solve_evicting(instance_of(problem, evicting=True), Limits(), worthwhile=0)
        if isinstance(solved, Solved):
            found += 1
            assert expected is not None, f"seed {seed}: a plan where there is none"
            assert is_as_good(problem, (solved.nodes, solved.victims), expected), f"seed {seed}"
            assert solved.proven, f"seed {seed}"
        elif solved is not None:
            assert (solved, expected) == (SolveStatus.INFEASIBLE, None), f"seed {seed}"
    assert found or not has_rare_cases(seeds)


@pytest.mark.parametrize("seeds", chunks(800, 100, fast=40, fresh=13))
def test_no_best_plan_is_cheaper_than_its_domain(seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        expected = best(problem)
        if expected is None or not expected.victims:
            continue
        level = ROOT if problem.required is None else problem.required
        instance = instance_of(problem, evicting=True)
        prices = prices_of(instance, level)
        assert prices is not None
        used = {node for row in expected.rows for node in row if node is not None}
        (domain,) = {instance.tree.domain(level, node) for node in used}
        price = prices.of(expected.victims)
        new = {
            node
            for pod_set, row in zip(problem.sets, expected.rows, strict=True)
            for member, node in zip(pod_set.members, row, strict=True)
            if node is not None and member.node is None
        }
        assert prices.least(domain) <= price, f"seed {seed}"
        assert new <= set(prices.nodes_within(domain, price)), f"seed {seed}"


def test_32_whole_nodes_among_two_thousand_victims_are_proven_quickly() -> None:
    """3 spines of 10 racks of 40 nodes with 8 slots, hardly any free: pods of 1 to 4 slots, gangs on 4 whole nodes."""
    draw = random.Random(0)  # noqa: S311 -- a repeatable load, not a secret
    paths = [(f"s{rack // 10}", f"r{rack}") for rack in range(30) for _ in range(40)]
    victims: list[Victim] = []
    gangs: list[VictimGang] = []
    free = [8] * len(paths)
    while max(free) == 8 and len(gangs) < 100:
        gangs.append(VictimGang(f"gang-{len(gangs)}", 4, 4))
        for node in [node for node, slots in enumerate(free) if slots == 8][:4]:
            victims.append(Victim(f"v{len(victims)}", node, 0, (8,), len(gangs) - 1, len(victims)))
            free[node] = 0
    for node, slots in enumerate(free):
        left = slots
        while left and (left == 8 or draw.random() < 0.9):
            size = min(left, draw.choice((1, 2, 4, 4)))
            victims.append(Victim(f"v{len(victims)}", node, draw.choice((0, 5)), (size,), None, len(victims)))
            left -= size
        free[node] = left
    nodes = tuple(
        Node(f"n{number}", path, (slots,), (0,)) for number, (path, slots) in enumerate(zip(paths, free, strict=True))
    )
    problem = Problem(
        levels=("spine", "rack", "node"),
        resources=("slots",),
        nodes=nodes_of(nodes),
        shapes=(Shape((8,), frozenset(range(len(nodes)))),),
        sets=(PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(32)), 32),),
        minimum=32,
        required=0,
        victims=victim_table(victims),
        victim_gangs=tuple(gangs),
    )
    plan = solve(problem, Limits(deterministic=1.0))
    assert isinstance(plan, Plan)
    assert plan.proof is Proof.OPTIMAL
    assert plan.goals[0].value == 32


def test_hundreds_of_priorities_do_not_make_the_most_important_victims_infeasible() -> None:
    """Only the last node can be emptied for the member. With 900 priorities, the price of its pods has 1,087 bits."""
    nodes = 450
    problem = Problem(
        levels=("rack", "node"),
        resources=("cpu",),
        nodes=nodes_of(Node(f"n{node}", (f"r{node // 10}",), (0,), (0,)) for node in range(nodes)),
        shapes=(Shape((4,), frozenset(range(nodes))),),
        sets=(PodSet("main", (Member("m0", 0),), 1),),
        minimum=1,
        victims=victim_table(
            Victim(f"v/{node}-{pod}", node, 2 * node + pod, (2 if node == nodes - 1 or not pod else 1,))
            for node in range(nodes)
            for pod in range(2)
        ),
    )
    answer = solve(problem)
    assert isinstance(answer, Plan)
    assert answer.nodes == ((nodes - 1,),)
    assert answer.proof is Proof.OPTIMAL
