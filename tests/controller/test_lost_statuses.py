"""A gang reaches the same end if its Gang's status is wiped, its Gang is deleted, or another version wrote the status.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu; the gang llm needs two nodes of one rack: a and b
"""

from collections.abc import Callable
from typing import Any

import pytest
from controller_scene import GANGS, PODS, RACK, Scene, gang, member, place
from local_api.server import UNREACHABLE
from local_api.store import Object
from lost_statuses import LOSSES
from node_manifests import node_manifest
from stepped_leader import SteppedLeader, stepped

from controller.release.records import record_from
from kube.keys import WHOLE_MARK

Lose = Callable[[Scene], None]
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"


def finish(scene: Scene, leader: SteppedLeader) -> None:
    """Do the work of scheduler and kubelet until both members run. No member runs for long while the other is gated."""
    for _ in range(12):
        leader.step()
        leader.think()
        for probe in scene.probes():
            if "conditions" not in probe["status"]:
                scene.answer(probe["metadata"]["name"])
        for pod in ("victim", *("ab" if not scene.gated("a") and not scene.gated("b") else "")):
            if pod == "victim" and "deletionTimestamp" in scene.pod(pod).get("metadata", {}):
                scene.gone(pod)
            elif pod != "victim" and scene.nodes(pod) == [""] and scene.nominated(pod) != [""]:
                scene.bind(pod)
        if all(scene.nodes("a", "b")):
            break
    leader.step(3)
    assert sorted(scene.nodes("a", "b")) == ["n1", "n2"]
    assert scene.status()["phase"] == "Placed"


def nominate(scene: Scene, leader: SteppedLeader) -> None:
    """Let the gang be planned and nominated."""
    place(scene)
    leader.step(2)
    leader.think()
    leader.step()
    assert sorted(scene.nominated("a", "b")) == ["n1", "n2"]


@LOSSES
def test_a_nominated_gang_is_placed(scene: Scene, lose: Lose) -> None:
    with stepped(scene) as leader:
        nominate(scene, leader)
        lose(scene)
        finish(scene, leader)


@LOSSES
def test_a_gang_whose_victim_is_leaving_is_placed(scene: Scene, lose: Lose) -> None:
    scene.run("victim", "n1")
    with stepped(scene) as leader:
        scene.api.create(GANGS, gang())
        scene.api.create(PODS, *(member(name, priorityClassName="high") for name in "ab"))
        leader.step(2)
        leader.think()
        leader.step(2)
        assert "deletionTimestamp" in scene.pod("victim")["metadata"]
        lose(scene)
        finish(scene, leader)


@LOSSES
def test_a_gang_whose_release_was_cut_off_is_placed(scene: Scene, lose: Lose) -> None:
    with stepped(scene) as leader:
        nominate(scene, leader)
        scene.answer(scene.probes()[-1]["metadata"]["name"])
        scene.api.fault(f"PATCH {PODS}/b$", UNREACHABLE)
        leader.step()
        scene.api.mend()
        assert [scene.gated("a"), scene.gated("b")] == [False, True]
    lose(scene)
    with stepped(scene) as successor:
        finish(scene, successor)


@LOSSES
def test_a_gang_whose_time_is_over_says_so_again(scene: Scene, lose: Lose) -> None:
    """The status stores the time when the members were complete. If the status is lost, the timeout begins again."""
    scene.run("other", "n1", priorityClassName="high")
    scene.api.create(GANGS, gang(scheduleTimeoutSeconds=30))
    scene.api.create(PODS, member("a"), member("b"))
    with stepped(scene) as leader:
        for _ in range(2):
            leader.step(2)
            leader.think()
            leader.step()
            leader.wait(31)
            leader.step(2)
            conditions = {each["type"]: each["status"] for each in scene.status()["conditions"]}
            assert conditions["TimedOut"] == "True"
            lose(scene)


ODD_PLANS: dict[str, dict[str, Any]] = {
    "an entry lacks its node": {"planId": "p", "assignments": [{"uid": "u", "namespace": "d", "pod": "a"}]},
    "entries are names": {"planId": "p", "assignments": ["a"]},
    "an identity that is no text": {"planId": 7, "assignments": []},
    "no identity": {"assignments": [{"uid": "u", "namespace": "d", "pod": "a", "node": "n"}]},
}


@pytest.mark.parametrize("status", ODD_PLANS.values(), ids=ODD_PLANS)
def test_a_plan_of_another_form_is_no_plan(status: dict[str, Any]) -> None:
    assert record_from(status) is None


@LOSSES
def test_a_restart_that_was_cut_off_goes_on(scene: Scene, lose: Lose) -> None:
    """The marks that the gang was whole are deleted first. A new leader then finds a partial gang, with any status."""
    scene.api.create("/api/v1/nodes", node_manifest("n4", {RACK: "r2"}, 4))
    scene.api.create(STATEFUL_SETS, {"metadata": {"name": "w"}, "spec": {"replicas": 2}})
    scene.api.create(GANGS, gang(onFailure="Restart", maxRestarts=2))
    scene.api.create(PODS, owned(scene, "a"), owned(scene, "b"))
    with stepped(scene) as leader:
        finish(scene, leader)
        assert [mark(scene, "a"), mark(scene, "b")] == ["2", "2"]
        node = scene.nodes("b")[0]
        scene.gone("b")
        scene.run("other", node, priorityClassName="high")
        scene.api.create(PODS, owned(scene, "b"))
        leader.step(2)
        leader.think()
        leader.step(2)
        scene.api.fault(f"POST {PODS}/a/eviction", UNREACHABLE)
        leader.wait(31)
        leader.step(3)
        assert scene.status()["restarts"] == 1
        assert "deletionTimestamp" not in scene.pod("a")["metadata"]
        assert mark(scene, "a") == ""
    lose(scene)
    with stepped(scene, ahead=60.0) as successor:
        successor.step(2)
        successor.wait(1)
        successor.step()
        assert "deletionTimestamp" in scene.pod("a")["metadata"]


def owned(scene: Scene, name: str) -> Object:
    """Return a member that the StatefulSet w makes."""
    uid = scene.api.ask("GET", f"{STATEFUL_SETS}/w")["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": uid, "controller": True}
    pod = member(name)
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}


def mark(scene: Scene, name: str) -> str:
    """Return the mark of a member that its gang is or was whole."""
    return str(scene.pod(name)["metadata"].get("annotations", {}).get(WHOLE_MARK, ""))
