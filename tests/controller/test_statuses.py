"""The status of a Gang object, phase by phase."""

from dataclasses import replace
from typing import Any

import pytest
from gang_builders import gang, placed, pod, refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.gang_status import ROOM_TAKEN, Notes, Phase, PresentObject, gang_status, invalid_status, status_patch
from controller.release.records import record_from, record_of
from gangs.model import Fault, Gang, ObjectRef, PodSet
from kube.objects import OwnerReference
from planning.decision import Decision, Explanation, Refusal

T0, T1 = "2026-11-21T09:00:00Z", "2026-11-21T09:00:10Z"

WAITING = gang(pod("llm-0"))
GATED = gang(pod("llm-0"), pod("llm-1"))
HALF = gang(pod("llm-0", node="node-5"), pod("llm-1", planned="node-6"))
BOUND = gang(pod("llm-0", node="node-5"), pod("llm-1", node="node-6"))
PLAN = placed(GATED, "node-5", "node-6", victims=["low-5"])


def status(
    of: Gang,
    phase: Phase,
    *,
    now: str = T0,
    decision: Decision | None = None,
    plan_id: str = "",
    previous: dict[str, Any] | None = None,
    generation: int | None = None,
    **notes: Any,
) -> dict[str, Any]:
    present = PresentObject(previous or {}, generation)
    return gang_status(of, phase, now=now, decision=decision, plan_id=plan_id, present=present, notes=Notes(**notes))


def truths(made: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in made["conditions"]}


def nominated() -> dict[str, Any]:
    return status(GATED, Phase.NOMINATED, decision=PLAN, plan_id="abc", generation=1)


PHASES = [
    # gang, phase, decision, reason, message, members (expected, existing, placed, bound), true conditions
    (WAITING, Phase.WAITING, None, "MembersMissing", "waits for 1 more pod: 1 of 2 exist", (2, 1, 0, 0), ""),
    (GATED, Phase.WAITING, None, "NotPlannedYet", "waits to be planned", (2, 2, 0, 0), "Complete"),
    (
        gang(waiting_for=("PodGroup default/llm",)),
        Phase.WAITING,
        None,
        "ObjectsMissing",
        "waits for PodGroup default/llm",
        (2, 0, 0, 0),
        "",
    ),
    (
        GATED,
        Phase.UNPLACEABLE,
        refused(GATED),
        "NoRoom",
        "needs 2 pods in one spine: spine-0 fits 1 of 2",
        (2, 2, 0, 0),
        "Complete",
    ),
    (
        GATED,
        Phase.UNPLACEABLE,
        replace(refused(GATED), refusal=Refusal.NEVER_FITS),
        "NeverFits",
        "needs 2 pods in one spine: spine-0 fits 1 of 2",
        (2, 2, 0, 0),
        "Complete",
    ),
    (
        GATED,
        Phase.UNPLACEABLE,
        refused(GATED, "Unproven"),
        "NotProven",
        "needs 2 pods in one spine: spine-0 fits 1 of 2",
        (2, 2, 0, 0),
        "Complete",
    ),
    (
        GATED,
        Phase.NOMINATED,
        PLAN,
        "RoomHeld",
        "2 pods fit in spine-1: node-5, node-6, proven optimal",
        (2, 2, 2, 0),
        "Complete Planned",
    ),
    (
        GATED,
        Phase.EVICTING,
        PLAN,
        "VictimsLeaving",
        "waits for default/low-5 to go",
        (2, 2, 2, 0),
        "Complete Planned",
    ),
    (
        HALF,
        Phase.RELEASED,
        None,
        "Binding",
        "1 of 2 pods are bound on node-5..6",
        (2, 2, 2, 1),
        "Complete Planned Released",
    ),
    (
        BOUND,
        Phase.PLACED,
        None,
        "AllBound",
        "2 pods are bound on node-5..6",
        (2, 2, 2, 2),
        "Complete Planned Released Placed Whole",
    ),
    (
        gang(pod("llm-0", node="node-5"), pod("llm-1"), minimum=1),
        Phase.PLACED,
        None,
        "AllBound",
        "1 pod is bound on node-5, 1 more waits",
        (2, 2, 1, 1),
        "Complete Planned Released Placed Whole",
    ),
]


@pytest.mark.parametrize(("of", "phase", "decision", "reason", "message", "members", "true"), PHASES)
def test_each_phase_has_its_words_numbers_and_conditions(
    *, of: Gang, phase: Phase, decision: Decision | None, reason: str, message: str, members: tuple[int, ...], true: str
) -> None:
    made = status(of, phase, decision=decision, plan_id="abc" if decision else "")
    assert (made["phase"], made["reason"], made["message"]) == (phase.value, reason, message)
    assert tuple(made["members"].values()) == members
    assert " ".join(name for name, truth in truths(made).items() if truth == "True") == true
    assert list(made["members"]) == ["expected", "existing", "placed", "bound"]


def test_a_plan_with_a_member_that_lost_its_room_is_proven_and_placed_no_more() -> None:
    planned = status(HALF, Phase.NOMINATED, decision=PLAN, plan_id="abc")
    assert {"proof", "objective"} <= planned.keys()
    made = status(HALF, Phase.RELEASED, previous=planned, reason=ROOM_TAKEN, message="pod llm-1 was released")
    assert (made["reason"], made["message"], made["planId"]) == ("RoomTaken", "pod llm-1 was released", "abc")
    assert made["members"] == {"expected": 2, "existing": 2, "placed": 1, "bound": 1}
    assert not {"proof", "objective"} & made.keys()
    assert truths(made)["Placed"] == "False"


def test_an_incomplete_set_is_named_where_there_are_several() -> None:
    of = gang(pod("a"), pod("b"), pod_sets=(PodSet("main", 2, 1), PodSet("decode", 2, 2)))
    assert status(of, Phase.WAITING)["message"] == "waits for 2 more pods of decode: 0 of 2 exist"


@pytest.mark.parametrize(
    ("made", "hint"),
    [
        ({"web-0": "web"}, "; if StatefulSet web has more, it needs podManagementPolicy: Parallel"),
        ({"web-0": "web", "web-1": "web"}, ""),
        ({"a-0": "a", "b-0": "b"}, "; if StatefulSets a and b have more, they need podManagementPolicy: Parallel"),
    ],
    ids=["one pod", "two pods", "one each"],
)
def test_a_stateful_set_that_makes_its_pods_one_by_one_is_told_how_not_to(made: dict[str, str], hint: str) -> None:
    def owner(name: str) -> OwnerReference:
        return OwnerReference(api_version="apps/v1", kind="StatefulSet", name=name, controller=True)

    of = gang(*(pod(name, owners=[owner(by)]) for name, by in made.items()), minimum=4)
    said = status(of, Phase.WAITING)["message"]
    assert said.partition(" exist")[2] == (f"{hint} to make them before the first runs" if hint else "")


def test_a_plan_is_told_as_in_a_report_with_the_identities_that_a_restarted_controller_needs() -> None:
    made = nominated()
    assert made["assignments"][0] == {
        "namespace": "default",
        "pod": "llm-0",
        "podSet": "main",
        "index": 0,
        "node": "node-5",
        "uid": "uid-llm-0",
    }
    assert made["victims"] == [
        {
            "namespace": "default",
            "pod": "low-5",
            "node": "node-5",
            "priority": 0,
            "uid": "uid-low-5",
        }
    ]
    assert made["levels"][0]["domains"] == [{"path": ["spine-1"], "pods": 2}]
    assert (made["proof"], made["planId"], made["observedGeneration"]) == ("Optimal", "abc", 1)
    assert "explanation" not in made


def test_a_gang_with_a_plan_says_why_it_is_here_and_no_more_what_was_in_its_way() -> None:
    before = status(GATED, Phase.UNPLACEABLE, decision=refused(GATED))
    here = replace(PLAN, explanation=Explanation(why_here="no other spine can hold it"))
    made = status(GATED, Phase.NOMINATED, decision=here, plan_id="abc", previous=before)
    assert made["explanation"] == {"whyHere": "no other spine can hold it"}
    assert status_patch(before, made)["explanation"] == {
        "whyHere": "no other spine can hold it",
        "nearest": None,
        "wouldFitIf": None,
    }


def test_the_summary_names_the_narrowest_domain_that_all_share() -> None:
    assert nominated()["summary"] == {"pods": "0/2", "level": "spine", "domain": "spine-1"}
    assert status(BOUND, Phase.PLACED, previous=nominated())["summary"]["pods"] == "2/2"
    assert status(WAITING, Phase.WAITING)["summary"] == {"pods": "0/2"}


def test_the_plan_in_progress_can_be_read_back_from_the_status() -> None:
    record = record_of(PLAN)
    made = status(GATED, Phase.NOMINATED, decision=PLAN, plan_id=record.plan_id)
    assert record_from(made) == record


def test_members_that_were_bound_before_the_plan_are_no_part_of_its_record() -> None:
    decision = placed(HALF, "node-5", "node-6")
    record = record_of(decision)
    made = status(HALF, Phase.NOMINATED, decision=decision, plan_id=record.plan_id)
    stored = record_from(made)
    assert stored
    assert [member.name for member in stored.members] == ["llm-1"]


def test_what_the_plan_said_stays_while_it_is_carried_out() -> None:
    before = nominated()
    after = status(HALF, Phase.RELEASED, previous=before, generation=1)
    for field in ("assignments", "levels", "victims", "objective", "proof", "planId"):
        assert after[field] == before[field]


def test_a_plan_that_fell_is_told_no_more() -> None:
    after = status(GATED, Phase.UNPLACEABLE, decision=refused(GATED), previous=nominated())
    assert "planId" not in after
    assert (after["assignments"], after["levels"], after["victims"], after["proof"]) == ([], [], [], "Infeasible")
    assert after["explanation"]["wouldFitIf"] == ["1 more pod slot in spine-0"]
    assert after["explanation"]["nearest"][0]["excluded"] == {"Insufficient cpu": 1}


def test_a_lost_status_is_rebuilt_from_the_pods() -> None:
    made = status(HALF, Phase.RELEASED)
    assert [(each["pod"], each["node"]) for each in made["assignments"]] == [("llm-0", "node-5"), ("llm-1", "node-6")]
    assert all("uid" not in each for each in made["assignments"])


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    before = nominated()
    after = status(BOUND, Phase.PLACED, previous=before, now=T1, generation=1)
    times = {each["type"]: each["lastTransitionTime"] for each in after["conditions"]}
    assert times == {"Complete": T0, "Planned": T0, "Released": T1, "Placed": T1, "Whole": T1}


def test_a_gang_out_of_time_says_so_until_it_is_released() -> None:
    late = gang(pod("llm-0"), pod("llm-1"), schedule_timeout_seconds=600)
    out = status(late, Phase.UNPLACEABLE, timed_out=True)
    assert out["conditions"][-1]["message"] == "not placed within 600 s"
    held = status(late, Phase.NOMINATED, previous=out)
    assert truths(held)["TimedOut"] == "True"
    assert truths(status(late, Phase.RELEASED, previous=held))["TimedOut"] == "False"
    assert "TimedOut" not in truths(status(late, Phase.WAITING))


def test_what_the_caller_knows_better_is_told_instead() -> None:
    made = status(GATED, Phase.WAITING, reason="EvictionRefused", message="budget x allows none")
    assert (made["reason"], made["message"]) == ("EvictionRefused", "budget x allows none")


def test_a_contradiction_is_told_with_its_remedy() -> None:
    fault = Fault(ObjectRef("v1", "Pod", "default", "llm-1"), "spec.priority", "differs", "give all one priority")
    made = invalid_status([fault], now=T0, previous=nominated(), generation=2)
    assert (made["phase"], made["reason"]) == ("Invalid", "Contradiction")
    assert made["message"] == "Pod default/llm-1: spec.priority: differs; give all one priority"
    assert made["members"]["existing"] == 2
    assert "planId" not in made


@given(
    of=st.sampled_from([WAITING, GATED, HALF, BOUND]),
    phase=st.sampled_from(Phase),
    decision=st.sampled_from([None, PLAN, refused(GATED)]),
    timed_out=st.sampled_from([None, True, False]),
)
def test_the_same_state_gives_the_same_status_at_any_later_time(
    *, of: Gang, phase: Phase, decision: Decision | None, timed_out: bool | None
) -> None:
    first = status(of, phase, decision=decision, plan_id="abc", previous=nominated(), timed_out=timed_out)
    second = status(of, phase, decision=decision, plan_id="abc", previous=first, timed_out=timed_out, now=T1)
    assert second == first


json_values = st.recursive(
    st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@given(st.dictionaries(st.text(), json_values, max_size=5), st.dictionaries(st.text(), json_values, max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text of all takes seconds
def test_a_status_patch_turns_one_status_into_the_other_and_is_empty_for_equal_ones(
    before: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert merged(before, status_patch(before, wanted)) == wanted
    assert status_patch(wanted, wanted) == {}
