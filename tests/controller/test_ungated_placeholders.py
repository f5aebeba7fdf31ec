"""The next step under a scheduler before Kubernetes 1.37, situation by situation, and the placeholders themselves.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
Members a (planned on n1) and b (on n2), which exist and are gated
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from protocol_scenes import PLAN_ID, gang, pod, record, snapshot

from controller.acting.placeholders import holding_class_manifest, must_wait, placeholder_manifest
from controller.release.next_step import Free, NeedPlan, Nominate, Planned, Release, Situation, Step, next_step
from gangs.model import Gang, GangKey
from kube.keys import GATE, SYSTEM_NAMESPACE
from kube.objects import Condition, Pod
from kube.placeholders import HELD_FOR, PLACEHOLDER, SEAT, holding_class

KEY = GangKey("phalanx", "default", "llm")
PLAN = record([("a", "n1"), ("b", "n2")])
REFUSED = Condition(type="PodScheduled", status="False", reason="Unschedulable")


def placeholder(name: str, node: str = "", *, gated: bool = False, cpu: str = "4", plan: str = PLAN_ID) -> Pod:
    """The placeholder of a member. The scheduler has tried it."""
    made = pod(f"p-{name}", nominated=node, plan=plan, gated=gated, cpu=cpu)
    marks = {**made.metadata.annotations, HELD_FOR: f"default/{name}", SEAT: f"uid-{name}"}
    meta = replace(made.metadata, namespace=SYSTEM_NAMESPACE, labels={PLACEHOLDER: "true"}, annotations=marks)
    return replace(made, metadata=meta, status=replace(made.status, conditions=(REFUSED,)))


BOTH = (placeholder("a", "n1"), placeholder("b", "n2"))


def step(of: Gang, held: Iterable[Pod], *others: Pod, ungated: bool = True) -> Step:
    """Return the next step for the gang with the plan, given its placeholders and the other pods."""
    held = tuple(held)
    there = [*(each.pod for each in of.members), *held, *others]
    live = {each.metadata.uid: each for each in there}
    seats = {each.metadata.annotations[SEAT]: each for each in held}
    return next_step(Situation(of, PLAN, snapshot(*there), live, seats, ungated))


def names(found: Step) -> list[str]:
    """Return the names of the members that a step is about."""
    assert isinstance(found, Nominate | Release)
    return [each.pod.metadata.name for each in found.members]


def test_the_nomination_of_a_gated_member_counts_only_where_the_scheduler_remembers_it() -> None:
    of = gang(pod("a", nominated="n1"), pod("b", nominated="n2"))
    assert isinstance(step(of, (), ungated=False), Release)
    found = step(of, ())
    assert isinstance(found, Nominate)
    assert names(found) == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        placeholder("b"),
        placeholder("b", "n3"),
        placeholder("b", "n2", plan="older"),
        placeholder("b", "n2", gated=True),
        placeholder("b", "n2", cpu="2"),
    ],
    ids=["not nominated", "elsewhere", "of another plan", "gated", "of other requests"],
)
def test_a_member_is_held_only_by_its_own_placeholder_for_this_plan(wrong: Pod) -> None:
    of = gang(pod("a"), pod("b"))
    found = step(of, (BOTH[0], wrong))
    assert isinstance(found, Nominate)
    assert names(found) == ["b"]


def test_members_are_released_when_all_are_held_and_placeholders_do_not_count_against_them() -> None:
    found = step(gang(pod("a"), pod("b")), BOTH)
    assert isinstance(found, Release)
    assert names(found) == ["a", "b"]
    assert [each.placeholder for each in found.members] == list(BOTH)
    assert all(each.needs_placeholder for each in found.members)


def test_after_a_crash_in_the_middle_of_a_swap_the_placeholder_is_made_again() -> None:
    """The member is nominated, its placeholder is gone, and its gate is still there."""
    of = gang(pod("a", nominated="n1", gated=False), pod("b", nominated="n2"))
    found = step(of, ())
    assert isinstance(found, Nominate)
    assert names(found) == ["b"]
    found = step(of, BOTH[1:])
    assert isinstance(found, Release)
    assert names(found) == ["b"]


def test_the_placeholder_of_a_released_or_bound_member_is_deleted() -> None:
    for member in (pod("a", nominated="n1", gated=False), pod("a", bound="n1")):
        assert step(gang(member, pod("b")), BOTH) == Free(BOTH[:1])


def test_an_invalidated_plan_frees_its_placeholders() -> None:
    found = step(gang(pod("a"), pod("b")), BOTH, pod("intruder", bound="n2", priority=1000))
    assert isinstance(found, NeedPlan)
    assert found.stale == BOTH


def test_after_an_upgrade_of_the_scheduler_members_are_nominated_before_their_placeholders_are_deleted() -> None:
    found = step(gang(pod("a"), pod("b", nominated="n2")), BOTH, ungated=False)
    assert isinstance(found, Nominate)
    assert names(found) == ["a"]
    of = gang(pod("a", nominated="n1"), pod("b", nominated="n2"))
    assert step(of, BOTH, ungated=False) == Free(BOTH)


@pytest.mark.parametrize(("scheduler", "priority"), [("another", 10), ("", 2_000_000_000)])
def test_members_that_no_placeholder_can_hold_are_nominated_themselves(scheduler: str, priority: int) -> None:
    made = pod("a", nominated="n1", priority=priority)
    made = replace(made, spec=replace(made.spec, scheduler_name=scheduler or made.spec.scheduler_name))
    other = replace(made, metadata=replace(made.metadata, name="b", uid="uid-b"))
    other = replace(other, status=replace(other.status, nominated_node_name="n2"))
    assert isinstance(step(gang(made, other), ()), Release)


def test_a_placeholder_is_nominated_only_after_the_scheduler_has_tried_it() -> None:
    untried = replace(BOTH[0], status=replace(BOTH[0].status, conditions=()))
    member = pod("a")
    assert must_wait(Planned(member, "n1", None, ungated=True))
    assert must_wait(Planned(member, "n1", untried, ungated=True))
    assert not must_wait(Planned(member, "n1", BOTH[0], ungated=True))
    assert not must_wait(Planned(member, "n1"))


def test_an_ungated_placeholder_never_preempts_and_has_the_priority_of_its_member() -> None:
    made = placeholder_manifest(KEY, pod("a", priority=10), ungated=True)
    assert "schedulingGates" not in made["spec"]
    assert made["spec"]["priorityClassName"] == holding_class(10) == "phalanx-hold-10"
    found = holding_class_manifest(10)
    assert (found["metadata"]["name"], found["value"], found["preemptionPolicy"]) == ("phalanx-hold-10", 10, "Never")
    gated = placeholder_manifest(KEY, pod("a", priority=10))
    assert gated["spec"]["schedulingGates"] == [{"name": GATE}]
    assert gated["metadata"]["name"] == made["metadata"]["name"]


def test_classes_of_negative_priorities_have_names_of_their_own() -> None:
    assert holding_class(-10) == "phalanx-hold-minus-10"
