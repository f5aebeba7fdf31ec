"""Topology spread of members of several shapes, solved by counting for each final count of the emptiest group."""

from collections import Counter
from random import Random

import pytest
from brute_force import best, is_as_good
from thorough import chunks, has_rare_cases

from solver.branch_and_bound.by_domain import solve_by_domains
from solver.cp_sat.lexicographic import SolveStatus
from solver.cp_sat.solve import Solved
from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.plan import Answer, Plan, Proof
from solver.problem import Cap, Limits, Member, PodSet, Problem, Shape, Spread
from solver.solve import by_model, decide
from solver.tree import ROOT
from solver.tree_dp.multi_class import mixtures_of
from solver.verify.rules import verify

pytestmark = pytest.mark.repetitive


def few_members(draw: Random) -> Problem:
    """Return a random problem: two to four members of two roles, and up to six nodes in three racks.

    Topology spread over nodes or racks counts or binds one role, both roles or neither. The nodes and racks may hold
    other pods already.
    """
    paths = sorted((f"r{draw.randrange(3)}",) for _ in range(draw.randint(2, 6)))
    nodes = [Node(f"n{at}", path, (draw.randrange(5), 9), (0, 0)) for at, path in enumerate(paths)]
    racks, names = tuple(path[0] for path in paths), tuple(node.name for node in nodes)
    some = tuple(name if draw.random() < 0.5 else None for name in names)
    group = draw.choice((racks, names, some))
    counts = {name: draw.choice((0, 0, 1, 2)) for name in sorted({*group} - {None}, key=str) if name is not None}
    counts |= dict.fromkeys(["elsewhere"] * (draw.random() < 0.1), 0)
    shapes = tuple(
        Shape((request, 1), frozenset(at for at in range(len(nodes)) if draw.random() < 0.9), {}, weights)
        for request, weights in ((1, {}), (2, {0: 5} if draw.random() < 0.3 else {}))
    )
    sizes = draw.randint(1, 2), draw.randint(1, 2)
    sets = tuple(
        PodSet(f"s{shape}", tuple(Member(f"s{shape}-{rank}", shape) for rank in range(size)), size)
        for shape, size in enumerate(sizes)
    )
    bound, counted = draw.choice(((0, 1), (0, 1), (0,), (1,))), draw.choice(((0, 1), (0, 1), (0,), (1,)))
    rule = Spread(bound, counted, group, counts, draw.choice((1, 1, 2)), draw.random() < 0.15)
    return Problem(("rack", "node"), ("gpu", "pods"), nodes_of(nodes), shapes, sets, sum(sizes), spreads=(rule,))


def roles_in_three_levels(draw: Random) -> Problem:
    """Return a random problem: up to three roles with up to four members each, and up to three blocks.

    The roles are spread over blocks, racks or nodes, sometimes over blocks as well. Some problems have a required level
    or a cap.
    """
    racks = [
        (f"b{block}", f"b{block}r{rack}") for block in range(draw.randint(1, 3)) for rack in range(draw.randint(1, 3))
    ]
    paths = [path for path in racks for _ in range(draw.randint(1, 4))]
    nodes = [
        Node(f"n{at}", path, (draw.choice((0, 1, 2, 3, 4, 8)), 20), (draw.choice((0, 0, 0, 1)), 0))
        for at, path in enumerate(paths)
    ]
    group = draw.choice(([path[0] for path in paths], [path[1] for path in paths], [node.name for node in nodes]))
    before = {name: draw.choice((0, 0, 0, 1, 2)) if draw.random() < 0.3 else 0 for name in sorted(set(group))}
    shapes = tuple(
        Shape((request, 1), frozenset(at for at in range(len(nodes)) if draw.random() < 0.95), {}, {0: 5})
        for request in (0, 1, 2)[: draw.randint(2, 3)]
    )
    every = tuple(range(len(shapes)))
    bound, counted = draw.choice((every, every, every[:1])), draw.choice((every, every, every[1:]))
    rules = [Spread(bound, counted, tuple(group), before, draw.choice((1, 1, 2)))]
    if draw.random() < 0.15:
        blocks = tuple(path[0] for path in paths)
        rules.append(Spread(every, every, blocks, dict.fromkeys(sorted(set(blocks)), 0), draw.choice((1, 2))))
    sizes = [draw.randint(1, 4) for _ in shapes]
    sets = tuple(
        PodSet(
            f"s{shape}",
            tuple(Member(f"s{shape}-{rank}", shape) for rank in range(size)),
            size,
            required=draw.choice((None, None, None, None, 0, 1)),
            caps=(Cap(draw.choice((0, 1, 2)), draw.randint(1, 4)),) * (draw.random() < 0.15),
        )
        for shape, size in enumerate(sizes)
    )
    levels, resources = ("block", "rack", "node"), ("gpu", "pods")
    return Problem(levels, resources, nodes_of(nodes), shapes, sets, sum(sizes), spreads=tuple(rules))


@pytest.mark.parametrize("seeds", chunks(600, 100, fast=60, fresh=12))
def test_plans_of_few_members_are_those_of_brute_force(seeds: range) -> None:
    counted = 0
    for seed in seeds:
        problem = few_members(Random(seed))  # noqa: S311 - repeatable, not secret
        instance, expected = instance_of(problem, evicting=False), best(problem)
        counted += mixtures_of(instance) is not None
        answer = solve_by_domains(instance, Limits(), worthwhile=0)
        if isinstance(answer, Solved):
            assert expected is not None, f"seed {seed}"
            assert is_as_good(problem, (answer.nodes, answer.victims), expected), f"seed {seed}"
            assert answer.proven, f"seed {seed}"
        elif answer is SolveStatus.INFEASIBLE:
            assert expected is None, f"seed {seed}"
        else:
            assert mixtures_of(instance) is None, f"seed {seed}"
    assert counted > len(seeds) * 3 // 4 or not has_rare_cases(seeds)


@pytest.mark.parametrize("seeds", chunks(200, 50, fast=20, fresh=5))
def test_plans_by_counting_are_those_of_the_model(seeds: range) -> None:
    """Counting and the CP-SAT model give equal nodes, by name, equal goals and equal proofs."""
    for seed in seeds:
        problem = roles_in_three_levels(Random(seed))  # noqa: S311 - repeatable, not secret
        instance = instance_of(problem, evicting=False)
        if mixtures_of(instance) is None:  # too many ways
            continue
        counted = solve_by_domains(instance, Limits(), worthwhile=0)
        modelled = by_model(problem, Limits(seconds=600.0, deterministic=60.0))
        if isinstance(counted, Solved):
            assert isinstance(modelled, Plan), f"seed {seed}"
            assert (counted.nodes, counted.proven) == (modelled.nodes, True), f"seed {seed}"
        else:
            assert (counted, modelled.proof) == (SolveStatus.INFEASIBLE, Proof.INFEASIBLE), f"seed {seed}"


@pytest.mark.parametrize("states", [100_000, pytest.param(20, marks=pytest.mark.long)])
def test_goals_that_a_cost_has_no_place_for_are_compared_all_the_same(
    states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 30 bits for a cost, hardly any waste is in it. Where there is too much to compare, CP-SAT does."""
    known: Counter[bool] = Counter()
    for seed in range(60):
        problem = roles_in_three_levels(Random(seed))  # noqa: S311 - repeatable, not secret
        instance = instance_of(problem, evicting=False)
        whole = solve_by_domains(instance, Limits(), worthwhile=0)
        with monkeypatch.context() as patched:
            patched.setattr("solver.tree_dp.multi_class.COST_BITS", 30)
            patched.setattr("solver.tree_dp.multi_class._STATES", states)
            mixtures = mixtures_of(instance)
            if mixtures is None or not isinstance(whole, Solved):
                continue
            solved = solve_by_domains(instance, Limits(), worthwhile=0)
            assert isinstance(solved, Solved), f"seed {seed}"
            assert (solved.nodes, solved.proven) == (whole.nodes, True), f"seed {seed}"
            if mixtures.best(ROOT, 0) is not None:
                last = ("waste", f"d/{problem.levels[-1]}")
                known[last in mixtures.narrowed(ROOT, 0).reached] += 1
    assert known[states > 20] > 7


def launcher_and_workers(workers: int, group_of: str, room: Random) -> Problem:
    """Return a problem: a launcher without GPUs and its workers, spread evenly over zones, racks or nodes.

    The cluster has 1,000 nodes with 0 to 8 free GPUs each, in 4 zones of 25 racks of 10 nodes.
    """
    nodes = [
        Node(f"z{zone}-r{rack}-n{n}", (f"z{zone}", f"z{zone}-r{rack}"), (room.randrange(9), 64), (0, 0))
        for zone in range(4)
        for rack in range(25)
        for n in range(10)
    ]
    group = tuple({"zone": node.path[0], "rack": node.path[1], "node": node.name}[group_of] for node in nodes)
    everywhere = frozenset(range(len(nodes)))
    sets = (
        PodSet("launcher", (Member("launcher", 0),), 1),
        PodSet("workers", tuple(Member(f"w{rank}", 1) for rank in range(workers)), workers),
    )
    return Problem(
        ("zone", "rack", "node"),
        ("gpu", "cpu"),
        nodes_of(nodes),
        (Shape((0, 2), everywhere), Shape((2, 8), everywhere)),
        sets,
        workers + 1,
        spreads=(Spread((0, 1), (0, 1), group, dict.fromkeys(group, 0), 1),),
    )


@pytest.mark.parametrize("group_of", ["zone", "rack", "node"])
@pytest.mark.parametrize("workers", [7, 63])
def test_a_launcher_and_its_workers_are_proven_among_a_thousand_nodes(workers: int, group_of: str) -> None:
    problem = launcher_and_workers(workers, group_of, Random(workers))  # noqa: S311 - repeatable, not secret
    answer = within(problem)
    assert isinstance(answer, Plan)
    assert answer.proof is Proof.OPTIMAL
    assert verify(problem, answer) == ()
    group = problem.spreads[0].group
    counts = Counter(group[node] for row in answer.nodes for node in row if node is not None)
    assert max(counts.values()) - min(counts[name] for name in set(group)) <= 1


def within(problem: Problem) -> Answer:
    """The answer with as much work as takes a second at most."""
    return decide(problem, Limits(deterministic=1.0))
