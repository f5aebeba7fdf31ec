"""The release of a gang on the local API server while writes fail, answers are lost, others write, and leaders die.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from controller_scene import PODS, SYSTEM_PODS, Scene, leading, member, place
from local_api.server import LOST, UNREACHABLE, Fault, refused

from controller.writes import read_your_writes

_MERGE = "application/merge-patch+json"


WRITES = {
    "plan": "PATCH .*/gangs/llm/status",
    "first nomination": "PATCH .*/pods/a/status",
    "last nomination": "PATCH .*/pods/b/status",
    "probe": "POST .*/phalanx-system/pods",
    "first release": "PATCH .*/pods/a$",
    "last release": "PATCH .*/pods/b$",
}
FAULTS = {
    "the answer is lost": LOST,
    "it does not arrive": UNREACHABLE,
    "a fault there": refused(500, "InternalError"),
}


def ends_whole(scene: Scene) -> None:
    """Check that both members run where they were planned, that each was released once, and that no probe is left."""
    scene.finish("a", "b")
    assert sorted(scene.nodes("a", "b")) == ["n1", "n2"]
    scene.await_phase("Placed")
    scene.api.wait(lambda: not scene.probes(), "the probes to be swept away")
    patches = [
        each for each in scene.api.requests if each.method == "PATCH" and re.fullmatch(f"{PODS}/[ab]", each.path)
    ]
    released = [each.path[-1] for each in patches if each.code == 200 and "spec" in each.body]
    assert len(set(released)) == len(released)


def tells_each_step_once(scene: Scene) -> None:
    """Check the events of the gang, and that each member got the condition of its plan with its nomination."""
    wanted = [
        ("GangPlanned", "2 pods fit in r1: n1..2, proven optimal (topology dc, required rack)"),
        ("GangNominated", "capacity is reserved for 2 pods on n1..2"),
        ("GangReleased", "released 2 pods to their nodes"),
    ]

    def told() -> list[tuple[str, str]]:
        events = scene.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]
        of_gang = (each for each in events if each["regarding"]["kind"] == "Gang")
        reasons = [reason for reason, _ in wanted]
        found = [(each["reason"], each["note"]) for each in of_gang if each["reason"] in reasons]
        return sorted(found, key=lambda each: reasons.index(each[0]))

    scene.api.wait(lambda: len(told()) >= len(wanted), f"events of each step, not {told()}")
    assert told() == wanted
    for name in ("a", "b"):
        nominations = [each for each in scene.api.requests if re.match(f"PATCH {PODS}/{name}/status", str(each))]
        said = [
            each.body["status"].get("conditions") for each in nominations if "nominatedNodeName" in each.body["status"]
        ]
        assert said
        assert all(said)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_that_fails_is_made_up_for(scene: Scene, write: str, fault: Fault) -> None:
    scene.api.fault(write, fault)
    with leading(scene):
        place(scene)
        ends_whole(scene)
        tells_each_step_once(scene)


def touch(scene: Scene, name: str) -> Callable[[], Any]:
    """Return a function that writes to the pod as another client."""
    return lambda: scene.api.ask("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"touched": "1"}}}, _MERGE)


@pytest.mark.parametrize("write", [WRITES[each] for each in WRITES if "nomination" in each or "release" in each])
def test_a_member_that_changes_right_before_it_is_written_is_looked_at_again(scene: Scene, write: str) -> None:
    name = "a" if "pods/a" in write else "b"
    scene.api.fault(write, Fault(before=touch(scene, name)))
    with leading(scene):
        place(scene)
        ends_whole(scene)
        tells_each_step_once(scene)
    codes = [each.code for each in scene.api.requests if re.match(write, str(each))]
    assert codes[0] == 409


@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_leader_that_dies_there_is_followed_by_one_that_reaches_the_same_end(
    scene: Scene, write: str, *, carried_out: bool
) -> None:
    with leading(scene) as first:
        scene.api.fault(write, Fault(before=first.die, cut=True, carried_out=carried_out))
        place(scene)

        def dead() -> bool:
            for probe in scene.probes():
                if "conditions" not in probe["status"]:
                    scene.answer(probe["metadata"]["name"])
            return any(re.match(write, str(each)) and each.code == 0 for each in scene.api.requests)

        scene.api.wait(dead, "the leader to die")
    with leading(scene):
        ends_whole(scene)


def test_a_member_that_is_deleted_at_its_release_is_not_counted_as_released(scene: Scene) -> None:
    scene.api.fault(WRITES["last release"], Fault(before=lambda: scene.gone("b")))
    with leading(scene):
        place(scene)
        scene.finish("a")
        scene.api.wait(lambda: "GangReleased" in scene.events(), "the event of the release")
    events = scene.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]
    assert [each["note"] for each in events if each["reason"] == "GangReleased"] == ["released 1 pod to its node"]


def test_a_member_that_is_gone_takes_the_plan_with_it_and_its_replacement_is_planned(scene: Scene) -> None:
    with leading(scene):
        place(scene)
        scene.await_probe()
        scene.gone("b")
        scene.api.wait(lambda: scene.nominated("a") == [""], "the room to be given back")
        assert scene.gated("a")
        assert scene.await_phase("Waiting")["message"] == "waits for 1 more pod: 1 of 2 exist"
        scene.api.create(PODS, member("c"))
        scene.finish("a", "c")


def test_room_that_is_taken_before_the_release_takes_the_plan_with_it(scene: Scene) -> None:
    with leading(scene):
        place(scene)
        scene.await_probe()
        scene.run("other", "n2")
        scene.api.wait(lambda: scene.nominated("a", "b") == ["", ""], "the room to be given back")
        assert (scene.gated("a"), scene.gated("b")) == (True, True)
        scene.await_phase("Unplaceable")
        scene.api.wait(lambda: "RoomLost" in scene.events(), "the event")
        scene.gone("other")
        ends_whole(scene)


def test_a_probe_that_somebody_deletes_is_sent_again_and_strange_ones_are_swept_away(scene: Scene) -> None:
    old = {"metadata": {"name": "probe-old", "labels": {"phalanx.dev/probe": "true"}}, "spec": {"containers": []}}
    scene.api.create(SYSTEM_PODS, old)
    with leading(scene):
        scene.api.wait(lambda: not scene.probes(), "the old probe to go")
        place(scene)
        scene.api.ask("DELETE", f"{SYSTEM_PODS}/{scene.await_probe()}")
        scene.await_probe()
        assert scene.gated("a")
        ends_whole(scene)


def test_rounds_wait_until_they_see_what_was_written(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch of pods delivers nothing after the nominations. A round on that state would write them again."""
    monkeypatch.setattr(read_your_writes, "PATIENCE_SECONDS", 0.2)
    scene.api.fault(WRITES["first nomination"], Fault(before=lambda: scene.api.silence("pods")))
    with leading(scene):
        place(scene)
        scene.api.wait(lambda: all(scene.nominated("a", "b")), "the nominations")
        scene.api.wait(lambda: "the watch caches are late" in caplog.text, "a round to be left out")
        scene.api.create("/api/v1/nodes", {"metadata": {"name": "n4"}, "status": {}})
        scene.api.wait(lambda: caplog.text.count("the watch caches are late") > 1, "another one")
        nominations = [each for each in scene.api.writes() if re.match(f"PATCH {PODS}/./status", each)]
        assert len(nominations) == 2
        scene.api.silence()
        ends_whole(scene)


def test_a_budget_for_requests_is_kept(scene: Scene) -> None:
    """If the API server asks for a pause, the controller pauses, and the gang continues after it."""
    scene.api.fault(WRITES["plan"], refused(429, "TooManyRequests", retryAfterSeconds=1))
    with leading(scene) as leader:
        place(scene)
        scene.api.wait(lambda: leader.writer.pause > 0, "the pause")
        ends_whole(scene)
