"""When a gang's schedule timeout ends: counted from the gang's completeness, and never after its release."""

from datetime import UTC, datetime, timedelta

import pytest
from controller_scene import GANGS, PODS, Scene, member
from controller_scene import gang as gang_manifest
from gang_builders import gang, pod
from stepped_leader import stepped

from controller.release.schedule_timeout import expired, timed_out
from controller.scheduling.rejections import HOLD_SECONDS

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def status(*, complete_for: float | None, released: bool = False) -> dict[str, object]:
    """Return the status of a Gang whose members have been complete for so many seconds (None: not complete)."""
    since = NOW - timedelta(seconds=complete_for or 0)
    complete = {"type": "Complete", "status": "False" if complete_for is None else "True"}
    complete["lastTransitionTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"conditions": [complete, {"type": "Released", "status": str(released)}]}


@pytest.mark.parametrize(
    ("timeout", "complete_for", "released", "over"),
    [
        (None, 10_000, False, False),  # no limit
        (60, 30, False, False),
        (60, 90, False, True),
        (60, 90, True, False),  # it runs already
        (60, None, False, False),  # it waits for its own pods
    ],
)
def test_the_time_is_over(timeout: int | None, complete_for: float | None, released: bool, over: bool) -> None:  # noqa: FBT001 - a table
    of = gang(pod("w-0"), schedule_timeout_seconds=timeout)
    assert expired(of, status(complete_for=complete_for, released=released), NOW) is over


def test_a_gang_without_a_status_has_all_its_time() -> None:
    assert not expired(gang(pod("w-0"), schedule_timeout_seconds=1), {}, NOW)


@pytest.mark.parametrize(("said", "known"), [("True", True), ("False", None), (None, None)])
def test_whether_it_was_over_once_is_read_from_the_status(said: str | None, known: bool | None) -> None:  # noqa: FBT001 - a table
    conditions = [] if said is None else [{"type": "TimedOut", "status": said}]
    assert timed_out({"conditions": conditions}) is known


def test_a_gang_whose_time_is_over_is_not_planned_for_a_moment_though_it_would_fit(scene: Scene) -> None:
    """The pause lasts `HOLD_SECONDS`. Then the gang is planned again, last within its priority (decision 8)."""
    scene.api.create(PODS, member("old", "", gated=False, nodeName="n1"))
    scene.api.create(GANGS, gang_manifest(scheduleTimeoutSeconds=60))
    scene.api.create(PODS, member("a"), member("b"))
    with stepped(scene) as leader:
        leader.step()
        leader.think()
        leader.step(2)
        assert scene.status()["phase"] == "Unplaceable"
        leader.wait(61.0)
        leader.step()
        assert scene.status()["message"].startswith("was not placed within 60 s")
        scene.gone("old")
        leader.step(2)
        assert leader.fast.idle
        leader.wait(HOLD_SECONDS)
        leader.step(2)
        leader.think()
        leader.step(2)
        assert scene.status()["phase"] == "Nominated"
