"""The sentences on waiting members, letter for letter as Koordinator's document shows them."""

import pytest

from gangs.koordinator.messages import (
    TERMINATING,
    first_member_message,
    follower_message,
    not_helpful,
    preempted,
    topology_reason,
    unschedulable,
)

SPINES = [("SpineLayer", "spine-2", 3), ("SpineLayer", "spine-0", 3), ("SpineLayer", "spine-1", 3)]
DOCUMENTED = (
    "0/12 nodes are available: no candidate topology nodes can accommodate job, desiredOfferSlot: 4, topology "
    "topologyNode SpineLayer/spine-0: 3;topology topologyNode SpineLayer/spine-1: 3;topology topologyNode "
    "SpineLayer/spine-2: 3. preemption: not eligible due to terminating pod on the nominated node.."
)
FOLLOWER = (
    'GangGroup "default/high-priority-training" gets rejected due to member Pod "default/hp-training-pod-0" is '
    'unschedulable with reason "no candidate topology nodes can accommodate job, desiredOfferSlot: 4{rest}", '
    "alreadyWaitForBound: 0. preemption: preemption already attempted by default/hp-training-pod-0 with message not "
    "eligible due to terminating pod on the nominated node.."
)
"""The document cuts the first member's reason short; here `rest` is what it leaves out."""


def test_the_first_member_says_what_each_domain_offers() -> None:
    assert first_member_message(12, 4, SPINES, TERMINATING) == DOCUMENTED


def test_the_others_point_to_the_first() -> None:
    reason = topology_reason(4, SPINES)
    text = follower_message("default/high-priority-training", "default/hp-training-pod-0", reason, TERMINATING)
    rest = reason.removeprefix("no candidate topology nodes can accommodate job, desiredOfferSlot: 4")
    assert text == FOLLOWER.format(rest=rest)


REASONS = {
    "the root prints without a name": (
        topology_reason(2, [("", "", 1)]),
        "topology topologyNode ClusterTopologyLayer/: 1",
    ),
    "multiples come last": (
        topology_reason(2, [("B", "b0", 1)], {"B": 8, "S": 16}),
        "topology topologyNode B/b0: 1; podCountMultiple constraints: B=8, S=16",
    ),
    "without any attempt at preemption it ends there": (
        unschedulable(3, "3 Insufficient cpu"),
        "0/3 nodes are available: 3 Insufficient cpu.",
    ),
    "preemption that helps nobody": (
        unschedulable(2, "x", not_helpful(2)),
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling..",
    ),
    "preemption that was begun": (
        unschedulable(2, "x", preempted(0, 4)),
        "preempt success, alreadyWaitingForBound: 0/4.",
    ),
    "others without preemption": (follower_message("g", "p", "r"), '"r", alreadyWaitForBound: 0.'),
}


@pytest.mark.parametrize(("text", "end"), REASONS.values(), ids=REASONS)
def test_other_shapes(text: str, end: str) -> None:
    assert text.endswith(end)
