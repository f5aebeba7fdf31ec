"""Domain by domain: the same plans as by trying all of them, and quick where CP-SAT over all nodes is not."""

import pytest
from brute_force import best
from random_problems import random_problem

from solver.case import case_of
from solver.domains import solve_by_domains
from solver.modelling import Solved
from solver.nodes import Node, nodes_of
from solver.plan import Plan, Proof
from solver.problem import Limits, Member, PodSet, Problem, Shape
from solver.search import Found
from solver.solving import solve


@pytest.mark.parametrize("first", range(0, 800, 100))
def test_the_best_of_the_domains_is_the_best_of_all_plans(first: int) -> None:
    found = 0
    for seed in range(first, first + 100):
        problem = random_problem(seed)
        solved = solve_by_domains(case_of(problem, evicting=False), Limits(), worthwhile=0)
        if solved is Found.NONE:
            expected = best(problem)
            assert expected is None or expected.victims, f"seed {seed}: none where there is a plan"
        if not isinstance(solved, Solved):
            continue
        found += 1
        expected = best(problem)
        assert expected is not None, f"seed {seed}: a plan where there is none"
        assert (solved.nodes, ()) == expected, f"seed {seed}"
        assert solved.proven, f"seed {seed}"
    assert found


def test_where_counting_gives_up_the_plan_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first table on that is of two nodes."""
    different = 0
    for seed in range(150):
        case = case_of(random_problem(seed), evicting=False)
        counted = solve_by_domains(case, Limits(), worthwhile=0)
        with monkeypatch.context() as patched:
            patched.setattr("solver.mixtures._EFFORT", 0)
            looked = solve_by_domains(case, Limits(), worthwhile=0)
        different += counted is not looked
        if isinstance(looked, Solved):
            assert isinstance(counted, Solved), f"seed {seed}"
            assert counted.nodes == looked.nodes, f"seed {seed}"
            assert looked.proven, f"seed {seed}"
        elif isinstance(counted, Solved):
            assert len({case.tree.domain(0, node) for row in counted.nodes for node in row if node is not None}) > 1
    assert different


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
