"""ResourceQuotas that appear, shrink or fill up while capacity is reserved for expected pods.

The tests check when the plan is invalidated.

Members a (exists, on n1), b and c (to come, planned on n2 and n3)
"""

from dataclasses import replace

import msgspec
import pytest
from manual_clock import ManualClock
from protocol_scenes import gang, pod, snapshot
from test_pods_to_come import HELD, PLAN, coming

from controller.acting.resource_quota_shortages import LASTING_SECONDS, QuotaShortages
from controller.reconcile_state import ReconcileState, with_steps
from controller.release.next_step import AwaitPods, Cause, NeedPlan, Planned, Release
from kube.objects import Container, ResourceQuota, ResourceRequirements

WHY = "waits for ResourceQuota few to have room for 2 more pods"


def waiting() -> ReconcileState:
    """Return the round of a gang whose first pod runs, with capacity reserved for the expected pods."""
    of = gang(pod("a", bound="n1"), coming("b"), coming("c"))
    places = zip((each.pod for each in of.members[1:]), ("n2", "n3"), HELD, strict=True)
    held = {member.pod.metadata.uid: each for member, each in zip(of.members[1:], HELD, strict=True)}
    return ReconcileState(of, {}, PLAN, AwaitPods(tuple(Planned(*each) for each in places)), held)


def found(shortages: QuotaShortages, hard: str, used: str = "1", gang_state: ReconcileState | None = None) -> object:
    """Return the gang's step when the ResourceQuota of its namespace allows `hard` pods, of which `used` are used."""
    written = {"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": hard}}}
    quota = msgspec.convert({**written, "status": {"used": {"pods": used}}}, ResourceQuota)
    gang_state = gang_state or waiting()
    steps = shortages.find([gang_state], replace(snapshot(*HELD), quotas={"default": (quota,)}))
    return steps.get(gang_state.gang.key, gang_state.step)


@pytest.mark.parametrize("used", ["0", "1", "7"])
def test_where_a_quota_is_too_small_for_the_gang_its_room_is_given_back_at_once(used: str) -> None:
    """This holds also for a quota so new that its usage is not counted yet."""
    step = found(QuotaShortages(), "2", used)
    assert isinstance(step, NeedPlan)
    assert step.cause is Cause.QUOTA_SHORT
    assert step.message.startswith(WHY)
    assert step.stale == HELD


def test_before_the_first_pod_is_let_go_as_well() -> None:
    """The quota came between plan and release."""
    of = gang(pod("a", nominated="n1"), coming("b"), coming("c"))
    held = {member.pod.metadata.uid: each for member, each in zip(of.members[1:], HELD, strict=True)}
    step = found(
        QuotaShortages(), "2", "1", ReconcileState(of, {}, PLAN, Release((Planned(of.members[0].pod, "n1"),)), held)
    )
    assert isinstance(step, NeedPlan)
    assert [each.metadata.name for each in step.stale] == ["a", "p-b", "p-c"]


def test_where_it_has_room_all_stays_as_it_is() -> None:
    assert isinstance(found(QuotaShortages(), "3"), AwaitPods)


def test_what_others_use_for_a_while_takes_nothing_back() -> None:
    """The usage is a burst of Jobs, or the charge for a pod of the gang that the controller has not read yet."""
    clock = ManualClock()
    shortages = QuotaShortages(clock)
    assert isinstance(found(shortages, "3", "2"), AwaitPods)
    clock.now += LASTING_SECONDS - 1
    assert isinstance(found(shortages, "3", "2"), AwaitPods)
    assert isinstance(found(shortages, "3", "1"), AwaitPods)
    clock.now += LASTING_SECONDS
    assert isinstance(found(shortages, "3", "2"), AwaitPods)
    clock.now += LASTING_SECONDS
    step = found(shortages, "3", "2")
    assert isinstance(step, NeedPlan)
    assert step.message == f"{WHY} (pods: 2 needed, 1 of 3 left)"


def test_of_two_gangs_that_a_quota_has_no_room_for_together_the_younger_gives_its_room_back() -> None:
    """Both gangs were planned at the same time, and neither plan saw the reserved capacity of the other."""
    older, younger = waiting(), waiting()
    key = younger.gang.key._replace(name="younger")
    younger = replace(younger, gang=replace(younger.gang, key=key, created="2026-02-01T00:00:00Z"))
    written = {"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "5"}}}
    quota = msgspec.convert({**written, "status": {"used": {"pods": "2"}}}, ResourceQuota)
    there = replace(snapshot(*HELD), quotas={"default": (quota,)})
    steps = QuotaShortages().find([younger, older], there)
    assert list(steps) == [younger.gang.key]
    assert steps[younger.gang.key].message == f"{WHY} (pods: 2 needed, 1 of 5 left)"


def test_of_several_whom_others_leave_too_little_one_after_the_other_gives_its_room_back() -> None:
    """The youngest; then it may be enough for the older one."""
    older, younger, clock = waiting(), waiting(), ManualClock()
    key = younger.gang.key._replace(name="younger")
    younger = replace(younger, gang=replace(younger.gang, key=key, created="2026-02-01T00:00:00Z"))
    written = {"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "7"}}}
    quota = msgspec.convert({**written, "status": {"used": {"pods": "6"}}}, ResourceQuota)
    there, shortages = replace(snapshot(*HELD), quotas={"default": (quota,)}), QuotaShortages(clock)
    shortages.find([older, younger], there)
    clock.now += LASTING_SECONDS
    steps = shortages.find([older, younger], there)
    assert list(steps) == [younger.gang.key]
    left = with_steps([older, younger], steps)
    clock.now += LASTING_SECONDS - 1
    assert not shortages.find(left, there)
    clock.now += 1
    assert list(shortages.find(left, there)) == [older.gang.key]


def test_one_whose_charge_cannot_be_counted_keeps_its_plan_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """No reader accepts such a pod, so it would be an internal error."""
    broken, sound = waiting(), waiting()
    asking = Container(name="c", resources=ResourceRequirements(requests={"cpu": "abc"}))
    pods = [msgspec.structs.replace(each.pod.spec, containers=(asking,)) for each in broken.gang.members]
    members = tuple(
        replace(each, pod=msgspec.structs.replace(each.pod, spec=spec))
        for each, spec in zip(broken.gang.members, pods, strict=True)
    )
    broken = replace(broken, gang=replace(broken.gang, key=broken.gang.key._replace(name="broken"), members=members))
    written = {"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}}
    quota = msgspec.convert(written, ResourceQuota)
    steps = QuotaShortages().find([broken, sound], replace(snapshot(*HELD), quotas={"default": (quota,)}))
    assert "gang default/broken" in caplog.text
    assert list(steps) == [sound.gang.key]
