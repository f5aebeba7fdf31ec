"""The next step of the release protocol for a gang, situation by situation.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest
from protocol_scenes import GRACE_END, gang, pod, record, situation

from controller.release.next_step import (
    AllBound,
    AwaitBinding,
    AwaitVictims,
    Cause,
    Evict,
    NeedPlan,
    Nominate,
    Planned,
    Release,
    Renominate,
    Situation,
    next_step,
)
from kube.objects import Pod
from planning.messages.wording import stranded

TWO = [("a", "n1"), ("b", "n2")]


def names(members: Iterable[Planned]) -> list[str]:
    """Names of the planned members of a step."""
    return [each.pod.metadata.name for each in members]


def test_gated_members_without_a_plan_need_one() -> None:
    assert next_step(situation(gang(pod("a"), pod("b")), None)) == NeedPlan()


def test_nominations_without_a_record_are_stale() -> None:
    held = pod("a", nominated="n1")
    assert next_step(situation(gang(held, pod("b")), None)) == NeedPlan(stale=(held,))


def test_members_that_are_not_nominated_yet_are_nominated() -> None:
    step = next_step(situation(gang(pod("a", nominated="n1"), pod("b")), record(TWO)))
    assert isinstance(step, Nominate)
    assert names(step.members) == ["b"]


@pytest.mark.parametrize("wrong", [{"nominated": "n3"}, {"nominated": "n2", "plan": "older"}])
def test_a_nomination_of_another_plan_is_written_anew(wrong: dict[str, Any]) -> None:
    step = next_step(situation(gang(pod("a", nominated="n1"), pod("b", **wrong)), record(TWO)))
    assert isinstance(step, Nominate)
    assert names(step.members) == ["b"]


def held_pair() -> list[Pod]:
    """Both members nominated as planned."""
    return [pod("a", nominated="n1"), pod("b", nominated="n2")]


def test_victims_that_run_are_evicted_once_the_room_is_held() -> None:
    victim = pod("low", bound="n2", priority=1)
    plan = record(TWO, [("low", "n2")])
    step = next_step(situation(gang(*held_pair()), plan, victim))
    assert step == Evict(plan.victims)


def test_no_victim_is_evicted_for_a_plan_beside_a_member_that_is_gone() -> None:
    """Member b was planned beside a, which ran. Member a is gone, and c has come, for which there is no plan."""
    victim = pod("low", bound="n2", priority=1)
    plan = record([("b", "n2")], [("low", "n2")])
    beside = next_step(situation(gang(pod("a", bound="n1"), pod("b", nominated="n2")), plan, victim))
    assert beside == Evict(plan.victims)
    step = next_step(situation(gang(pod("b", nominated="n2"), pod("c")), plan, victim))
    assert isinstance(step, NeedPlan)
    assert step.cause is Cause.MEMBER_GONE


def test_members_wait_while_a_victim_terminates() -> None:
    victim = pod("low", bound="n2", priority=1, terminating=True)
    plan = record(TWO, [("low", "n2")])
    step = next_step(situation(gang(*held_pair()), plan, victim))
    assert step == AwaitVictims(plan.victims)


def test_room_that_still_terminates_is_waited_for_though_no_victim_of_this_plan_is_left() -> None:
    stranger = pod("old", bound="n2", terminating=True)
    step = next_step(situation(gang(*held_pair()), record(TWO), stranger))
    assert step == AwaitVictims(())


def seconds_after_grace(seconds: float) -> datetime:
    """A time by which terminating pods count."""
    return datetime.fromisoformat(GRACE_END) + timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [-100.0, 0.0, 29.0])
def test_a_victim_with_a_long_grace_period_is_waited_for_until_30_seconds_after_its_end(seconds: float) -> None:
    victim = pod("low", bound="n2", priority=1, terminating=True)
    plan = record(TWO, [("low", "n2")])
    now = seconds_after_grace(seconds)
    assert next_step(situation(gang(*held_pair()), plan, victim, now=now)) == AwaitVictims(plan.victims)


@pytest.mark.parametrize(
    ("finalizers", "remedy"),
    [
        (("example.com/keep",), "its finalizers are example.com/keep: remove them"),
        ((), "its node may be gone: delete it with --force"),
    ],
)
@pytest.mark.parametrize("victims", [[("low", "n2")], []])
def test_an_overdue_pod_invalidates_the_plan_and_is_named(
    finalizers: tuple[str, ...], remedy: str, victims: list[tuple[str, str]]
) -> None:
    """It is a victim, or it terminated before the plan was made."""
    late = pod("low", bound="n2", priority=1, terminating=True, finalizers=finalizers)
    now = seconds_after_grace(31.0)
    step = next_step(situation(gang(*held_pair()), record(TWO, victims), late, now=now))
    assert isinstance(step, NeedPlan)
    assert step.cause is Cause.POD_OVERDUE
    assert step.message == (f"pod default/low on node n2 terminates since {GRACE_END} and does not end ({remedy})")


def test_no_pod_is_evicted_while_an_overdue_pod_holds_other_capacity_of_the_plan() -> None:
    late = pod("stuck", bound="n1", priority=1, terminating=True)
    victim = pod("low", bound="n2", priority=1)
    plan = record(TWO, [("low", "n2")])
    step = next_step(situation(gang(*held_pair()), plan, late, victim, now=seconds_after_grace(31.0)))
    assert isinstance(step, NeedPlan)
    assert step.cause is Cause.POD_OVERDUE


def test_all_is_in_place_so_the_members_may_go() -> None:
    step = next_step(situation(gang(*held_pair()), record(TWO, [("low", "n2")])))
    assert isinstance(step, Release)
    assert names(step.members) == ["a", "b"]


def intruder(priority: int, *, bound: bool) -> Situation:
    """Another pod on n2, bound or nominated, of some priority."""
    other = pod("x", bound="n2", priority=priority) if bound else pod("x", nominated="n2", priority=priority)
    return situation(gang(*held_pair()), record(TWO), other)


@pytest.mark.parametrize(
    ("priority", "bound", "lost"),
    [
        (1, True, True),  # a bound pod holds its node at any priority
        (100, True, True),
        (100, False, True),  # a nomination of higher priority takes the room
        (10, False, True),  # a nomination of equal priority keeps the room
        (1, False, False),  # a nomination of lower priority holds nothing
    ],
)
def test_a_plan_whose_room_is_gone_falls_and_nobody_is_let_go(priority: int, bound: bool, lost: bool) -> None:  # noqa: FBT001 - a table
    step = next_step(intruder(priority, bound=bound))
    assert isinstance(step, NeedPlan) is lost
    if isinstance(step, NeedPlan):
        assert "n2" in step.message
        assert [each.metadata.name for each in step.stale] == ["a", "b"]


def test_a_plan_falls_with_a_member_that_is_gone() -> None:
    step = next_step(situation(gang(pod("a", nominated="n1")), record(TWO)))
    assert isinstance(step, NeedPlan)
    assert step.message == "member b is gone"


def test_a_release_that_was_interrupted_goes_on() -> None:
    released = pod("a", gated=False, nominated="n1")
    step = next_step(situation(gang(released, pod("b", nominated="n2")), record(TWO)))
    assert isinstance(step, Release)
    assert names(step.members) == ["b"]


def test_released_members_are_left_to_the_scheduler() -> None:
    released = [pod("a", gated=False, nominated="n1"), pod("b", gated=False, nominated="n2")]
    assert isinstance(next_step(situation(gang(*released), record(TWO))), AwaitBinding)


def test_a_released_member_that_lost_its_nomination_gets_it_back_when_its_room_is_free() -> None:
    plan, lost = record(TWO), pod("b", gated=False)
    bound = pod("a", bound="n1")
    step = next_step(situation(gang(bound, lost), plan))
    assert isinstance(step, Renominate)
    assert names(step.members) == ["b"]
    taken = situation(gang(bound, lost), plan, pod("x", bound="n2"))
    assert isinstance(next_step(taken), AwaitBinding)


STUCK = (
    "pod b was released to n2 and cannot be bound there (Insufficient cpu): make room, or delete it to be planned anew"
)


@pytest.mark.parametrize(
    ("nominated", "plan", "other", "said"),
    [
        ("n2", TWO, None, ""),
        ("n2", TWO, {"bound": "n2"}, STUCK),
        # The record is lost, but the pod's own annotation still names the node of its release.
        ("n2", None, {"bound": "n2"}, STUCK),
        ("n3", TWO, {"bound": "n2"}, ""),  # the scheduler has found it another node
        ("n2", TWO, {"bound": "n2", "terminating": True}, ""),  # its room is about to be free
        ("n2", TWO, {"nominated": "n2", "priority": 100}, STUCK),
        ("n2", TWO, {"nominated": "n2", "priority": 1}, ""),
    ],
)
def test_a_released_member_without_room_is_told_of(
    nominated: str, plan: list[tuple[str, str]] | None, other: dict[str, Any] | None, said: str
) -> None:
    members = pod("a", bound="n1"), pod("b", gated=False, nominated=nominated)
    others = [] if other is None else [pod("x", **other)]
    step = next_step(situation(gang(*members), None if plan is None else record(plan), *others))
    assert isinstance(step, AwaitBinding)
    assert stranded(step.stranded) == said


def test_a_replacement_needs_a_plan_of_its_own() -> None:
    bound, late = pod("a", bound="n1"), pod("c")
    assert isinstance(next_step(situation(gang(bound, late), record(TWO))), NeedPlan)


def test_a_gang_whose_members_are_all_bound_is_settled() -> None:
    assert next_step(situation(gang(pod("a", bound="n1"), pod("b", bound="n2")), record(TWO))) == AllBound()
