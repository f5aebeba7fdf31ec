"""Filling a domain quickly puts as many members there as trying all places does."""

from dataclasses import replace

import pytest
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.cp_sat.solve import Solved, solve_model
from solver.explain.nearest import inside
from solver.heuristics.packing import filled, thinned
from solver.instance import Instance, instance_of
from solver.objective import Nodes
from solver.plan import Plan, Proof
from solver.problem import Limits, Problem
from solver.tree import ROOT
from solver.verify.rules import broken_rules


def without_minimums(problem: Problem) -> Problem:
    sets = tuple(replace(pod_set, minimum=0) for pod_set in problem.sets)
    return replace(problem, sets=sets, minimum=0, required=None)


def most(instance: Instance) -> int | None:
    """Return the largest number of members that can be placed; None if the running members break a constraint."""
    solved = solve_model(instance, Limits(), frozenset({"extras"}))
    return placed(solved.nodes) if isinstance(solved, Solved) else None


def placed(nodes: Nodes) -> int:
    return sum(node is not None for row in nodes for node in row)


@pytest.mark.parametrize("seeds", chunks(600, 100, fresh=15))
def test_what_is_filled_at_once_holds_as_many_as_can_be(seeds: range) -> None:
    found = 0
    for seed in seeds:
        problem = without_minimums(random_problem(seed))
        instance = instance_of(problem, evicting=False)
        for level in range(ROOT, instance.tree.depth - 1):
            for domain in range(instance.tree.count(level)):
                nodes = filled(instance, level, domain)
                if nodes is None:
                    continue
                found += placed(nodes) > 1
                assert placed(nodes) == most(inside(instance, level, domain)), f"seed {seed}"
                assert not broken_rules(problem, Plan(nodes, (), (), Proof.FEASIBLE)), f"seed {seed}"
    assert found or not has_rare_cases(seeds)


@pytest.mark.parametrize("seeds", chunks(660, 100, fast=60, fresh=11))
def test_without_spare_nodes_there_is_room_for_as_many(seeds: range) -> None:
    thinner = 0
    for seed in seeds:
        instance = instance_of(without_minimums(random_problem(seed)), evicting=False)
        thin = thinned(instance)
        assert most(thin) == most(instance), f"seed {seed}"
        instance = instance_of(random_problem(seed), evicting=False)
        fits = [isinstance(solve_model(each, Limits(), frozenset()), Solved) for each in (instance, thinned(instance))]
        assert fits[0] == fits[1], f"seed {seed}"
        thinner += int(thin.capacity.sum()) < int(instance.capacity.sum())
    assert thinner or not has_rare_cases(seeds)
