"""Joint planning of several competing gangs, in cases where a greedy order gives a worse result."""

from dataclasses import replace

import pytest
from drawings import Drawing, pods
from joining import in_one

from solver.multi_gang.joint import solve_joint
from solver.multi_gang.joint_problem import JointAnswer, Share, faults_of
from solver.plan import Proof
from solver.problem import Affinity, Limits, Problem
from solver.quota import Quota, QuotaCharge, QuotaShare

LIMITS = Limits(60.0, 600.0)


def together(*gangs: Problem) -> Problem:
    return in_one(gangs)


def racks_of(joint: Problem, answer: JointAnswer) -> list[set[str] | None]:
    """The racks that each gang is in."""
    return [
        None
        if share is None
        else {joint.nodes[node].path[-1] for row in share.nodes for node in row if node is not None}
        for share in answer.shares
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


def test_gangs_that_compete_use_as_little_terminating_capacity_as_they_can() -> None:
    """Terminating pods still hold rack b0. Both gangs start now on b1 and b2, though b2 keeps a free slot."""
    room = Drawing("b0: a=2~2\nb1: b=2\nb2: c=3")
    joint = together(room.gang(pods(2)), room.gang(pods(2)))
    answer = solve_joint(joint, LIMITS)
    assert racks_of(joint, answer) == [{"b1"}, {"b2"}]
    assert answer.proof is Proof.OPTIMAL


def test_nobody_is_evicted_where_the_gangs_fit_beside_each_other() -> None:
    """One by one, the second gang would evict: the first takes the rack that the second needs.

    b0: a b c   b1: d e + low, low
    """
    room = Drawing("b0: a b c\nb1: d e f=0+low g=0+low")
    joint = together(room.gang(pods(2), required=0), room.gang(pods(3), required=0))
    answer = solve_joint(joint, LIMITS)
    assert racks_of(joint, answer) == [{"b1"}, {"b0"}]
    assert [share.victims for share in answer.shares if share] == [(), ()]


def test_a_plan_that_gives_a_node_twice_is_found_out() -> None:
    room = Drawing("b0: a b")
    joint = together(room.gang(pods(1)), room.gang(pods(1)))
    wrong = JointAnswer((Share(((0,),), ()), Share(((0,),), ())), Proof.OPTIMAL)
    assert faults_of(joint, wrong) == ("a has too little cpu",)


def test_a_minimum_over_several_sets_is_kept() -> None:
    """Each set needs one, the gang three of its four; the other gang's extra comes after that."""
    room = Drawing("b0: a b c d")
    first = room.gang(pods(2, minimum=1), minimum=1)
    joint = together(first, room.gang(pods(2, minimum=1), pods(2, name="b", minimum=1), minimum=3))
    answer = solve_joint(joint, LIMITS)
    assert members_placed(answer) == [1, 3]
    assert answer.proof is Proof.OPTIMAL


def of_queues(joint: Problem, *shares: QuotaShare) -> Problem:
    """Return the problem with a quota: each gang is charged to the share at its own position, one unit a member."""
    charges = tuple(
        QuotaCharge(gang, pod_set, joint.sets[pod_set].members[0].shape, 1)
        for gang, rules in enumerate(joint.gangs)
        for pod_set in rules.pod_sets
    )
    return replace(joint, quotas=(Quota("gpu", shares, charges),))


def members_placed(answer: JointAnswer) -> list[int]:
    """Return the number of placed members of each gang."""
    return [0 if share is None else sum(map(_placed, share.nodes)) for share in answer.shares]


@pytest.mark.parametrize(
    ("what", "shares", "placed"),
    [
        ("each its own", (QuotaShare(None, 2), QuotaShare(None, 1)), [2, 0]),
        ("a minimum is borrowed before an extra", (QuotaShare(2, 2), QuotaShare(2, 1), QuotaShare(None, 3)), [1, 2]),
        ("no more than may be borrowed", (QuotaShare(2, 2), QuotaShare(2, 1, limit=1), QuotaShare(None, 3)), [3, 0]),
        ("what is not lent", (QuotaShare(2, 2, kept=2), QuotaShare(2, 1), QuotaShare(None, 1)), [3, 0]),
        ("what others use", (QuotaShare(2, 2), QuotaShare(2, 1, used=1), QuotaShare(None, 3)), [2, 0]),
    ],
)
def test_gangs_share_quotas(what: str, shares: tuple[QuotaShare, ...], placed: list[int]) -> None:
    """The first gang has a minimum of one and three members, the second needs both of its members."""
    room = Drawing("b0: a b c d e f")
    joint = of_queues(together(room.gang(pods(3, minimum=1), minimum=1), room.gang(pods(2))), *shares)
    answer = solve_joint(joint, LIMITS)
    assert members_placed(answer) == placed, what
    assert (answer.proof, faults_of(joint, answer)) == (Proof.OPTIMAL, ())


def test_a_plan_beyond_a_quota_is_found_out() -> None:
    room = Drawing("b0: a b")
    joint = of_queues(together(room.gang(pods(1)), room.gang(pods(1))), QuotaShare(None, 1), QuotaShare(None, 0))
    wrong = JointAnswer((Share(((0,),), ()), Share(((1,),), ())), Proof.OPTIMAL)
    assert faults_of(joint, wrong) == ("quota gpu has 1 too little for share 1",)


def test_of_a_strict_queue_no_later_gang_is_accepted() -> None:
    """The node has capacity for one member. The first gang needs two members, the second gang one."""
    room = Drawing("b0: a")
    joint = together(room.gang(pods(2)), room.gang(pods(1)))
    assert members_placed(solve_joint(joint, LIMITS)) == [0, 1]
    in_line = replace(joint, gangs=tuple(replace(gang, line="queue") for gang in joint.gangs))
    assert members_placed(solve_joint(in_line, LIMITS)) == [0, 0]


def test_a_gang_that_needs_a_later_gang_near_it_is_accepted_with_it() -> None:
    """The first gang is too large. The second gang has affinity to the third on one node, which can hold both."""
    room = Drawing("b0: a=1 b=2")
    joint = together(room.gang(pods(9)), room.gang(pods(1)), room.gang(pods(1)))
    second, third = (joint.sets[place].members[0].shape for place in (1, 2))
    near = Affinity((second,), (third,), (("a", "b"),), (frozenset(),))
    answer = solve_joint(replace(joint, affinities=(near,)), LIMITS)
    assert members_placed(answer) == [0, 1, 1]
    assert answer.without == {0}


def _placed(row: tuple[int | None, ...]) -> int:
    return sum(node is not None for node in row)
