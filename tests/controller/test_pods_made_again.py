"""Pods that their operator deletes and recreates: in between their gang keeps its capacity.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu

Each workload makes two pods that must share a rack, so only r1 will do. A gang of the same priority, older than the
restart, waits for r1 all the time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import pytest
from controller_scene import GANGS, PODS, SETTLED, SYSTEM_PODS, Scene, gang, leading, member
from local_api.server import refused
from local_api.store import Object
from protocol_scenes import gang as of_two
from protocol_scenes import pod as protocol_pod
from workload_operators import ROWS

from controller.defaults import MADE_AGAIN_SECONDS
from controller.loop import holds_meanwhile
from controller.reconcile_state import ReconcileState
from controller.release.next_step import Cause, NeedPlan
from controller.release.records import PlanRecord
from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from gangs.workloads.later_pods.made_again import goes_on
from kube.keys import DIALECT, GATE, PLAN
from kube.placeholders import PLACEHOLDER

_MERGE = "application/merge-patch+json"
_DEATH = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30}
RIVALS = ("x", "y")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload, of two pods. `plural`: its resource; `size`: the fields that make them two."""

    row: str
    plural: str
    size: tuple[tuple[str, int], ...]
    gang: str = "w"


KINDS = (
    Kind("StatefulSet", "/apis/apps/v1/namespaces/default/statefulsets", (("replicas", 2),)),
    Kind(
        "PyTorchJob",
        "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
        (("pytorchReplicaSpecs/Worker/replicas", 1),),
    ),
    Kind(
        "LeaderWorkerSet",
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
        (("leaderWorkerTemplate/size", 2),),
        gang="w-0",
    ),
)
IDS = [each.row for each in KINDS]


class Workload:
    """A running workload, with the actions of its operator and of the kubelets on its pods."""

    def __init__(self, scene: Scene, kind: Kind, **annotations: str) -> None:
        self.scene, self.kind, self._row = scene, kind, ROWS[kind.row]
        manifest: Any = as_admitted(self._row.manifest(gang="true", required="rack", **annotations), Sources())
        for path, value in kind.size:
            part = manifest["spec"]
            *way, last = path.split("/")
            for step in way:
                part = part[step]
            part[last] = value
        self.stored = scene.api.ask("POST", kind.plural, manifest)
        self.names = [each["metadata"]["name"] for each in self._row.pods(self.stored)]
        self.cpu = "4"

    def make(self, *names: str, letters: str = "", called: Mapping[str, str] | None = None) -> None:
        """Create all or some of its pods, as the operator does.

        :param letters: the end of their names, as a Job adds it.
        :param called: other names for the pods.
        """
        for pod in self._row.pods(self.stored):
            if not names or pod["metadata"]["name"] in names:
                pod["metadata"]["name"] = (called or {}).get(pod["metadata"]["name"], pod["metadata"]["name"]) + letters
                pod["metadata"]["labels"][DIALECT] = "phalanx"
                pod["spec"]["schedulingGates"] = [{"name": GATE}]
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = self.cpu
                self.scene.api.ask("POST", PODS, pod)

    def run(self) -> list[str]:
        """Make them and be the scheduler until they run; their nodes."""
        self.make()
        self.scene.finish(*self.names)
        self.await_whole()
        return self.scene.nodes(*self.names)

    def await_whole(self) -> None:
        """Wait until its gang is placed and reports that it has been whole."""
        self.scene.await_phase("Placed", self.kind.gang)

    def delete(self, *names: str) -> None:
        """Begin the deletion of all or some of its pods; they stay until `end`."""
        for name in names or self.names:
            self.scene.api.ask("DELETE", f"{PODS}/{name}", _DEATH)

    def end(self, *names: str) -> None:
        """They have ended."""
        for name in names or self.names:
            self.scene.gone(name)


def held(scene: Scene) -> dict[str, str]:
    """Return by expected pod the node where its placeholder reserves capacity."""
    items = scene.api.ask("GET", SYSTEM_PODS)["items"]
    found = [each for each in items if PLACEHOLDER in each["metadata"].get("labels", {})]
    name = "phalanx.dev/held-for"
    return {
        each["metadata"]["annotations"][name].partition("/")[2]: each["status"].get("nominatedNodeName", "")
        for each in found
    }


def wait_for_the_rack(scene: Scene) -> None:
    """Create another gang that only r1 could hold, and wait for its rejection."""
    scene.api.create(GANGS, gang("rival"))
    scene.api.create(PODS, *(member(name, "rival") for name in RIVALS))
    scene.await_phase("Unplaceable", "rival")


def all_gone(scene: Scene, kind: Kind) -> tuple[Workload, dict[str, str]]:
    """Return a workload whose pods have all ended and whose capacity is reserved, and by pod the node where it ran."""
    workload = Workload(scene, kind)
    nodes = dict(zip(workload.names, workload.run(), strict=True))
    wait_for_the_rack(scene)
    workload.delete()
    scene.api.wait(lambda: held(scene) == nodes, "room to be held on the nodes where they ran")
    workload.end()
    return workload, nodes


def rivals_have_nothing(scene: Scene) -> bool:
    return scene.nominated(*RIVALS) == ["", ""] and all(scene.gated(name) for name in RIVALS)


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_all_pods_made_again_find_their_room_held_until_they_are_all_there(scene: Scene, kind: Kind) -> None:
    workload, nodes = all_gone(scene, kind)
    assert rivals_have_nothing(scene)
    first, last = workload.names
    workload.make(first)
    scene.api.wait(lambda: scene.status(kind.gang)["members"]["existing"] == 1, "the first to be seen")
    assert scene.gated(first), "too few are there to start together"
    assert held(scene) == nodes, "the first may go once more"
    assert f"reserved for {last} until" in scene.status(kind.gang)["message"]
    workload.make(last)
    scene.finish(*workload.names)
    assert dict(zip(workload.names, scene.nodes(*workload.names), strict=True)) == nodes
    workload.await_whole()
    scene.api.wait(lambda: not held(scene), "no placeholder to be left")
    assert rivals_have_nothing(scene)


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_one_that_is_deleted_once_more_before_all_are_there_loses_nothing(scene: Scene, kind: Kind) -> None:
    """A gated pod ends at once. The capacity that it had taken over was free in that moment."""
    workload, nodes = all_gone(scene, kind)
    first, last = workload.names
    for _ in range(2):
        workload.make(last)
        scene.api.wait(lambda: scene.status(kind.gang)["members"]["existing"] == 1, "it to be seen")
        scene.gone(last)
        scene.api.wait(lambda: scene.status(kind.gang)["members"]["existing"] == 0, "it to be missed")
        assert held(scene) == nodes
    workload.make(first, last)
    scene.finish(*workload.names)
    assert dict(zip(workload.names, scene.nodes(*workload.names), strict=True)) == nodes
    workload.await_whole()
    assert rivals_have_nothing(scene)


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize(
    ("kind", "letters"), [*((each, "") for each in KINDS), (KINDS[0], "-x7k2p")], ids=[*IDS, "other names"]
)
def test_one_that_is_deleted_once_more_before_it_is_let_go_leaves_its_room_to_the_next(
    scene: Scene, kind: Kind, letters: str
) -> None:
    workload, nodes = all_gone(scene, kind)
    last, made = workload.names[1], [f"{each}{letters}" for each in workload.names]
    scene.api.fault("PATCH .*/pods/[^/]*$", *[refused(429, "TooManyRequests", retryAfterSeconds=1)] * 100)
    workload.make(letters=letters)
    scene.api.wait(lambda: scene.nominated(*made) == list(nodes.values()), "both to be nominated")
    plan = scene.pod(made[0])["metadata"]["annotations"][PLAN]
    scene.gone(made[1])
    scene.api.wait(lambda: held(scene) == {last: nodes[last]}, "its room to be held again")
    assert scene.gated(made[0])
    assert scene.pod(made[0])["metadata"]["annotations"][PLAN] == plan, "the plan has not fallen"
    assert scene.nominated(made[0]) == [nodes[workload.names[0]]]
    scene.api.mend()
    workload.make(last, letters=letters)
    scene.finish(*made)
    assert scene.nodes(*made) == list(nodes.values())
    workload.await_whole()
    assert rivals_have_nothing(scene)


@pytest.mark.usefixtures("leader")
def test_who_takes_the_seat_of_one_that_is_gone_again_leaves_his_own_open(scene: Scene) -> None:
    """The pods have random names. Of two replacements the first went away, and the second took its place.

    Then no expected pod stood for the second place any more: the plan was invalidated, and another gang got the rack.
    """
    workload = Workload(scene, replace(KINDS[0], size=(("replicas", 3),)))
    workload.cpu = "2"
    workload.run()
    wait_for_the_rack(scene)
    workload.delete()
    scene.api.wait(lambda: len(held(scene)) == 3 and all(held(scene).values()), "room to be held")
    nodes = held(scene)
    workload.end()
    workload.make("w-0", "w-1", called={"w-0": "yy", "w-1": "dd"})
    scene.api.wait(lambda: scene.status("w")["members"]["existing"] == 2, "both to be seen")
    scene.gone("yy")
    scene.api.wait(lambda: scene.status("w")["members"]["existing"] == 1, "one to be missed")
    assert held(scene) == nodes
    workload.make("w-0", "w-2", called={"w-0": "qq", "w-2": "zz"})
    scene.finish("dd", "qq", "zz")
    workload.await_whole()
    assert sorted(scene.nodes("dd", "qq", "zz")) == sorted(nodes.values())
    assert rivals_have_nothing(scene)


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_what_is_held_is_told(scene: Scene, kind: Kind) -> None:
    workload = Workload(scene, kind)
    workload.run()
    workload.delete()
    scene.api.wait(lambda: len(held(scene)) == 2, "room to be held")
    workload.end()

    def told() -> bool:
        message: str = scene.status(kind.gang).get("message", "")
        return message.startswith("capacity is reserved for 2 pods on n1..2; ") and message.endswith("recreates them")

    scene.api.wait(told, "the gang to say for whom")
    status = scene.status(kind.gang)
    assert status["phase"] == "Nominated"
    assert status["members"] == {"expected": 2, "existing": 0, "placed": 2, "bound": 0}


@pytest.mark.usefixtures("leader")
def test_one_of_them_made_again_finds_its_room_held_while_the_others_run(scene: Scene) -> None:
    workload = Workload(scene, KINDS[1])
    nodes = dict(zip(workload.names, workload.run(), strict=True))
    wait_for_the_rack(scene)
    lost = workload.names[1]
    workload.delete(lost)
    scene.api.wait(lambda: held(scene) == {lost: nodes[lost]}, "its room to be held")
    workload.end(lost)
    scene.run("stray", "n3")
    workload.make(lost)
    scene.finish(lost)
    assert scene.nodes(lost) == [nodes[lost]]
    scene.api.wait(lambda: not held(scene), "no placeholder to be left")
    workload.await_whole()


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("how", ["deleted", "ended", "shrunk", "suspended", "a group less"])
def test_a_workload_that_makes_them_no_more_keeps_no_room(scene: Scene, how: str) -> None:
    kind = KINDS[2] if how == "a group less" else KINDS[1]
    workload = Workload(scene, kind)
    workload.run()
    wait_for_the_rack(scene)
    workload.delete()
    scene.api.wait(lambda: len(held(scene)) == 2, "room to be held")
    path = f"{kind.plural}/w"
    changes: dict[str, Object] = {
        "ended": {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        "shrunk": {"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 0}, "Worker": {"replicas": 0}}}},
        "a group less": {"spec": {"replicas": 0}},
        "suspended": {"spec": {"runPolicy": {"suspend": True}}},
    }
    if how == "deleted":
        scene.api.ask("DELETE", path)
    else:
        scene.api.ask("PATCH", f"{path}/status" if how == "ended" else path, changes[how], _MERGE)
    workload.end()
    before = monotonic()
    scene.api.wait(lambda: not held(scene), "the room to be given back")
    assert monotonic() - before < MADE_AGAIN_SECONDS / 2, "nobody waits for those who do not come"
    scene.finish(*RIVALS)
    assert sorted(scene.nodes(*RIVALS)) == ["n1", "n2"]


def test_who_does_not_come_in_time_loses_the_room(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.reconcile_states.MADE_AGAIN_SECONDS", 1.0)
    with leading(scene):
        workload = Workload(scene, KINDS[0])
        workload.run()
        wait_for_the_rack(scene)
        workload.delete()
        scene.api.wait(lambda: len(held(scene)) == 2, "room to be held")
        workload.end()
        scene.finish(*RIVALS)
        assert not held(scene)
        assert scene.await_phase("Waiting", "w")["message"].startswith("waits for 2 more pods: 0 of 2 exist")


@pytest.mark.parametrize("way", ["setting", "annotation"])
def test_where_no_room_is_wanted_none_is_held(scene: Scene, way: str) -> None:
    with leading(scene, replace(SETTLED, placeholders=way != "setting")):
        workload = Workload(scene, KINDS[0], **({"placeholders": "false"} if way == "annotation" else {}))
        workload.run()
        wait_for_the_rack(scene)
        workload.delete()
        workload.end()
        scene.finish(*RIVALS)
        assert not held(scene)


@pytest.mark.usefixtures("leader")
def test_nobody_is_evicted_for_a_pod_that_may_come_again(scene: Scene) -> None:
    """The pod's node is gone, and a pod of lower priority uses the only other node of its rack."""
    workload = Workload(scene, KINDS[1])
    nodes = dict(zip(workload.names, workload.run(), strict=True))
    lost = workload.names[1]
    scene.api.ask("DELETE", f"/api/v1/nodes/{nodes[lost]}")
    workload.delete(lost)
    workload.end(lost)
    scene.run("low", "n3", priorityClassName="low")
    scene.api.wait(lambda: scene.status("w").get("phase") != "Placed", "the loss to be seen")
    assert not held(scene)
    assert "deletionTimestamp" not in json.dumps(scene.pod("low"))


def test_whoever_leads_next_gives_back_what_it_does_not_know_of(scene: Scene) -> None:
    """Only the memory of the leader knows the lost pods.

    After a change of leaders the new leader gives back the capacity that was reserved for them.
    """
    with leading(scene) as first:
        workload = Workload(scene, KINDS[1])
        workload.run()
        workload.delete()
        scene.api.wait(lambda: len(held(scene)) == 2, "room to be held")
        first.die()
    workload.end()
    with leading(scene):
        scene.api.wait(lambda: not held(scene), "the room to be given back")
        workload.make()
        scene.finish(*workload.names)
        workload.await_whole()


@pytest.mark.parametrize("condition", ["Complete", "SuccessCriteriaMet", "FailureTarget", "Failed"])
def test_a_job_that_ends_makes_none_again(condition: str) -> None:
    job: Any = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {}}}
    assert goes_on(job)
    job["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    assert not goes_on(job)
    job["status"]["conditions"][0]["status"] = "False"
    assert goes_on(job)


@pytest.mark.usefixtures("leader")
def test_an_error_at_one_gang_has_only_its_room_not_held(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("an error of ours")

    monkeypatch.setattr("controller.lost_members.seat_again", fails)
    workload = Workload(scene, KINDS[1])
    workload.run()
    workload.delete()
    workload.end()
    workload.make()
    scene.finish(*workload.names)
    workload.await_whole()
    assert not held(scene)


def test_what_is_held_stays_while_the_plan_for_more_of_them_is_made() -> None:
    """It was given back after a second without an answer, which a busy machine takes."""
    here = replace(of_two(protocol_pod("a"), protocol_pod("b")), made_again=frozenset({"w/main/a"}))
    record = PlanRecord("p", (), ())
    waiting = ReconcileState(here, {}, record, NeedPlan())
    assert holds_meanwhile(waiting)
    assert not holds_meanwhile(ReconcileState(here, {}, record, NeedPlan(cause=Cause.ROOM_LOST)))
    assert not holds_meanwhile(ReconcileState(here, {}, None, NeedPlan()))
    assert not holds_meanwhile(ReconcileState(replace(here, made_again=frozenset()), {}, record, NeedPlan()))
