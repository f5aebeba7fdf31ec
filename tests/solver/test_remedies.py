"""An explanation of infeasibility: what the nearest domains hold, why nodes do not count, which changes would help."""

from dataclasses import replace

import pytest
from drawings import PATIENT, Drawing, pods, refused
from random_problems import random_problem
from thorough import chunks, has_rare_cases

from solver.cp_sat.lexicographic import time_budget_of
from solver.explain.nearest import near_domains
from solver.explain.remedies import explained, remedies
from solver.nodes import Node, nodes_of
from solver.plan import NoPlan, Plan, Proof
from solver.problem import (
    Cap,
    DisruptionBudget,
    Exclusion,
    Limits,
    Member,
    PodSet,
    Problem,
    Shape,
    Victim,
    victim_table,
)
from solver.solve import solve

SPINE, BLOCK = 0, 1


def test_the_nearest_domain_comes_first_and_ties_in_order_of_the_tree() -> None:
    drawing = Drawing("""
        s0/b0: a b
        s0/b1: c
        s1/b0: d e f
        s2/b0: g h i
    """)
    answer = refused(drawing.gang(pods(4), required=SPINE))
    assert [(near.path, near.fits, near.needed, near.nodes) for near in answer.nearest] == [
        (("s0",), 3, 4, 3),
        (("s1",), 3, 4, 3),
        (("s2",), 3, 4, 3),
    ]
    assert {near.level for near in answer.nearest} == {drawing.gang(pods(4)).levels[SPINE]}


def test_domains_without_an_eligible_node_are_no_nearest_domains_and_more_eligible_nodes_come_first() -> None:
    """All nodes are full. The gang may use no node of s0, one of s1 and two of s2."""
    drawing = Drawing("""
        s0/b0: a=0 b=0
        s1/b0: c=0 d=0
        s2/b0: e=0 f=0
    """)
    shape = Shape((1,), drawing.named("c e f"), dict.fromkeys(drawing.named("a b d"), "node(s) didn't match"))
    answer = refused(drawing.gang(pods(2), required=SPINE, shapes=(shape,)))
    assert [(near.path, near.fits) for near in answer.nearest] == [(("s2",), 0), (("s1",), 0)]
    nowhere = Shape((1,), frozenset(), dict.fromkeys(range(6), "node(s) didn't match"))
    answer = refused(drawing.gang(pods(2), required=SPINE, shapes=(nowhere,)))
    assert [near.path for near in answer.nearest] == [("s0",), ("s1",), ("s2",)]


def test_what_each_domain_holds_as_it_is_is_told_in_order_of_the_tree() -> None:
    """Evictions would free two more nodes in s1. The counts are without evictions, so they leave these nodes out."""
    drawing = Drawing("""
        s1/b: d+low e+low f
        s0/b: a b
    """)
    answer = refused(drawing.gang(pods(4), required=SPINE))
    assert answer.fits_without_eviction == ((("s0",), 2), (("s1",), 1))
    assert [(near.path, near.fits) for near in answer.nearest] == [(("s1",), 3), (("s0",), 2)]


def test_without_a_required_level_the_cluster_is_the_domain() -> None:
    answer = refused(Drawing("s/b: a b c").gang(pods(5)))
    (near,) = answer.nearest
    assert (near.level, near.path, near.fits, near.needed) == ("", (), 3, 5)
    assert answer.fits_without_eviction == (((), 3),)


TOLERATED = "taint {gpu: yes} tolerated"

#  r0: busy (no cpu)   slots (no pod slot)   tainted   labelled (too small as well)   fine
EXCLUDING = Problem(
    levels=("rack", "node"),
    resources=("cpu", "pods"),
    nodes=nodes_of(
        Node(name, ("r0",), free, (0, 0))
        for name, free in (
            ("busy", (1, 9)),
            ("slots", (8, 0)),
            ("tainted", (8, 9)),
            ("labelled", (0, 0)),
            ("fine", (4, 9)),
        )
    ),
    shapes=(
        Shape(
            (4, 1),
            frozenset({0, 1, 4}),
            {2: "node(s) had untolerated taint(s)", 3: "node(s) didn't match"},
            lifts={TOLERATED: frozenset({2}), "node affinity/selector dropped": frozenset({3})},
        ),
    ),
    sets=(PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(3)), 3),),
    minimum=3,
    required=0,
)


def test_every_node_is_excluded_for_one_reason() -> None:
    (near,) = refused(EXCLUDING).nearest
    assert near.fits == 1
    assert near.excluded == {
        "Insufficient cpu": 1,
        "Too many pods": 1,
        "node(s) didn't match": 1,
        "node(s) had untolerated taint(s)": 1,
    }


def test_a_node_that_members_of_two_sizes_cannot_use_is_counted_once() -> None:
    """Node a is full. Node b excludes each of the two shapes for another reason. Node c can hold the small one."""
    room = Drawing("s/b: a=0 b=9 c=1")
    able = room.named("a c")
    shapes = (
        Shape((2,), able, {1: "node(s) didn't match"}),
        Shape((1,), able, {1: "node(s) had untolerated taint(s)"}),
    )
    answer = refused(room.gang(pods(2, name="large"), pods(1, name="small", shapes=[1]), shapes=shapes))
    (near,) = answer.nearest
    assert (near.nodes, near.fits, near.needed) == (3, 1, 3)
    assert near.excluded == {"Insufficient cpu": 1, "node(s) didn't match": 1}


def test_the_smallest_changes_that_help_are_told() -> None:
    assert refused(EXCLUDING).would_fit_if == (
        "2 more pod slots in r0",
        "a minimum of 1 instead of 3",
        f"{TOLERATED} (1 node)",
    )


def test_members_of_which_each_fills_a_node_need_more_nodes() -> None:
    shapes = tuple(replace(shape, fills_node=True) for shape in EXCLUDING.shapes)
    assert refused(replace(EXCLUDING, shapes=shapes)).would_fit_if[0] == "2 more nodes in r0"


def test_a_change_that_opens_a_node_helps_only_where_nothing_else_speaks_against_it() -> None:
    shape = replace(EXCLUDING.shapes[0], lifts={})
    assert refused(replace(EXCLUDING, shapes=(shape,))).would_fit_if == (
        "2 more pod slots in r0",
        "a minimum of 1 instead of 3",
    )


def test_a_wider_level_is_told_before_dropping_it() -> None:
    drawing = Drawing("""
        s0/b0: a b
        s0/b1: c d
    """)
    answer = refused(drawing.gang(pods(4), required=BLOCK))
    block, spine = drawing.gang(pods(4)).levels[BLOCK], drawing.gang(pods(4)).levels[SPINE]
    assert f"required level {block} widened to {spine}" in answer.would_fit_if


def test_a_level_that_cannot_be_widened_enough_is_told_to_be_dropped() -> None:
    drawing = Drawing("""
        s0/b0: a b
        s1/b1: c d
    """)
    problem = drawing.gang(pods(4), required=SPINE)
    assert f"required level {problem.levels[SPINE]} dropped" in refused(problem).would_fit_if


def test_the_level_of_a_set_is_widened_as_little_as_possible() -> None:
    """Rack by rack 2 of 3 fit; a spine holds all three."""
    drawing = Drawing("""
        s0/b0: a b
        s0/b1: c d
    """)
    workers = pods(3, name="worker", required=BLOCK)
    assert "required level block of worker widened to spine" in refused(drawing.gang(workers)).would_fit_if


def test_members_that_exclude_each_other_are_named_as_the_obstacle() -> None:
    problem = Drawing("s/b: a=4 b=4").gang(pods(3))
    answer = refused(replace(problem, exclusions=(Exclusion((0,), ("a", "b")),)))
    assert answer.nearest[0].fits == 2
    assert "members no longer excluding each other" in answer.would_fit_if


def test_a_new_node_is_no_exception_to_what_members_wish_of_each_other() -> None:
    """Each on a node of its own: one large node more would hold one of the two that are missing."""
    hosts = Drawing("s/b: a=9 b=9")
    apart = Exclusion((0,), ("a", "b"))
    assert "2 more nodes in the cluster" in refused(hosts.gang(pods(4), exclusions=(apart,))).would_fit_if
    assert "2 more pod slots in the cluster" not in refused(hosts.gang(pods(4), exclusions=(apart,))).would_fit_if


def test_a_new_node_is_in_the_zone_of_its_neighbours() -> None:
    """A zone may hold at most two members, and the only zone holds two: a new node in it does not help."""
    zone = Exclusion((0,), ("z", "z"), 2)
    answer = refused(Drawing("s/b: a=9 b=9").gang(pods(3), exclusions=(zone,)))
    assert answer.would_fit_if == ("a minimum of 2 instead of 3", "members no longer excluding each other")


def test_what_budgets_forbid_is_not_counted_as_room() -> None:
    problem = Drawing("s/b: a b+low c+low").gang(pods(3))
    answer = refused(replace(problem, budgets=(DisruptionBudget("default/web", frozenset({0, 1}), 1),)))
    assert answer.nearest[0].fits == 2
    evictions = "after evicting at most 2 pods of lower priority"
    assert f"more evictions allowed by default/web, {evictions}" in answer.would_fit_if


def test_what_fits_without_evictions_is_told_apart_and_a_change_says_what_it_evicts() -> None:
    drawing = Drawing("""
        s0/b: a b c d+low e+low
        s1/b: f
    """)
    answer = refused(drawing.gang(pods(6), required=SPINE))
    assert [(near.path, near.fits, near.fits_now) for near in answer.nearest] == [(("s0",), 5, 3), (("s1",), 1, 1)]
    evicting = "after evicting at most 2 pods of lower priority"
    assert f"1 more pod slot in s0, {evicting}" in answer.would_fit_if
    assert f"a minimum of 5 instead of 6, {evicting}" in answer.would_fit_if
    assert answer.example_victims[f"1 more pod slot in s0, {evicting}"] == "low-0"


def test_a_change_that_needs_no_eviction_tells_none() -> None:
    """Both spines together hold the gang without the pod in s0."""
    drawing = Drawing("""
        s0/b: a b c d+low
        s1/b: f g h
    """)
    answer = refused(drawing.gang(pods(6), required=SPINE))
    assert f"required level {drawing.gang(pods(6)).levels[SPINE]} dropped" in answer.would_fit_if
    assert refused(Drawing("s/b: a b").gang(pods(3))).nearest[0].fits_now is None


def test_members_of_several_sizes_are_counted_together() -> None:
    """Three of five would fit by number; by size only the small ones and one of the large."""
    nodes = (Node("a", ("r0",), (10,), (0,)), Node("b", ("r0",), (4,), (0,)))
    members = tuple(Member(f"m{rank}", shape) for rank, shape in enumerate((0, 0, 1, 1)))
    shapes = (Shape((8,), frozenset({0, 1})), Shape((1,), frozenset({0, 1})))
    problem = Problem(("rack", "node"), ("cpu",), nodes_of(nodes), shapes, (PodSet("main", members, 4),), 4)
    answer = refused(problem)
    assert answer.nearest[0].fits == 3
    assert "1 more pod slot in the cluster" in answer.would_fit_if


def test_without_time_nothing_is_claimed_to_be_missing() -> None:
    nodes = (Node("a", ("r0",), (4,), (0,)), Node("b", ("r0",), (4,), (0,)))
    members = (Member("m0", 0), Member("m1", 1))
    shapes = (Shape((3,), frozenset({0, 1})), Shape((2,), frozenset({0, 1})))
    problem = Problem(("rack", "node"), ("cpu",), nodes_of(nodes), shapes, (PodSet("main", members, 2),), 2)
    answer = explained(problem, NoPlan(Proof.UNPROVEN), Limits(deterministic=0.0, seconds=0.0))
    assert answer.proof is Proof.UNPROVEN
    assert answer.nearest[0].fits == answer.nearest[0].needed
    assert answer.would_fit_if == ()
    assert isinstance(solve(problem), Plan)


def test_a_victim_that_frees_nothing_useful_does_not_count() -> None:
    nodes = (Node("a", ("r0",), (1,), (0,)), Node("b", ("r0",), (0,), (0,)))
    victims = (Victim("low", 1, 0, (1,)),)
    shape = Shape((1,), frozenset({0}), {1: "node(s) had untolerated taint(s)"})
    members = (Member("m0", 0), Member("m1", 0))
    problem = Problem(
        ("rack", "node"),
        ("pods",),
        nodes_of(nodes),
        (shape,),
        (PodSet("main", members, 2),),
        2,
        victims=victim_table(victims),
    )
    assert refused(problem).nearest[0].fits == 1


@pytest.mark.parametrize("seeds", chunks(300, 100, fast=20, fresh=5))
def test_every_change_that_is_told_helps_and_no_domain_holds_enough(seeds: range) -> None:
    told = 0
    for seed in seeds:
        problem = opened_by_a_change(random_problem(seed))
        answer = solve(problem, PATIENT)
        if isinstance(answer, Plan):
            continue
        assert all(near.fits < near.needed for near in answer.nearest), seed
        changes = list(remedies(problem, near_domains(problem, time_budget_of(PATIENT)), time_budget_of(PATIENT)))
        assert tuple(change.words for change in changes) == answer.would_fit_if, seed
        for change in changes:
            assert isinstance(solve(change.problem, PATIENT), Plan), f"seed {seed}: {change.words}"
            told += 1
    assert told > len(seeds) // 5 or not has_rare_cases(seeds)


def opened_by_a_change(problem: Problem) -> Problem:
    """The problem in which all nodes that a shape excludes could be opened."""
    shapes = (replace(shape, lifts={TOLERATED: frozenset(shape.excluded)}) for shape in problem.shapes)
    return replace(problem, shapes=tuple(shapes))


def test_where_one_large_node_does_not_help_more_nodes_do() -> None:
    problem = Drawing("s/b: a=4 b=4").gang(pods(4, caps=[Cap(2, 1)]))
    answer = refused(problem)
    assert answer.nearest[0].fits == 2
    assert "2 more nodes in the cluster" in answer.would_fit_if
    assert "2 more pod slots in the cluster" not in answer.would_fit_if


def test_of_several_sets_the_one_that_gives_up_the_fewest_is_told() -> None:
    room = Drawing("s/b: a b c=3")
    problem = room.gang(
        pods(2, name="leader", shapes=[1, 1]), pods(3, name="worker"), shapes=room.shapes(1, 2), minimum=5
    )
    assert "a minimum of 1 instead of 2 in leader" in refused(problem).would_fit_if


def test_of_several_sets_one_gives_up_as_many_as_are_missing() -> None:
    """Five of nine fit, and either set could start with one."""
    room = Drawing("s/b: a=5")
    answer = refused(room.gang(pods(4, name="leader"), pods(5, name="worker"), minimum=9))
    assert answer.nearest[0].fits == 5
    assert "a minimum of 1 instead of 5 in worker" in answer.would_fit_if
