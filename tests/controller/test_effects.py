"""The effects of a reconcile's steps: how they add up, and the gang's state after them."""

from dataclasses import FrozenInstanceError, replace

import pytest
from protocol_scenes import gang, pod, record

from controller.reconcile_state import Effects, FollowUp, Plan, ReconcileState, Reported, after, with_steps
from controller.release.next_step import Cause, NeedPlan, Nominate
from controller.writes.writer import Result, Written

DONE, REFUSED = Written(Result.DONE), Written(Result.FAILED)
PLAN = record([("a", "n1")])
STATE = ReconcileState(gang(pod("a")), {"metadata": {"name": "llm", "namespace": "default"}}, PLAN, Nominate(()))


@pytest.mark.parametrize(
    ("writes", "settled", "written", "moved"),
    [
        ([], False, False, False),
        ([REFUSED], False, True, False),
        ([REFUSED, DONE], False, True, True),
        ([DONE], True, True, False),  # the scheduler acts next
    ],
    ids=["no write", "a rejected write", "one write of two", "all writes of the step"],
)
def test_the_results_of_writes_decide_whether_another_step_is_due(
    writes: list[Written],
    *,
    settled: bool,
    written: bool,
    moved: bool,
) -> None:
    after_it = STATE.after(Effects.of(writes, settled=settled))
    assert (after_it.effects.written, after_it.moved) == (written, moved)


def test_effects_without_a_value_change_nothing() -> None:
    assert STATE.after(Effects()) == STATE


def test_later_effects_replace_messages_and_keep_the_others() -> None:
    first = Effects(written=True, watched=True, untried="not tried", reported=Reported(untried="not tried"))
    second = Effects(stays="is not restarted", untried="not tried yet", follow_up=FollowUp.NONE)
    both = first.then(second)
    assert both == replace(first, stays="is not restarted", untried="not tried yet", follow_up=FollowUp.NONE)
    assert STATE.after(first).after(second) == STATE.after(both)
    assert STATE.after(both).resting


def test_a_plan_that_a_write_has_dropped_leaves_no_record() -> None:
    step = NeedPlan("a budget refuses", cause=Cause.EVICTION_REFUSED)
    dropped = STATE.after(Effects(plan=Plan(step, None, None)))
    assert (dropped.step, dropped.record, dropped.decision) == (step, None, None)
    assert STATE.record is PLAN


def test_each_gang_gets_its_own_effects_and_steps() -> None:
    other = replace(STATE, gang=replace(STATE.gang, key=STATE.gang.key._replace(name="other")))
    failed, untouched = after([STATE, other], {STATE.gang.key: Effects(failed="an error")})
    assert (failed.failed, untouched) == ("an error", other)
    first, second = with_steps([STATE, other], {other.gang.key: NeedPlan()})
    assert (first, second.step) == (STATE, NeedPlan())


def test_no_step_can_change_a_state() -> None:
    with pytest.raises(FrozenInstanceError):
        STATE.record = None  # type: ignore[misc]  # that it raises is the test
