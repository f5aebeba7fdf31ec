"""Several gangs that compete, planned together: against every possible plan, and the cases where greedy goes wrong."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import pytest
from drawings import Drawing, pods

from solver.joint import JointAnswer, JointProblem, Share, can_join, faults_of, solve_joint
from solver.merging import merged
from solver.plan import Proof
from solver.problem import Limits, Member, Node, PodSet, Problem, Shape, Victim

LIMITS = Limits(60.0, 600.0)


def together(*gangs: Problem) -> JointProblem:
    return JointProblem(gangs, tuple((1,) * len(gang.resources) for gang in gangs))


def racks_of(joint: JointProblem, answer: JointAnswer) -> list[set[str] | None]:
    """The racks that each gang is in."""
    return [
        None
        if share is None
        else {joint.gangs[gang].nodes[node].path[-1] for row in share.nodes for node in row if node is not None}
        for gang, share in enumerate(answer.shares)
    ]


def test_the_earlier_gang_keeps_its_minimum_where_a_later_one_finds_none() -> None:
    """One rack of 4: the first two need 2 each, the third needs 4."""
    room = Drawing("b0: a b c d")
    joint = together(room.gang(pods(2)), room.gang(pods(4)), room.gang(pods(2)))
    answer = solve_joint(joint, LIMITS)
    assert [share is not None for share in answer.shares] == [True, False, True]
    assert answer.proof is Proof.OPTIMAL


def test_all_minimums_come_before_any_extra() -> None:
    """Four nodes: the first gang would take them all, and needs two."""
    room = Drawing("b0: a b c d")
    joint = together(room.gang(pods(4, minimum=2), minimum=2), room.gang(pods(2)))
    answer = solve_joint(joint, LIMITS)
    assert [[*map(_placed, share.nodes)] for share in answer.shares if share] == [[2], [2]]


def test_nobody_is_evicted_where_the_gangs_fit_beside_each_other() -> None:
    """One by one, the second gang would evict: the first takes the rack that the second needs.

    b0: a b c   b1: d e + low, low
    """
    room = Drawing("b0: a b c\nb1: d e f=0+low g=0+low")
    joint = together(room.gang(pods(2), required=0), room.gang(pods(3), required=0))
    answer = solve_joint(joint, LIMITS)
    assert racks_of(joint, answer) == [{"b1"}, {"b0"}]
    assert [share.victims for share in answer.shares if share] == [(), ()]


def test_amounts_are_compared_in_one_unit() -> None:
    """One node of 8000 millicores: gangs that count in 2000 and in 500 of them."""
    nodes = (Node("a", (), (4,), (0,)),), (Node("a", (), (16,), (0,)),)
    gangs = [
        Problem(("node",), ("cpu",), here, (Shape((ask,), frozenset((0,))),), (pods(2),), 2)
        for here, ask in zip(nodes, (1, 9), strict=True)
    ]
    whole = merged(gangs[:1] * 2, [(2000,), (2000,)])
    assert whole.problem.nodes[0].free == (4,)
    answer = solve_joint(JointProblem(tuple(gangs), ((2000,), (500,))), LIMITS)
    assert [share is not None for share in answer.shares] == [True, False]


def test_a_plan_that_gives_a_node_twice_is_found_out() -> None:
    room = Drawing("b0: a b")
    joint = together(room.gang(pods(1)), room.gang(pods(1)))
    wrong = JointAnswer((Share(((0,),), ()), Share(((0,),), ())), Proof.OPTIMAL)
    assert faults_of(joint, wrong) == ("a has too little cpu",)


def test_a_gang_whose_sets_do_not_add_up_to_its_minimum_is_planned_alone() -> None:
    room = Drawing("b0: a b c d")
    assert not can_join(room.gang(pods(2, minimum=1), pods(2, name="b", minimum=1), minimum=3))
    assert can_join(room.gang(pods(2, minimum=1), pods(2, name="b", minimum=1), minimum=2))


def _placed(row: tuple[int | None, ...]) -> int:
    return sum(node is not None for node in row)


# Every possible plan, on small clusters.


@dataclass(frozen=True)
class _Whole:
    """A joint plan: nodes by gang and rank, and who is evicted."""

    rows: tuple[tuple[int | None, ...], ...]
    victims: tuple[int, ...]


def random_joint(seed: int) -> JointProblem:
    """Two or three gangs of up to five pods together on four or five nodes in two racks."""
    dice = random.Random(seed)  # noqa: S311 -- not for secrets
    racks = sorted(dice.randrange(2) for _ in range(dice.choice((4, 5))))
    nodes = tuple(
        Node(f"n{position}", (f"r{rack}",), (dice.choice((0, 1, 1, 2, 3)),), (0,))
        for position, rack in enumerate(racks)
    )
    victims = tuple(
        Victim(f"v{number}", dice.randrange(len(nodes)), 0, (dice.choice((1, 2)),))
        for number in range(dice.choice((0, 0, 1, 2)))
    )
    counts = dice.choice(((1, 2), (2, 2), (3, 2), (2, 1), (1, 1, 2), (2, 1, 2), (1, 1, 1)))
    return together(*(_gang(dice, nodes, victims, count) for count in counts))


def _gang(dice: random.Random, nodes: tuple[Node, ...], victims: tuple[Victim, ...], count: int) -> Problem:
    least = dice.randint(1, count)
    everywhere = range(len(nodes))
    eligible = frozenset(everywhere if dice.random() < 0.7 else dice.sample(everywhere, 3))
    shape = Shape((dice.choice((1, 1, 2)),), eligible)
    members = tuple(Member(f"m{rank}", 0) for rank in range(count))
    required = dice.choice((None, None, 0, 1))
    levels = ("rack", "node")
    return Problem(
        levels, ("gpu",), nodes, (shape,), (PodSet("main", members, least),), least, required, victims=victims
    )


def best(joint: JointProblem) -> _Whole:
    """The least of all plans, by contract section 4 and docs/decisions/0002."""
    return min(plans(joint), key=lambda whole: _key(joint, whole))


def plans(joint: JointProblem) -> Iterator[_Whole]:
    """All plans that break no rule; a gang without its minimum has nobody placed."""
    victims = joint.gangs[0].victims
    chosen = [each for count in range(len(victims) + 1) for each in combinations(range(len(victims)), count)]
    for rows in product(*(list(_rows(gang)) for gang in joint.gangs)):
        for gone in chosen:
            if _fits(joint, rows, gone):
                yield _Whole(rows, gone)


def _rows(gang: Problem) -> Iterator[tuple[int | None, ...]]:
    count = len(gang.sets[0].members)
    yield (None,) * count
    for row in product((None, *sorted(gang.shapes[0].nodes)), repeat=count):
        used = [node for node in row if node is not None]
        inside = gang.required is None or len({_domain(gang, gang.required, node) for node in used}) <= 1
        if len(used) >= gang.minimum and inside:
            yield row


def _fits(joint: JointProblem, rows: tuple[tuple[int | None, ...], ...], gone: tuple[int, ...]) -> bool:
    first = joint.gangs[0]
    left = [node.free[0] for node in first.nodes]
    for victim in gone:
        left[first.victims[victim].node] += first.victims[victim].requests[0]
    for gang, row in zip(joint.gangs, rows, strict=True):
        for node in row:
            if node is not None:
                left[node] -= gang.shapes[0].requests[0]
    return min(left) >= 0


def _domain(gang: Problem, level: int, node: int) -> object:
    return () if level < 0 else gang.nodes[node].path[0] if level == 0 else node


def _key(joint: JointProblem, whole: _Whole) -> tuple[object, ...]:
    gangs, first = joint.gangs, joint.gangs[0]
    there = [gang for gang, row in enumerate(whole.rows) if any(node is not None for node in row)]
    spread = {(gang, level): len(_domains(gangs[gang], whole.rows[gang], level)) for gang in there for level in (0, 1)}
    return (
        [gang not in there for gang in range(len(gangs))],
        len(whole.victims),
        sum(first.victims[victim].requests[0] for victim in whole.victims),
        sum(node is None for gang in there for node in whole.rows[gang]),
        [node is None for gang in there for node in whole.rows[gang]],
        [sum(spread[gang, level] for gang in there) for level in (0, 1)],
        [spread[gang, level] for gang in there for level in (0, 1)],
        _waste(joint, whole, there),
        [sum(_crossings(gangs[gang], whole.rows[gang], level) for gang in there) for level in (0, 1)],
        [node for gang in there for node in whole.rows[gang] if node is not None],
        [victim not in whole.victims for victim in range(len(first.victims))],
    )


def _domains(gang: Problem, row: tuple[int | None, ...], level: int) -> set[object]:
    return {_domain(gang, level, node) for node in row if node is not None}


def _crossings(gang: Problem, row: tuple[int | None, ...], level: int) -> int:
    placed = [_domain(gang, level, node) for node in row if node is not None]
    return sum(one != other for one, other in pairwise(placed))


def _waste(joint: JointProblem, whole: _Whole, there: list[int]) -> list[int]:
    """(a), (b) outward, (c) downward, (d) downward, each summed over the gangs."""
    sums: dict[tuple[int, int], int] = {}
    everywhere = frozenset[int]().union(*(joint.gangs[gang].shapes[0].nodes for gang in there))
    for gang in there:
        problem, row = joint.gangs[gang], whole.rows[gang]
        left = {level: _left(joint, whole, gang, level, everywhere) for level in (-1, 0, 1)}
        narrowest = max(level for level in (-1, 0, 1) if len(_domains(problem, row, level)) <= 1)
        parts = {(0, 0): sum(left[narrowest].values())}
        parts |= {(1, -level): sum(left[level].values()) for level in range(narrowest - 1, -2, -1)}
        parts |= {(2, level): sum(left[level].values()) for level in range(narrowest + 1, 2)}
        parts |= {(3, level): sum(room > 0 for room in left[level].values()) for level in range(narrowest + 1, 2)}
        for key, value in parts.items():
            sums[key] = sums.get(key, 0) + value
    return [sums.get((kind, level), 0) for kind, level in sorted({*product(range(4), (-1, 0, 1)), *sums})]


def _left(joint: JointProblem, whole: _Whole, gang: int, level: int, everywhere: frozenset[int]) -> dict[object, int]:
    """The room that all leave in the gang's domains, on nodes where it may run."""
    problem = joint.gangs[gang]
    left = dict.fromkeys(_domains(problem, whole.rows[gang], level), 0)
    for node in sorted(problem.shapes[0].nodes):
        domain = _domain(problem, level, node)
        if domain in left:
            room = problem.nodes[node].free[0]
            if whole.victims:
                room += sum(each.requests[0] for each in problem.victims if each.node == node and node in everywhere)
            used = sum(
                other.shapes[0].requests[0] * row.count(node)
                for other, row in zip(joint.gangs, whole.rows, strict=True)
            )
            left[domain] += room - used
    return left


@pytest.mark.parametrize("block", range(6))
def test_the_joint_plan_is_the_best_of_all_plans(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        joint = random_joint(seed)
        answer = solve_joint(joint, LIMITS)
        expected = best(joint)
        empty = [tuple(None for _ in gang.sets[0].members) for gang in joint.gangs]
        found = tuple(
            none if share is None else share.nodes[0] for share, none in zip(answer.shares, empty, strict=True)
        )
        victims = tuple(sorted({victim for share in answer.shares if share for victim in share.victims}))
        assert answer.proof is Proof.OPTIMAL, seed
        assert faults_of(joint, answer) == (), seed
        assert (found, victims) == (expected.rows, expected.victims), seed
