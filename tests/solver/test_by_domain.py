"""Domain by domain: the same plans as by trying all of them, and quick where CP-SAT over all nodes is not."""

import tracemalloc
from itertools import product

import pytest
from brute_force import best, is_as_good
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.branch_and_bound.by_domain import solve_by_domains
from solver.cp_sat.lexicographic import SolveStatus
from solver.cp_sat.solve import Solved
from solver.instance import Instance, instance_of
from solver.nodes import Node, nodes_of
from solver.plan import Plan, Proof
from solver.problem import Limits, Member, PodSet, Problem, Shape
from solver.solve import solve
from solver.tree import ROOT
from solver.tree_dp.multi_class import mixtures_of
from solver.tree_dp.multi_class_tables import TooMuchError


@pytest.mark.parametrize("seeds", chunks(800, 100, fast=40, fresh=13))
def test_the_best_of_the_domains_is_the_best_of_all_plans(seeds: range) -> None:
    found = 0
    for seed in seeds:
        problem = random_problem(seed)
        solved = solve_by_domains(instance_of(problem, evicting=False), Limits(), worthwhile=0)
        if solved is SolveStatus.INFEASIBLE:
            expected = best(problem)
            assert expected is None or expected.victims, f"seed {seed}: none where there is a plan"
        if not isinstance(solved, Solved):
            continue
        found += 1
        expected = best(problem)
        assert expected is not None, f"seed {seed}: a plan where there is none"
        assert is_as_good(problem, (solved.nodes, ()), expected), f"seed {seed}"
        assert solved.proven, f"seed {seed}"
    assert found or not has_rare_cases(seeds)


@pytest.mark.parametrize("seeds", chunks(150, 150, fast=30))
def test_where_counting_gives_up_the_plan_is_the_same(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first table on that is of two nodes."""
    different = 0
    for seed in seeds:
        instance = instance_of(random_problem(seed), evicting=False)
        counted = solve_by_domains(instance, Limits(), worthwhile=0)
        with monkeypatch.context() as patched:
            patched.setattr("solver.tree_dp.multi_class._EFFORT", 0)
            looked = solve_by_domains(instance, Limits(), worthwhile=0)
        different += counted is not looked
        if isinstance(looked, Solved):
            assert isinstance(counted, Solved), f"seed {seed}"
            assert counted.nodes == looked.nodes, f"seed {seed}"
            assert looked.proven, f"seed {seed}"
        elif isinstance(counted, Solved) and not instance.spreads:
            assert len({instance.tree.domain(0, node) for row in counted.nodes for node in row if node is not None}) > 1
    assert different or not has_rare_cases(seeds)


def test_mixed_members_among_a_thousand_nodes_are_proven_quickly() -> None:
    """4 spines of 25 racks of 10 nodes; node n of a rack has n + (0 to 2) slots free."""
    nodes = tuple(
        Node(f"s{spine}-r{rack}-n{n}", (f"s{spine}", f"s{spine}-r{rack}"), (n + rack % 3,), (0,))
        for spine in range(4)
        for rack in range(25)
        for n in range(10)
    )
    everywhere = frozenset(range(len(nodes)))
    members = tuple(Member(f"m{rank}", shape) for rank, shape in enumerate((0, 1, 1, 2, 2, 2)))
    problem = Problem(
        levels=("spine", "rack", "node"),
        resources=("slots",),
        nodes=nodes_of(nodes),
        shapes=tuple(Shape((slots,), everywhere) for slots in (8, 5, 3)),
        sets=(PodSet("main", members, len(members)),),
        minimum=len(members),
    )
    plan = solve(problem, Limits(deterministic=1.0))
    assert isinstance(plan, Plan)
    assert plan.proof is Proof.OPTIMAL
    assert {nodes[node].path for node in plan.nodes[0] if node is not None} == {nodes[plan.nodes[0][0] or 0].path}


def _flat(sizes: tuple[tuple[int, int], ...], *members: int) -> Instance:
    """Return an instance of nodes without parent domains, and one set for each shape.

    :param sizes: the GPUs and processors of each node.
    :param members: the number of members of each shape.
    """
    everywhere = frozenset(range(len(sizes)))
    sets = tuple(
        PodSet(f"s{shape}", tuple(Member(f"s{shape}-{rank}", shape) for rank in range(count)), count)
        for shape, count in enumerate(members)
    )
    problem = Problem(
        levels=("node",),
        resources=("gpus", "processors"),
        nodes=nodes_of(Node(f"n{place}", (), size, (0, 0)) for place, size in enumerate(sizes)),
        shapes=(Shape((2, 5), everywhere), Shape((1, 7), everywhere))[: len(members)],
        sets=sets,
        minimum=sum(members),
    )
    return instance_of(problem, evicting=False)


_DIFFERENT = tuple(product(range(1, 9), range(5, 255)))
"""Sizes of 2,000 nodes, no two of them equal."""


def test_counting_in_a_flat_cluster_takes_memory_in_proportion_to_its_nodes() -> None:
    instance = _flat(_DIFFERENT, 8, 4)
    tracemalloc.start()
    try:
        mixtures = mixtures_of(instance)
        assert mixtures is not None
        assert mixtures.narrowed(ROOT, 0).capacity.any()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000 * len(_DIFFERENT), "bytes"


def test_the_way_back_counts_as_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = _flat(_DIFFERENT, 8, 4)
    mixtures = mixtures_of(instance)
    assert mixtures is not None
    before = mixtures.effort.left
    mixtures.best(ROOT, 0)
    there = before - mixtures.effort.left
    mixtures.narrowed(ROOT, 0)
    both = before - mixtures.effort.left
    assert 2 * there < both < before / 2
    monkeypatch.setattr("solver.tree_dp.multi_class._EFFORT", both - 1)
    mixtures = mixtures_of(instance)
    assert mixtures is not None
    with pytest.raises(TooMuchError):
        mixtures.narrowed(ROOT, 0)
    assert solve_by_domains(instance, Limits(deterministic=0.1)) is None


def test_nodes_that_are_alike_cost_no_more_than_those_that_the_gang_can_use() -> None:
    spent, held = [], []
    for count in (12, 3_000):
        mixtures = mixtures_of(_flat(((8, 64),) * count, 8, 4))
        assert mixtures is not None
        before = mixtures.effort.left
        held.append(mixtures.narrowed(ROOT, 0).capacity)
        spent.append(before - mixtures.effort.left)
    assert spent[0] == spent[1]
    assert held[0].any()
    assert (held[0] == held[0][:, :1]).all()
    assert (held[1][:, :12] == held[0]).all()
    assert not held[1][:, 12:].any()


def test_a_gang_in_a_flat_cluster_of_nodes_that_are_alike_is_proven() -> None:
    solved = solve_by_domains(_flat(((8, 64),) * 2_000, 8, 4), Limits())
    assert isinstance(solved, Solved)
    assert solved.proven
