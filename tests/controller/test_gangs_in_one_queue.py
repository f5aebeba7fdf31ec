"""Gangs of Gang objects and of Kueue's keys in one queue, round by round on the local API server.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu; llm asks for two of one rack, z for one pod anywhere
"""

from typing import Any

import pytest
from controller_scene import GANGS, PODS, TOPOLOGIES, Scene, gang, leading, member
from local_api.store import Object
from stepped_leader import stepped

from controller.scheduling.rejections import PROVEN_RETRIES

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_MERGE = "application/merge-patch+json"


def furnish(scene: Scene, cpu: int, **spec: Any) -> None:
    """Create the queue q of the ClusterQueue pool, which has a quota of so many cpu on any node."""
    scene.api.create(f"{KUEUE}/resourceflavors", {"metadata": {"name": "any"}, "spec": {}})
    furnish_queue(scene, "q", "pool", cpu, **spec)


def furnish_queue(scene: Scene, name: str, above: str, cpu: int, **spec: Any) -> None:
    """Create a queue of a ClusterQueue with a quota of so many cpu."""
    quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    pool = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    scene.api.create(f"{KUEUE}/clusterqueues", {"metadata": {"name": above}, "spec": pool})
    queue = {"metadata": {"name": name}, "spec": {"clusterQueue": above}}
    scene.api.create(f"{KUEUE}/namespaces/default/localqueues", queue)


def of_kueue(name: str) -> Object:
    """A pod that is a gang of its own in the queue."""
    found = member(name, "")
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q", "phalanx.dev/dialect": "kueue"}
    return found


def place(scene: Scene, **spec: Any) -> None:
    """The Gang llm in the queue, with its members."""
    scene.api.create(GANGS, gang(queue="q", **spec))
    scene.api.create(PODS, member("a"), member("b"))


def says(scene: Scene, name: str, message: str) -> None:
    """Wait until the gang's message begins with this text."""
    scene.api.wait(lambda: scene.status(name).get("message", "").startswith(message), f"{name} to say {message}")


NO_QUOTA = "waits for quota: the gang needs 4 cpu, and flavor any of ClusterQueue pool has 0 of 8 left"


def test_what_one_kind_uses_the_other_does_not_get_and_what_is_deleted_is_free(scene: Scene) -> None:
    furnish(scene, 8)
    with leading(scene):
        place(scene)
        scene.finish("a", "b")
        assert scene.await_phase("Placed")["flavors"] == ["any"]
        scene.api.create(PODS, of_kueue("z"))
        says(scene, "z", NO_QUOTA)
        for name in ("a", "b"):
            scene.gone(name)
        scene.finish("z")
        scene.api.create(PODS, member("a"), member("b"))
        says(scene, "llm", NO_QUOTA.replace("needs 4", "needs 8").replace("0 of 8", "4 of 8"))


def test_after_a_restart_of_the_controller_the_quota_is_as_full_as_before(scene: Scene) -> None:
    furnish(scene, 8)
    with leading(scene):
        place(scene)
        scene.finish("a", "b")
        scene.await_phase("Placed")
    scene.api.create(PODS, of_kueue("z"))
    with leading(scene):
        says(scene, "z", NO_QUOTA)


@pytest.mark.parametrize("patch", [{"spec": {"queue": "other"}}, None])
def test_quota_that_a_running_gang_gives_back_is_used_though_no_pod_and_no_node_has_changed(
    scene: Scene, patch: Object | None
) -> None:
    """The running gang llm goes into another queue, or its Gang is deleted (None). Its pods run on."""
    furnish(scene, 8)
    furnish_queue(scene, "other", "other", 8)
    scene.api.create(GANGS, gang(queue="q"))
    scene.run("a", "n1", of="llm")
    scene.run("b", "n2", of="llm")
    with stepped(scene) as leader:
        scene.api.create(PODS, of_kueue("z"))
        for _ in range(4):
            leader.step()
            leader.think()
        assert scene.status("z")["message"].startswith(NO_QUOTA)
        if patch is not None:
            scene.api.ask("PATCH", f"{GANGS}/llm", patch, _MERGE)
        else:
            scene.api.ask("DELETE", f"{GANGS}/llm")
        leader.wait(2 * PROVEN_RETRIES.first)
        for _ in range(3):
            leader.step()
            leader.think()
        assert scene.nominated("z") == ["n3"]


@pytest.mark.parametrize("seconds", [None, 2])
def test_a_gang_whose_time_is_over_goes_to_the_end_of_a_strict_queue(scene: Scene, seconds: int | None) -> None:
    """The Gang llm has no place, and z would have one; the quota is enough for both."""
    furnish(scene, 12, queueingStrategy="StrictFIFO")
    with leading(scene):
        scene.run("busy", "n1")
        place(scene, scheduleTimeoutSeconds=seconds)
        scene.await_phase("Unplaceable")
        scene.api.create(PODS, of_kueue("z"))
        if seconds is None:
            says(scene, "z", "waits for gang default/llm, which is before it in ClusterQueue pool (StrictFIFO)")
            scene.gone("busy")
            scene.finish("a", "b")
        scene.finish("z")


def test_a_queue_that_is_held_lets_nobody_in_and_what_runs_is_charged(scene: Scene) -> None:
    furnish(scene, 8)
    with leading(scene):
        scene.api.create(PODS, of_kueue("z"))
        scene.finish("z")
        scene.api.ask("PATCH", f"{KUEUE}/clusterqueues/pool", {"spec": {"stopPolicy": "Hold"}}, _MERGE)
        place(scene)
        says(scene, "llm", "waits for ClusterQueue pool to be resumed (spec.stopPolicy)")
        scene.api.ask("PATCH", f"{KUEUE}/clusterqueues/pool", {"spec": {"stopPolicy": None}}, _MERGE)
        says(scene, "llm", NO_QUOTA.replace("needs 4", "needs 8").replace("0 of 8", "4 of 8"))


def test_a_queue_that_comes_late_is_waited_for_once_there_are_any(scene: Scene) -> None:
    furnish(scene, 8)
    with leading(scene):
        scene.api.create(GANGS, gang(queue="late"))
        scene.api.create(PODS, member("a"), member("b"))
        says(scene, "llm", "waits for LocalQueue default/late")
        late = {"metadata": {"name": "late"}, "spec": {"clusterQueue": "pool"}}
        scene.api.create(f"{KUEUE}/namespaces/default/localqueues", late)
        scene.finish("a", "b")


def test_a_gang_that_goes_into_another_queue_before_it_is_let_go_has_to_ask_there(scene: Scene) -> None:
    furnish(scene, 8)
    furnish_queue(scene, "small", "small", 4)
    with leading(scene):
        place(scene)
        probe = scene.await_probe()
        scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"queue": "small"}}, _MERGE)
        says(scene, "llm", "needs 8 cpu, and flavor any of ClusterQueue small never has more than 4")
        scene.answer(probe)
        scene.api.wait(lambda: scene.nominated("a", "b") == ["", ""], "the room to be given back")
        assert (scene.gated("a"), scene.gated("b")) == (True, True)


OTHER_LEVELS = {"spec": {"levels": [{"name": "row", "nodeLabel": "example.com/row"}]}}
ELSEWHERE = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "elsewhere"}}}


@pytest.mark.parametrize(("path", "patch"), [(f"{TOPOLOGIES}/dc", OTHER_LEVELS), (f"{PODS}/a", ELSEWHERE)])
def test_what_runs_is_charged_though_something_is_wrong_with_its_gang_by_now(
    scene: Scene, path: str, patch: Object
) -> None:
    furnish(scene, 8)
    with leading(scene):
        place(scene)
        scene.finish("a", "b")
        scene.await_phase("Placed")
        scene.api.ask("PATCH", path, patch, _MERGE)
        scene.api.create(PODS, of_kueue("z"))
        says(scene, "z", NO_QUOTA)
        assert (scene.status()["phase"], scene.status()["flavors"]) == ("Placed", ["any"])
