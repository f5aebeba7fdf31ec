"""Several gangs that compete, planned together: the cases where greedy goes wrong."""

from drawings import Drawing, pods

from solver.multi_gang.joint import solve_joint
from solver.multi_gang.joint_problem import JointAnswer, JointProblem, Share, can_join, faults_of
from solver.multi_gang.merge import merged
from solver.nodes import Node, nodes_of
from solver.plan import Proof
from solver.problem import Limits, Problem, Shape

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
        Problem(("node",), ("cpu",), nodes_of(here), (Shape((ask,), frozenset((0,))),), (pods(2),), 2)
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
