"""A controller with `--no-placeholders`, and a workload that needs capacity reserved for expected pods.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
A LeaderWorkerSet of a leader and a worker, which comes when the leader is ready.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from controller_scene import PODS, SETTLED, SYSTEM_PODS, Scene, leading
from local_api.store import Object
from workload_operators import ROWS

from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from kube.keys import DIALECT, GATE
from kube.placeholders import PLACEHOLDER

SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
MISSING = (
    "waits for 1 more pod of worker: 0 of 1 exist; LeaderWorkerSet default/w creates pods only when others of it run, "
    "and no capacity is reserved for them, {}: set spec.startupPolicy: LeaderCreated, so that all are made at once, "
    "or {}"
)
BY_SETTING = MISSING.format("as the controller's --no-placeholders says", "have the controller run without it")
BY_ANNOTATION = MISSING.format("as its annotation phalanx.dev/placeholders says", "remove the annotation")
KEY = "phalanx.dev/placeholders"
NO_ROOM = replace(SETTLED, placeholders=False)
_MERGE = "application/merge-patch+json"


def come(scene: Scene, **annotations: str) -> Iterator[None]:
    """Create the workload. Each later step creates one of its pods."""
    row = ROWS["LeaderWorkerSet"]
    manifest: Any = as_admitted(row.manifest(gang="true", required="rack", **annotations), Sources())
    spec = manifest["spec"]
    spec["startupPolicy"] = "LeaderReady"
    spec["leaderWorkerTemplate"]["size"] = 2
    stored = scene.api.ask("POST", SETS, manifest)
    for pod in row.pods(stored):
        pod["metadata"]["labels"][DIALECT] = "phalanx"
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
        scene.api.ask("POST", PODS, pod)
        yield


def placeholders(scene: Scene) -> list[Object]:
    """Return the placeholders."""
    items = scene.api.ask("GET", SYSTEM_PODS)["items"]
    return [each for each in items if PLACEHOLDER in each["metadata"].get("labels", {})]


def await_held(scene: Scene) -> None:
    """Wait until the leader pod runs, and capacity is reserved for the worker."""
    scene.finish("w-0")
    scene.api.wait(lambda: len(placeholders(scene)) == 1, "room to be held")


def await_told(scene: Scene, message: str) -> None:
    """Wait until the gang has this message, and check that all its pods are gated."""
    scene.api.wait(lambda: scene.status("w-0").get("message") == message, "the gang to say what to do")
    status = scene.status("w-0")
    assert (status["phase"], status["reason"]) == ("Waiting", "MembersMissing")
    assert status["members"] == {"expected": 2, "existing": 1, "placed": 0, "bound": 0}
    assert scene.gated("w-0")
    assert not placeholders(scene)


def test_by_the_setting_a_gang_waits_whole_until_it_is_complete(scene: Scene) -> None:
    with leading(scene, NO_ROOM):
        pods = come(scene)
        next(pods)
        await_told(scene, BY_SETTING)
        next(pods)
        scene.finish("w-0", "w-0-1")
        scene.await_phase("Placed", "w-0")


def test_by_the_annotation_as_well_and_taken_away_room_is_held(scene: Scene) -> None:
    with leading(scene):
        next(come(scene, placeholders="false"))
        await_told(scene, BY_ANNOTATION)
        scene.api.ask("PATCH", f"{SETS}/w", {"metadata": {"annotations": {KEY: None}}}, _MERGE)
        await_held(scene)


@pytest.mark.parametrize("way", ["setting", "annotation"])
def test_room_that_is_held_already_is_given_back_and_who_runs_taken_back(scene: Scene, way: str) -> None:
    """The leader was promised to run with the worker or not at all."""
    with leading(scene):
        next(come(scene))
        await_held(scene)
    if way == "annotation":
        scene.api.ask("PATCH", f"{SETS}/w", {"metadata": {"annotations": {KEY: "false"}}}, _MERGE)
    with leading(scene, NO_ROOM if way == "setting" else SETTLED):
        scene.api.wait(lambda: not placeholders(scene), "the room to be given back")
        gone = "metadata", "deletionTimestamp"
        scene.api.wait(lambda: not scene.pod("w-0") or gone[1] in scene.pod("w-0")[gone[0]], "the leader to be evicted")
        told = BY_SETTING if way == "setting" else BY_ANNOTATION
        assert "RoomUnwanted" in scene.events()
        scene.api.wait(lambda: told in scene.status("w-0").get("message", ""), "the gang to say why")
