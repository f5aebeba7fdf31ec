"""Round by round on the local API server: the writes for a gang, their order, and the gang's final state.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import re

import pytest
from controller_scene import BUDGETS, PODS, Leader, Scene, member, place
from local_api.server import Fault

from controller.scheduling import rejections

_MERGE = "application/merge-patch+json"


def came_in_order(scene: Scene, *patterns: str) -> None:
    """Each of these was written for the first time after the one before."""
    writes = scene.api.writes()
    first = [next(at for at, each in enumerate(writes) if re.fullmatch(pattern, each)) for pattern in patterns]
    assert first == sorted(first)


NOMINATION, PROBE, RELEASE = r"PATCH .*/pods/[ab]/status", "POST .*/phalanx-system/pods", "PATCH .*/pods/[ab]"
STATUS, EVICTION = "PATCH .*/gangs/llm/status", "POST .*/eviction"


@pytest.mark.usefixtures("leader")
def test_a_gang_is_recorded_held_probed_released_and_bound(scene: Scene) -> None:
    place(scene)
    probe = scene.await_probe()
    assert scene.nominated("a", "b") == ["n1", "n2"]
    assert scene.gated("a")
    status = scene.await_phase("Nominated")
    assert [each["node"] for each in status["assignments"]] == ["n1", "n2"]
    plans = {scene.pod(each)["metadata"]["annotations"]["phalanx.dev/plan"] for each in ("a", "b")}
    assert plans == {status["planId"]}
    assert "2 pods fit in r1" in scene.says("a")
    scene.answer(probe)
    scene.bind("a", "b")
    assert scene.nodes("a", "b") == ["n1", "n2"]
    assert scene.await_phase("Placed")["summary"]["pods"] == "2/2"
    scene.api.wait(lambda: not scene.probes(), "the probe to be swept away")
    came_in_order(scene, STATUS, NOMINATION, PROBE, RELEASE)
    told = ("GangPlanned", "GangNominated", "GangReleased", "GangPlaced")
    scene.api.wait(lambda: set(told) <= set(scene.events()), "the events")


@pytest.mark.usefixtures("leader")
def test_a_gang_that_is_not_complete_waits_and_says_for_whom(scene: Scene) -> None:
    place(scene, ["a"])
    # The controller may report the Gang object before the pod exists, so the phase alone proves nothing.
    message = "waits for 1 more pod: 1 of 2 exist"
    scene.api.wait(lambda: scene.status().get("message") == message, "llm to wait for its second pod")
    assert scene.status()["phase"] == "Waiting"
    scene.api.create(PODS, member("b"))
    scene.finish("a", "b")


@pytest.mark.usefixtures("leader")
def test_a_gang_for_which_there_is_no_room_is_told_so_on_its_members(scene: Scene) -> None:
    scene.run("busy", "n1")
    place(scene)
    status = scene.await_phase("Unplaceable")
    assert status["proof"] == "Infeasible"
    scene.api.wait(lambda: "r1 fits 1 of 2" in scene.says("a"), "the members' own messages")
    assert scene.nominated("a", "b") == ["", ""]
    scene.gone("busy")
    scene.finish("a", "b")


def victims(scene: Scene) -> None:
    """Fill all nodes but one with pods of low priority, and create a gang of high priority."""
    scene.run("low-1", "n1", priorityClassName="low")
    scene.run("low-2", "n2", priorityClassName="low")
    scene.run("low-3", "n3", priorityClassName="low")
    place(scene, priorityClassName="high")


@pytest.mark.usefixtures("leader")
def test_victims_are_evicted_when_the_room_is_held_and_nobody_starts_before_they_are_gone(scene: Scene) -> None:
    victims(scene)
    scene.api.wait(
        lambda: all("deletionTimestamp" in scene.pod(each)["metadata"] for each in ("low-1", "low-2")), "the evictions"
    )
    came_in_order(scene, STATUS, NOMINATION, f"{EVICTION} .dry run.", EVICTION)
    scene.await_phase("Evicting")
    scene.gone("low-1")
    assert (scene.probes(), scene.gated("a"), scene.gated("b")) == ([], True, True)
    scene.gone("low-2")
    scene.finish("a", "b")
    assert scene.nodes("low-3") == ["n3"]
    scene.api.wait(lambda: {"Preempted", "VictimEvicted"} <= set(scene.events()), "the events")


def budget(allowed: int) -> dict[str, object]:
    """The status of a budget."""
    healthy = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}
    return {"status": {**healthy, "disruptionsAllowed": allowed}}


def test_a_budget_that_forbids_one_eviction_forbids_all_and_the_room_is_given_back(
    scene: Scene, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another eviction uses up the budget after the plan was made."""
    monkeypatch.setattr(rejections, "HOLD_SECONDS", 0.1)
    spec = {"selector": {"matchLabels": {"app": "low-2"}}, "minAvailable": 1}
    scene.api.create(BUDGETS, {"metadata": {"name": "keep"}, "spec": spec})
    scene.api.ask("PATCH", f"{BUDGETS}/keep/status", budget(1), _MERGE)
    spent = lambda: scene.api.ask("PATCH", f"{BUDGETS}/keep/status", budget(0), _MERGE)  # noqa: E731 - a fault
    scene.api.fault("POST .*/low-2/eviction", Fault(before=spent))
    victims(scene)
    scene.api.wait(lambda: "EvictionRefused" in scene.events(), "the refusal")
    scene.api.wait(lambda: scene.nominated("a", "b") == ["", ""], "the room to be given back")
    assert all("deletionTimestamp" not in scene.pod(f"low-{at}")["metadata"] for at in (1, 2, 3))
    assert leader.writer.pause == 0
    scene.api.ask("PATCH", f"{BUDGETS}/keep/status", budget(1), _MERGE)
    scene.api.wait(lambda: "deletionTimestamp" in scene.pod("low-2")["metadata"], "the eviction")
