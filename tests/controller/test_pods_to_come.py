"""The next step for a gang with expected pods, situation by situation.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
Members a (exists, on n1), b and c (to come, planned on n2 and n3)
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace as replace_gang

import pytest
from msgspec.structs import replace
from protocol_scenes import PLAN_ID, gang, pod, record, snapshot

from controller.acting.placeholders import placeholder_manifest
from controller.gang_status import Phase, gang_status
from controller.reconcile_state import ReconcileState
from controller.release.next_step import (
    AllBound,
    AwaitBinding,
    AwaitPods,
    Free,
    NeedPlan,
    Nominate,
    Release,
    Situation,
    Step,
    TakeOver,
    next_step,
)
from controller.release.records import PlannedMember, PlanRecord
from controller.status.reporting import phase_of
from gangs.model import Gang, GangKey, Member
from kube.keys import SYSTEM_NAMESPACE
from kube.objects import Container, Pod, PodSpec, ResourceRequirements
from kube.placeholders import HELD_FOR, PLACEHOLDER, SEAT, matched, seat_uid

KEY = GangKey("phalanx", "default", "llm")


def seat(name: str) -> str:
    """Return the expected pod of this name."""
    return seat_uid("w", "main", name)


def coming(name: str) -> Pod:
    """A pod that does not exist yet."""
    made = pod(name)
    return replace(made, metadata=replace(made.metadata, uid=seat(name)))


def placeholder(name: str, node: str, plan: str = PLAN_ID) -> Pod:
    """The placeholder of a pod on a node."""
    made = pod(f"p-{name}", nominated=node, plan=plan)
    marks = {**made.metadata.annotations, HELD_FOR: f"default/{name}", SEAT: seat(name)}
    meta = replace(made.metadata, namespace=SYSTEM_NAMESPACE, labels={PLACEHOLDER: "true"}, annotations=marks)
    return replace(made, metadata=meta)


def planned(*places: tuple[str, str]) -> PlanRecord:
    """Return a plan for a, which exists, and for expected pods."""
    members = (PlannedMember(seat(name), "default", name, node) for name, node in places)
    return PlanRecord(PLAN_ID, (*record([("a", "n1")]).members, *members), ())


PLAN = planned(("b", "n2"), ("c", "n3"))
HELD = (placeholder("b", "n2"), placeholder("c", "n3"))


def step(
    of: Gang,
    plan: PlanRecord | None,
    held: Iterable[Pod],
    *others: Pod,
    predecessors: Mapping[str, Pod] | None = None,
) -> Step:
    """Return the next step for the gang, given its plan, its placeholders and the other pods.

    :param predecessors: as in `Situation`.
    """
    held = tuple(held)
    there = [each.pod for each in of.members if "/" not in each.pod.metadata.uid] + [*held, *others]
    live = {each.metadata.uid: each for each in there}
    seats = {each.metadata.annotations[SEAT]: each for each in held}
    return next_step(Situation(of, plan, snapshot(*there), live, seats, predecessors=predecessors or {}))


def test_members_without_a_placeholder_or_with_one_elsewhere_are_nominated() -> None:
    of = gang(pod("a", nominated="n1"), coming("b"), coming("c"))
    for held in ((HELD[0],), (HELD[0], placeholder("c", "n2")), (HELD[0], placeholder("c", "n3", "older"))):
        found = step(of, PLAN, held)
        assert isinstance(found, Nominate)
        assert [each.pod.metadata.name for each in found.members] == ["c"]


def test_those_that_exist_are_released_and_the_others_awaited() -> None:
    found = step(gang(pod("a", nominated="n1"), coming("b"), coming("c")), PLAN, HELD)
    assert isinstance(found, Release)
    assert [each.pod.metadata.name for each in found.members] == ["a"]
    of = gang(pod("a", nominated="n1", gated=False), coming("b"), coming("c"))
    assert isinstance(step(of, PLAN, HELD), AwaitBinding)
    of = gang(pod("a", bound="n1"), coming("b"), coming("c"))
    assert isinstance(step(of, PLAN, HELD), AwaitPods)


def test_a_member_is_not_released_without_an_expected_pod_before_it_while_too_few_exist() -> None:
    """A StatefulSet recreates pod 1, which a user has deleted, when it has ended. Pod 2 cannot hasten that."""
    third = PlannedMember(seat("b"), "default", "b", "n2")
    plan = PlanRecord(PLAN_ID, (*record([("a", "n1"), ("c", "n3")]).members, third), ())
    of = gang(pod("a", bound="n1"), coming("b"), pod("c", nominated="n3"))
    in_order = replace_gang(of, members=tuple(replace_gang(each, index=at) for at, each in enumerate(of.members)))
    assert isinstance(step(in_order, plan, HELD[:1]), AwaitPods)
    enough = replace_gang(in_order, min_member=2, pod_sets=(replace_gang(of.pod_sets[0], min_count=2),))
    for other in (of, enough):
        found = step(other, plan, HELD[:1])
        assert isinstance(found, Release)
        assert [each.pod.metadata.name for each in found.members] == ["c"]


def test_no_member_is_released_while_a_terminating_pod_has_the_name_of_an_expected_pod_that_is_needed() -> None:
    """The gang starts again: no member is released. Pod b is recreated only when the old pod b has ended."""
    old = terminating_pod("b")
    members = (pod("a", nominated="n1"), coming("b"), coming("c"))
    of = replace_gang(gang(*members), members=tuple(map(indexed, gang(*members).members, range(3))))
    found = step(of, PLAN, HELD, old, predecessors={seat("b"): old})
    assert isinstance(found, AwaitPods)
    assert found.predecessors == (old,)
    assert isinstance(step(of, PLAN, HELD, old), Release)
    two = replace_gang(of, min_member=2, pod_sets=(replace_gang(of.pod_sets[0], min_count=2),))
    last = terminating_pod("c")
    assert isinstance(step(two, PLAN, HELD, last, predecessors={seat("c"): last}), Release)
    assert isinstance(step(two, PLAN, HELD, old, predecessors={seat("b"): old}), AwaitPods)  # c comes after b


def test_a_gang_that_has_started_goes_on_while_a_terminating_pod_has_the_name_of_an_expected_pod() -> None:
    old = terminating_pod("c")
    third = PlannedMember(seat("c"), "default", "c", "n3")
    plan = PlanRecord(PLAN_ID, (*record([("a", "n1"), ("b", "n2")]).members, third), ())
    of = gang(pod("a", bound="n1"), pod("b", nominated="n2"), coming("c"))
    found = step(of, plan, HELD[1:], old, predecessors={seat("c"): old})
    assert isinstance(found, Release)


def terminating_pod(name: str) -> Pod:
    """A pod that terminates on another node than those of the plan."""
    made = pod(name, bound="n9")
    return replace(made, metadata=replace(made.metadata, uid=f"old-{name}", deletion_timestamp="2026-01-01T00:00:00Z"))


def indexed(member: Member, index: int) -> Member:
    """Return the member with this rank."""
    return replace_gang(member, index=index)


def test_a_gang_that_waits_for_expected_pods_is_nominated_until_a_member_is_released() -> None:
    """Pod 0 of a StatefulSet was deleted before the gang was whole. Pod 1 waits for it and is not released."""
    unreleased = gang(coming("a"), pod("b", nominated="n2"))
    members = tuple(replace_gang(member, index=at) for at, member in enumerate(unreleased.members))
    plan = PlanRecord(PLAN_ID, (*planned(("a", "n1")).members[1:], *record([("b", "n2")]).members), ())
    in_order = replace_gang(unreleased, members=members)
    due = step(in_order, plan, [placeholder("a", "n1")])
    assert isinstance(due, AwaitPods)
    state = ReconcileState(in_order, {}, plan, due)
    assert phase_of(state) is Phase.NOMINATED
    status = gang_status(in_order, phase_of(state), now="2026-01-01T00:00:00Z", decision=None, plan_id=PLAN_ID)
    assert status["message"].endswith("; capacity is reserved for a until Gang default/llm creates it")
    running = gang(pod("a", bound="n1"), coming("b"), coming("c"))
    assert phase_of(ReconcileState(running, {}, PLAN, step(running, PLAN, HELD))) is Phase.RELEASED


def test_a_pod_that_comes_takes_its_seat_then_the_placeholder_goes_then_it_is_released() -> None:
    came = gang(pod("a", bound="n1"), pod("b"), coming("c"))
    found = step(came, PLAN, HELD)
    assert isinstance(found, TakeOver)
    ((taken, successor),) = found.successors
    assert (taken, successor.pod.metadata.uid, successor.node) == (seat("b"), "uid-b", "n2")
    third = PlannedMember(seat("c"), "default", "c", "n3")
    taken_over = PlanRecord(PLAN_ID, (*record([("a", "n1"), ("b", "n2")]).members, third), ())
    found = step(came, taken_over, HELD)
    assert isinstance(found, Nominate)
    assert [each.pod.metadata.name for each in found.members] == ["b"]
    nominated = gang(pod("a", bound="n1"), pod("b", nominated="n2"), coming("c"))
    assert step(nominated, taken_over, HELD) == Free(HELD[:1])
    found = step(nominated, taken_over, HELD[1:])
    assert isinstance(found, Release)
    assert [each.pod.metadata.name for each in found.members] == ["b"]


def test_a_pod_of_a_higher_priority_in_the_room_of_one_to_come_fells_the_plan() -> None:
    of = gang(pod("a", bound="n1"), coming("b"), coming("c"))
    found = step(of, PLAN, HELD, pod("intruder", bound="n2", priority=1000))
    assert isinstance(found, NeedPlan)
    assert found.message == "node n2 has no room left for cpu"
    assert found.stale == HELD


def test_members_that_are_not_to_come_any_more_give_their_room_back() -> None:
    assert step(gang(pod("a", bound="n1")), PLAN, HELD) == Free(HELD)
    found = step(gang(pod("a", bound="n1"), coming("b")), PLAN, HELD)
    assert isinstance(found, NeedPlan)
    assert (found.message, found.stale) == ("member c is gone", HELD)


def test_the_room_of_pods_to_come_stays_held_when_the_first_one_has_done_its_work() -> None:
    """An initializer ends before the training is created. If it counted as gone, the plan would be invalidated."""
    of = replace_gang(gang(coming("b"), coming("c")), succeeded=1, expected=3, min_member=3)
    assert isinstance(step(of, PLAN, HELD), AwaitPods)
    found = step(replace_gang(of, succeeded=0), PLAN, HELD)
    assert isinstance(found, NeedPlan)
    assert found.message == "member a is gone"


def test_one_that_goes_is_not_taken_for_one_that_did_its_work_before_the_plan() -> None:
    """The pod that is there has not taken its place, and fewer members than the minimum were released."""
    of = replace_gang(gang(coming("b"), coming("c"), pod("x")), succeeded=1, expected=4, min_member=4)
    found = step(of, PLAN, HELD)
    assert isinstance(found, NeedPlan)
    assert found.message == "member a is gone"


def test_without_a_plan_no_placeholder_stays() -> None:
    of = gang(pod("a"), coming("b"), coming("c"))
    assert step(of, None, HELD) == NeedPlan(stale=HELD)
    assert step(gang(pod("a", bound="n1")), None, HELD) == Free(HELD)
    assert step(gang(pod("a", bound="n1")), None, ()) == AllBound()


def test_a_placeholder_asks_for_what_the_pod_asks_for() -> None:
    asked = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "8"}
    container = Container(resources=ResourceRequirements(requests=dict(asked)))
    spec = PodSpec(containers=(container,), priority_class_name="high")
    made = placeholder_manifest(KEY, replace(coming("b"), spec=spec))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1500m", "memory": str(2**30), "nvidia.com/gpu": "8"}
    assert resources["limits"] == {"nvidia.com/gpu": "8"}
    assert made["spec"]["priorityClassName"] == "high"
    assert made["spec"]["nodeSelector"] == {"phalanx.dev/probe": "never"}
    assert made == placeholder_manifest(KEY, replace(coming("b"), spec=spec))
    assert made["metadata"]["name"] != placeholder_manifest(KEY, coming("c"))["metadata"]["name"]


def test_pods_find_their_seats_by_name_else_by_role() -> None:
    seats = [("main", "w-0"), ("main", "w-1"), ("nodes", "j-nodes-0-0"), ("nodes", "j-nodes-0-1"), ("launcher", "m-0")]
    pods = [("nodes", "j-nodes-0-1-x7k2p"), ("main", "w-1"), ("launcher", "m-q8z4c"), ("other", "o-0")]
    assert matched(seats, pods) == {"j-nodes-0-1-x7k2p": "j-nodes-0-1", "w-1": "w-1", "m-q8z4c": "m-0"}


def test_what_is_left_of_a_seat_that_was_taken_goes_before_a_plan_for_one_more_that_is_lost() -> None:
    """The old placeholder must not count as another gang's capacity. Otherwise the gang would be rejected.

    It would then lose all its reserved capacity.
    """
    of = replace_gang(gang(pod("a", nominated="n1"), coming("b")), made_again=frozenset({seat("b")}))
    taken = planned()
    left = placeholder("a", "n1")
    assert step(of, taken, (left,)) == Free((left,))
    found = step(of, taken, ())
    assert isinstance(found, NeedPlan)
    assert found.cause is None
    missing = replace_gang(gang(pod("a"), coming("b")), made_again=frozenset({seat("b")}))
    assert isinstance(step(missing, taken, (left,)), Nominate)


@pytest.mark.parametrize("name", ["b", "b-x7k2p"], ids=["named as before", "a Job's"])
def test_who_is_made_again_has_the_place_of_a_gated_one_that_is_gone(name: str) -> None:
    """Otherwise the plan is invalidated, and the recreated pods lose their reserved capacity."""
    plan = record([("a", "n1"), (name, "n2")])
    of = replace_gang(gang(pod("a", nominated="n1"), coming("b")), made_again=frozenset({seat("b")}))
    found = step(of, plan, ())
    assert isinstance(found, TakeOver)
    ((gone, successor),) = found.successors
    assert (gone, successor.pod.metadata.uid, successor.node) == (f"uid-{name}", seat("b"), "n2")
    assert isinstance(step(of, planned(("b", "n2")), ()), Nominate)


def test_who_is_made_again_is_planned_anew_where_others_of_the_plan_were_let_go() -> None:
    seats = frozenset({seat("b")})
    for others in ([pod("a", bound="n1")], [pod("a", gated=False, nominated="n1")], []):
        of = replace_gang(gang(*others, coming("b")), made_again=seats)
        assert isinstance(step(of, record([("a", "n1"), ("b", "n2")]), ()), NeedPlan)
    other = replace_gang(gang(pod("a", nominated="n1"), coming("c")), made_again=frozenset({seat("c")}))
    assert isinstance(step(other, record([("a", "n1"), ("b", "n2")]), ()), NeedPlan)


def test_none_is_let_go_while_fewer_than_must_run_have_a_place() -> None:
    """Otherwise a pod whose expected pod is in no plan would count, and two of three would start."""
    of = gang(pod("a", nominated="n1"), pod("x"), coming("b"))
    of = replace_gang(of, made_again=frozenset({seat("b")}), min_member=2)
    of = replace_gang(of, pod_sets=(replace_gang(of.pod_sets[0], min_count=2),))
    plan = planned(("b", "n2"))
    assert isinstance(step(of, plan, HELD[:1]), AwaitPods)
