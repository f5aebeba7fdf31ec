"""Members released to a silent scheduler, on the local API server: their reserved capacity is given back.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from controller_scene import GANGS, PODS, SETTLED, Scene, gang, leading, member

CONFIGS = "/api/v1/namespaces/phalanx-system/configmaps"
NAME = "phalanx-schedulers"
SILENT = "night-shift"
AT_ONCE = replace(SETTLED, untried_seconds=0.0)
STATEFUL_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "maker", "uid": "0", "controller": True}
_MERGE = "application/merge-patch+json"


@pytest.fixture
def known(scene: Scene) -> Scene:
    """The scene with the ConfigMap of observed schedulers, as the installation creates it."""
    scene.api.create(CONFIGS, {"metadata": {"name": NAME}})
    return scene


def noted(scene: Scene) -> Mapping[str, str]:
    """Return the data of the ConfigMap with the observed schedulers; empty if there is none."""
    data: Mapping[str, str] = scene.api.ask("GET", f"{CONFIGS}/{NAME}").get("data") or {}
    return data


def let_go(scene: Scene, *owners: Mapping[str, Any]) -> None:
    """Plan and release a gang whose pods name the silent scheduler, which was seen to bind a pod once."""
    scene.run("tried-once", "n3", schedulerName=SILENT)
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    scene.api.ask("PATCH", f"{PODS}/tried-once/status", {"status": {"conditions": [bound]}}, _MERGE)
    pods = [member(name, schedulerName=SILENT) for name in ("a", "b")]
    scene.api.create(GANGS, gang())
    scene.api.create(PODS, *({**each, "metadata": {**each["metadata"], "ownerReferences": owners}} for each in pods))
    scene.answer(scene.await_probe())
    scene.api.wait(lambda: not scene.gated("a") and not scene.gated("b"), "the release")


def test_it_is_noted_and_the_room_of_pods_that_nobody_makes_again_is_given_back(known: Scene) -> None:
    with leading(known, AT_ONCE):
        let_go(known)
        known.api.wait(lambda: noted(known).get(SILENT, "").startswith("untried "), "the scheduler to be noted")
        known.api.wait(lambda: known.nominated("a", "b") == ["", ""], "the room to be given back")
        known.api.wait(lambda: "delete them and create them again" in known.status().get("message", ""), "the remedy")
        assert f"{SILENT} has not tried 2 pods (a, b) within 0 s" in known.status()["message"]
        assert known.pod("a")
        assert known.pod("b")


def test_pods_that_their_controller_makes_again_are_deleted_for_that(known: Scene) -> None:
    with leading(known, AT_ONCE):
        let_go(known, STATEFUL_SET)
        known.api.wait(lambda: not known.pod("a") and not known.pod("b"), "them to be deleted")
        known.api.wait(lambda: {"MemberUntried", "MemberMadeAgain"} <= set(known.events()), "the events")


def test_a_scheduler_that_a_person_says_runs_is_not_noted(known: Scene) -> None:
    known.api.ask("PATCH", f"{CONFIGS}/{NAME}", {"data": {SILENT: "runs"}}, _MERGE)
    with leading(known, AT_ONCE):
        let_go(known)
        known.api.wait(lambda: known.nominated("a", "b") == ["", ""], "the room to be given back")
        assert noted(known) == {SILENT: "runs"}
