"""The verifier finds every way in which a plan can be wrong: each rule is broken once, each figure is bent once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.nodes import Node, nodes_of
from solver.plan import Goal, Plan, Proof
from solver.problem import (
    Cap,
    DisruptionBudget,
    Exclusion,
    Member,
    Multiple,
    PodSet,
    Problem,
    Shape,
    Slice,
    Spread,
    Together,
    Victim,
    VictimGang,
    VictimSet,
    victim_table,
)
from solver.solve import solve
from solver.verify.rules import verify

# block b0: rack r0: a b     block b1: rack r0: e f
#           rack r1: c d
# Every node can hold two pods. Nodes d and f run two evictable pods each; those on d belong to one gang.
PATHS = {
    "a": ("b0", "r0"),
    "b": ("b0", "r0"),
    "c": ("b0", "r1"),
    "d": ("b0", "r1"),
    "e": ("b1", "r0"),
    "f": ("b1", "r0"),
}
A, B, C, D, E, F = range(6)
BLOCK, RACK, NODE = 0, 1, 2
BASE = Problem(
    levels=("block", "rack", "node"),
    resources=("pods",),
    nodes=nodes_of(Node(name, path, (0,) if name in "df" else (2,), (0,)) for name, path in PATHS.items()),
    shapes=(Shape((1,), frozenset(range(6))),),
    sets=(PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(4)), 4),),
    minimum=4,
    victims=victim_table(
        Victim(f"v{place}", node, 0, (1,), gang)
        for place, (node, gang) in enumerate([(D, 0), (D, 0), (F, None), (F, None)])
    ),
    victim_gangs=(VictimGang("old", 2, 2),),
)


def with_set(**changes: Any) -> Problem:
    return replace(BASE, sets=(replace(BASE.sets[0], **changes),))


def two_sets(**changes: Any) -> Problem:
    members = BASE.sets[0].members
    return replace(BASE, sets=(PodSet("one", members[:2], 2), PodSet("two", members[2:], 2)), **changes)


BROKEN_RULES = {
    "a pinned member is moved": (
        with_set(members=(Member("m0", 0, A), *BASE.sets[0].members[1:])),
        ((B, B, A, A),),
        (),
        "does not stay",
    ),
    "a node is not eligible": (
        replace(BASE, shapes=(Shape((1,), frozenset({A, B})),)),
        ((A, A, B, C),),
        (),
        "may not run on c",
    ),
    "a node is too full": (BASE, ((A, A, A, B),), (), "a has too little pods"),
    "a victim's room is used that has not gone": (BASE, ((A, A, D, D),), (), "d has too little pods"),
    "the gang's minimum is missed": (with_set(minimum=2), ((A, A, B, None),), (), "4 must be"),
    "a set's minimum is missed": (replace(BASE, minimum=2), ((A, A, B, None),), (), "fewer than its 4"),
    "the gang leaves its required level": (replace(BASE, required=RACK), ((A, A, B, C),), (), "domains of rack"),
    "a set leaves its required level": (with_set(required=RACK), ((A, A, B, C),), (), "set main is in several"),
    "sets that belong together are apart": (
        two_sets(together=(Together((0, 1), RACK),)),
        ((A, A), (C, C)),
        (),
        "share no domain of rack",
    ),
    "a slice is torn": (with_set(slices=(Slice(RACK, 2),)), ((A, C, C, A),), (), "a slice of set main"),
    "a count is no multiple": (with_set(multiples=(Multiple(RACK, 2),)), ((A, A, B, C),), (), "multiples of 2"),
    "a cap is exceeded": (with_set(caps=(Cap(RACK, 2),)), ((A, A, B, C),), (), "more than 2 members"),
    "members exclude each other": (
        replace(BASE, exclusions=(Exclusion((0,), ("a", "b", "c", "d", "e", "f")),)),
        ((A, B, C, C),),
        (),
        "exclude each other are in c",
    ),
    "members are not spread as they must be": (
        replace(BASE, spreads=(Spread((0,), (0,), ("b0", "b0", "b0", "b0", "b1", "b1"), {"b0": 1, "b1": 0}, 2),)),
        ((A, A, B, E),),
        (),
        "b0 has 3 pods more than the emptiest, not 2",
    ),
    "a running gang is cut below its minimum": (BASE, ((A, A, B, D),), (0,), "below its minimum of 2"),
    "a set of a running gang is cut below its minimum": (
        replace(BASE, victim_gangs=(VictimGang("old", 3, 1, (VictimSet("a", frozenset({0, 1}), 2, 2),)),)),
        ((A, A, B, D),),
        (0,),
        "set a of gang old is cut to 1, below its minimum of 2",
    ),
    "a budget is overdrawn": (
        replace(BASE, budgets=(DisruptionBudget("pdb", frozenset({2, 3}), 1),)),
        ((A, A, F, F),),
        (2, 3),
        "budget pdb allows 1",
    ),
    "a member is missing from the list": (BASE, ((A, A, B),), (), "does not list every member"),
    "a node does not exist": (BASE, ((A, A, B, 9),), (), "does not exist"),
    "a victim does not exist": (BASE, ((A, A, B, B),), (9,), "a victim does not exist"),
    "a victim is named twice": (BASE, ((A, A, F, B),), (2, 2), "named twice"),
}


@pytest.mark.parametrize(("problem", "nodes", "victims", "fault"), BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_a_broken_rule_is_found(
    problem: Problem, nodes: tuple[tuple[int | None, ...], ...], victims: tuple[int, ...], fault: str
) -> None:
    assert any(fault in each for each in verify(problem, Plan(nodes, victims, (), Proof.OPTIMAL)))


def bent(name: str) -> Callable[[Plan], Plan]:
    """Return a function that lowers the value and the bound of one goal of a plan by one."""

    def bend(plan: Plan) -> Plan:
        return replace(
            plan,
            goals=tuple(
                replace(goal, value=goal.value - 1, bound=goal.bound - 1) if goal.name == name else goal
                for goal in plan.goals
            ),
        )

    return bend


def plan_of(problem: Problem) -> Plan:
    answer = solve(problem)
    assert isinstance(answer, Plan)
    return answer


@pytest.mark.parametrize("name", [goal.name for goal in plan_of(BASE).goals])
def test_a_wrong_figure_is_found(name: str) -> None:
    plan = solve(BASE)
    assert isinstance(plan, Plan)
    assert verify(BASE, plan) == ()
    assert any(f"goal {name}" in fault for fault in verify(BASE, bent(name)(plan)))


def test_a_wrong_part_is_found() -> None:
    problem = two_sets()
    plan = solve(problem)
    assert isinstance(plan, Plan)
    index = next(place for place, goal in enumerate(plan.goals) if goal.name == "compactness/rack")
    wrong = replace(plan.goals[index], parts={"gang": 1, "sets": 3})
    goals = (*plan.goals[:index], wrong, *plan.goals[index + 1 :])
    assert verify(problem, replace(plan, goals=goals)) != ()


def test_a_goal_that_is_left_out_is_found() -> None:
    plan = solve(BASE)
    assert isinstance(plan, Plan)
    assert verify(BASE, replace(plan, goals=plan.goals[:-1])) != ()


def test_a_bound_that_contradicts_the_proof_is_found() -> None:
    plan = solve(BASE)
    assert isinstance(plan, Plan)
    ranks = next(goal for goal in plan.goals if goal.name == "ranks")
    loose = tuple(Goal(g.name, g.value, g.bound - 1, g.parts) if g is ranks else g for g in plan.goals)
    assert verify(BASE, replace(plan, goals=loose)) != ()
    assert verify(BASE, replace(plan, goals=loose, proof=Proof.FEASIBLE)) == ()
    above = tuple(Goal(g.name, g.value, g.bound + 1, g.parts) if g is ranks else g for g in plan.goals)
    assert verify(BASE, replace(plan, goals=above, proof=Proof.FEASIBLE)) != ()


def test_a_plan_without_a_proof_is_no_plan() -> None:
    plan = solve(BASE)
    assert isinstance(plan, Plan)
    assert verify(BASE, replace(plan, proof=Proof.UNPROVEN)) != ()


@pytest.mark.parametrize("seeds", chunks(150, 150, fast=25))
def test_any_other_plan_has_other_figures_or_breaks_a_rule_or_is_as_good(seeds: range) -> None:
    """After random swaps of members, the verifier never accepts the goal values of one plan for another plan."""
    changed = 0
    for seed in seeds:
        problem = random_problem(seed)
        plan = solve(problem)
        if not isinstance(plan, Plan):
            continue
        for s, row in enumerate(plan.nodes):
            for node in range(len(problem.nodes)):
                other = (*plan.nodes[:s], (node, *row[1:]), *plan.nodes[s + 1 :])
                if other != plan.nodes and row:
                    faults = verify(problem, replace(plan, nodes=other))
                    changed += bool(faults)
    assert changed > len(seeds) or not has_rare_cases(seeds)
