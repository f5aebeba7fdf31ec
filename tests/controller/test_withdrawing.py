"""Which partly running gangs cannot become whole, and which record shows that a gang was never whole.

r1: n1, n2      r2: n3      each node has room for one of the gang llm: a runs on n1
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from protocol_scenes import PLAN_ID, gang, pod, record, snapshot

from controller.acting.withdrawing import begun, why_not
from controller.gang_status import Notes, Phase, PresentObject, gang_status
from controller.reconcile_state import ReconcileState
from controller.release.next_step import AwaitBinding, NeedPlan, Release
from controller.release.records import PlanRecord
from controller.release.wholeness import Withdrawal, WithdrawalReason, status_says_whole, still_withdrawn
from gangs.model import Gang, PodSet
from kube.keys import RELEASE_BEGUN, RELEASED, WHOLE_MARK
from kube.objects import Pod

NOON = "2026-01-01T12:00:00Z"
A, B = pod("a", bound="n1"), pod("b")


def let_go(made: Pod, time: str = NOON, **notes: str) -> Pod:
    """Return the pod with the note that its release leaves, and other `notes`."""
    annotations = {**made.metadata.annotations, RELEASED: time, **notes}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


def made(pod: Pod, time: str) -> Pod:
    """Return the pod with this creation time."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=time))


def case(
    of: Gang, plan: PlanRecord | None = None, status: dict[str, Any] | None = None, **fields: Any
) -> ReconcileState:
    step = fields.pop("step", NeedPlan() if plan is None else Release(()))
    return ReconcileState(of, {"metadata": {}, "status": status or NEVER}, plan, step, **fields)


def said(whole: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Whole", "status": whole, "reason": "NotYet"}]}


NEVER = said("False")
MARKED_A = let_go(A, **{RELEASE_BEGUN: NOON})
"""The member a as this version releases it."""

BEGUN: dict[str, tuple[ReconcileState, str | None]] = {
    "one of two runs": (case(gang(let_go(A), B)), NOON),
    "the first of two that run": (
        case(gang(let_go(A, "2026-01-01T12:00:01Z"), let_go(pod("c", bound="n2")), B)),
        NOON,
    ),
    "none runs": (case(gang(pod("a"), B)), None),
    "both run": (case(gang(let_go(A), let_go(pod("b", bound="n2")))), None),
    "as many as must run": (case(replace(gang(let_go(A), B), min_member=1, pod_sets=(PodSet("main", 2, 1),))), None),
    "it was whole once, and is mended": (case(gang(let_go(A), B), status=said("True")), None),
    "its status was wiped": (case(gang(let_go(A), B), status={"phase": "Released"}), NOON),
    "an older version released it, and one has come in place of another": (
        case(gang(let_go(A), made(B, "2026-01-01T12:00:02Z")), status={"phase": "Released"}),
        None,
    ),
    "one has been lost since, and no leader saw it whole": (
        case(replace(gang(MARKED_A), min_member=2, pod_sets=(PodSet("main", 2, 2),))),
        NOON,
    ),
    "one has come in place of another, and no leader saw it whole": (
        case(gang(MARKED_A, made(B, "2026-01-01T12:00:02Z"))),
        NOON,
    ),
    "a leader saw it whole, and its status was wiped": (
        case(gang(let_go(A, **{RELEASE_BEGUN: NOON, WHOLE_MARK: "2"}), B), status={"phase": "Released"}),
        None,
    ),
    "a leader saw it whole, and its status is from before": (
        case(gang(let_go(A, **{RELEASE_BEGUN: NOON, WHOLE_MARK: "2"}), B), status=NEVER),
        None,
    ),
    "its status alone says that it was whole": (case(gang(MARKED_A, B), status=said("True")), None),
    "the release began before that of the one that runs": (
        case(gang(let_go(A, "2026-01-01T12:00:03Z", **{RELEASE_BEGUN: NOON}), B)),
        NOON,
    ),
    "its dialect promises no more than a start together": (
        case(replace(gang(let_go(A), B), all_or_none=False)),
        None,
    ),
    "the one that runs came past us": (case(gang(A, B)), None),
    "what is said of its release is no time": (case(gang(let_go(A, "soon"), B)), None),
    "one has been lost since": (case(replace(gang(let_go(A)), min_member=2, pod_sets=(PodSet("main", 2, 2),))), None),
    "one has come since in place of another": (case(gang(let_go(A), made(B, "2026-01-01T12:00:02Z"))), None),
    "one came a moment before, by another clock": (case(gang(let_go(A), made(B, "2026-01-01T12:00:01Z"))), NOON),
    "one has been lost, and one waits since the release": (
        case(replace(gang(let_go(A), B), expected=3, min_member=3, pod_sets=(PodSet("main", 3, 3),))),
        NOON,
    ),
    "one has been lost, and one that waits was never needed": (
        case(replace(gang(let_go(A), B), expected=3, min_member=2, pod_sets=(PodSet("main", 3, 2),))),
        None,
    ),
    "it is being withdrawn, and one has gone": (
        case(
            replace(gang(let_go(A)), min_member=2, pod_sets=(PodSet("main", 2, 2),)),
            status={"conditions": [{"type": "Whole", "status": "False", "reason": "Withdrawn", "message": "so"}]},
        ),
        NOON,
    ),
}


@pytest.mark.parametrize(("of", "since"), BEGUN.values(), ids=BEGUN)
def test_since_when_a_gang_runs_in_part_that_never_was_whole(of: ReconcileState, since: str | None) -> None:
    assert begun(of) == since


FREED = let_go(pod("b", gated=False, nominated="n2"))
TAKEN = pod("other", bound="n2", priority=100)
VICTIM = pod("low", bound="n2", priority=0, terminating=True)

CANS: dict[str, tuple[Sequence[Pod], PlanRecord | None, dict[str, Any], Sequence[Pod], str]] = {
    "the rest has a place in a plan": ((A, B), record([("b", "n2")]), {}, (), ""),
    "the rest has none": ((A, B), None, {}, (), "the rest has no place"),
    "the rest is being planned": ((A, B), None, {"deferred": True}, (), "the rest has no place"),
    "its plan fell a moment ago": (
        (A, B),
        record([("b", "n2")]),
        {"step": NeedPlan(), "deferred": True},
        (),
        "the rest",
    ),
    "the rest was released, too": ((A, FREED), record([("b", "n2")]), {"step": AwaitBinding(())}, (), ""),
    "the rest was released, and its room is taken": (
        (A, FREED),
        record([("b", "n2")]),
        {"step": AwaitBinding(())},
        (TAKEN,),
        "b was released to n2, which cannot take it: Insufficient cpu",
    ),
    "the rest waits for a victim": ((A, B), record([("b", "n2")], [("low", "n2")]), {}, (VICTIM,), ""),
}


@pytest.mark.parametrize(("pods", "plan", "fields", "others", "why"), CANS.values(), ids=CANS)
def test_whether_the_rest_can_start(
    pods: Sequence[Pod], plan: PlanRecord | None, fields: dict[str, Any], others: Sequence[Pod], why: str
) -> None:
    there = snapshot(*pods, *others)
    found = why_not(case(gang(*pods), plan, **fields), there, (), patient=True)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_victims_are_not_waited_for_for_ever() -> None:
    plan = record([("b", "n2")], [("low", "n2")])
    assert why_not(case(gang(A, B), plan), snapshot(A, B, VICTIM), (), patient=False) == "victims have not gone in time"


def test_a_pod_whose_name_a_member_gets_is_not_waited_for_for_ever() -> None:
    plan, delayed = record([("b", "n2")]), {B.metadata.uid: B}
    found = why_not(case(gang(A, B), plan), snapshot(A, B), (), patient=False, delayed=delayed)
    assert found == "the gang starts when the terminating pod default/b has ended"
    assert why_not(case(gang(A, B), plan), snapshot(A, B), (), patient=False) == ""


def test_a_refused_eviction_is_in_the_message_and_not_in_the_reason_that_is_kept() -> None:
    withdrawal = Withdrawal(WithdrawalReason.WITHDRAWN, "withdrawn: 1 of 2 had started", "budget b needs 1")
    notes = Notes(withdrawal=withdrawal)
    status = gang_status(gang(A, B), Phase.UNPLACEABLE, now=NOON, plan_id=PLAN_ID, notes=notes)
    text = "withdrawn: 1 of 2 had started; an eviction was refused: budget b needs 1"
    assert status["message"].endswith(text)
    assert still_withdrawn(status, released=False) == replace(withdrawal, refusal="")


def test_what_the_condition_says_along_the_way() -> None:
    half, both = gang(A, B), gang(A, pod("b", bound="n2"))
    status: dict[str, Any] = {}
    told = []
    for of, phase, withdrawn in (
        (gang(pod("a"), B), Phase.WAITING, ""),
        (gang(pod("a"), B), Phase.NOMINATED, ""),
        (half, Phase.UNPLACEABLE, "withdrawn: 1 of 2 had started"),
        (gang(B), Phase.WAITING, ""),
        (gang(pod("a"), B), Phase.NOMINATED, ""),
        (both, Phase.PLACED, ""),
        (half, Phase.WAITING, ""),
        (gang(B), Phase.WAITING, ""),
    ):
        notes = Notes(withdrawal=Withdrawal(WithdrawalReason.WITHDRAWN, withdrawn) if withdrawn else None)
        status = gang_status(of, phase, now=NOON, plan_id=PLAN_ID, present=PresentObject(status), notes=notes)
        told.append((status_says_whole(status), bool(still_withdrawn(status, released=phase.released))))
    assert told == [
        (None, False),
        (False, False),
        (False, True),
        (False, True),
        (False, True),
        (True, False),
        (True, False),
        (False, False),
    ]
