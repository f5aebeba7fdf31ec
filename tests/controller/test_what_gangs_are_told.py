"""The output for gangs that cannot start, on the local API server: statuses, conditions, events, group objects.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from controller_scene import GANGS, GROUPS, PODS, SETTLED, TOPOLOGIES, Scene, gang, leading, member, place
from local_api.server import Fault
from local_api.store import Object, RefusedError

from controller.acting import withdrawing

_MERGE = "application/merge-patch+json"


def test_a_gang_that_contradicts_itself_is_told_so_until_it_is_mended(scene: Scene) -> None:
    wrong = gang(required="shelf")
    with leading(scene):
        scene.api.create(GANGS, wrong)
        scene.api.create(PODS, member("a"), member("b"))
        status = scene.await_phase("Invalid")
        assert "shelf" in status["message"]
        scene.api.wait(lambda: "shelf" in scene.says("a") and "shelf" in scene.says("b"), "the pods' own messages")
        scene.api.wait(lambda: "GangInvalid" in scene.events(), "the event")
        scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"required": "rack"}}, _MERGE)
        scene.finish("a", "b")


def test_room_that_is_held_is_given_back_when_the_gang_comes_to_contradict_itself(scene: Scene) -> None:
    with leading(scene):
        place(scene)
        scene.await_probe()
        scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"required": "shelf"}}, _MERGE)
        scene.api.wait(lambda: scene.nominated("a", "b") == ["", ""], "the room to be given back")
        assert scene.await_phase("Invalid")["observedGeneration"] == 2


def test_time_that_is_over_is_told_and_the_room_is_given_back(scene: Scene) -> None:
    with leading(scene):
        scene.run("busy", "n1")
        scene.api.create(GANGS, gang(scheduleTimeoutSeconds=1))
        scene.api.create(PODS, member("a"), member("b"))
        scene.api.wait(lambda: "GangTimedOut" in scene.events(), "the event")
        assert "was not placed within 1 s" in scene.status()["message"]


def test_a_gang_of_which_one_runs_and_the_rest_cannot_is_withdrawn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pod takes the capacity of b after both were released and a already runs."""
    monkeypatch.setattr(withdrawing, "SEEN_SECONDS", 0.05)
    with leading(scene):
        place(scene)
        scene.answer(scene.await_probe())
        scene.bind("a")
        scene.api.wait(lambda: not scene.gated("b"), "b to be released")
        scene.run("other", "n2")
        scene.api.wait(lambda: "deletionTimestamp" in scene.pod("a")["metadata"], "a to be evicted")
        scene.api.wait(lambda: not scene.pod("b"), "b to be evicted")
        assert "withdrawn: 1 of 2 pods" in scene.status()["message"]
        scene.api.wait(lambda: {"GangWithdrawn", "MemberWithdrawn"} <= set(scene.events()), "the events")


def test_members_that_the_stock_scheduler_does_not_try_are_told_of_and_keep_their_room(scene: Scene) -> None:
    with leading(scene, replace(SETTLED, untried_seconds=0.0)):
        place(scene)
        scene.answer(scene.await_probe())
        scene.api.wait(lambda: "has not tried" in scene.status().get("message", ""), "the gang's message")
        assert scene.nominated("a", "b") == ["n1", "n2"]
        scene.bind("a", "b")
        scene.await_phase("Placed")


def lost_nominations(scene: Scene, *names: str) -> None:
    """Take the pods' nominations away, as the scheduler does when it finds no capacity."""
    tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    for name in names:
        path, status = f"{PODS}/{name}/status", {"nominatedNodeName": None, "conditions": [tried]}
        scene.api.ask("PATCH", path, {"status": status}, "application/strategic-merge-patch+json")


def test_a_released_member_that_lost_its_nomination_gets_it_back(scene: Scene) -> None:
    with leading(scene):
        place(scene)
        scene.answer(scene.await_probe())
        scene.api.wait(lambda: not scene.gated("a") and not scene.gated("b"), "the release")
        lost_nominations(scene, "b")
        scene.api.wait(lambda: scene.nominated("b") == ["n2"], "b's room to be held again")
        scene.bind("a", "b")


def test_topologies_and_groups_show_what_there_is(scene: Scene) -> None:
    with leading(scene, replace(SETTLED, topology_seconds=0.0)):
        scene.api.wait(lambda: scene.api.ask("GET", f"{TOPOLOGIES}/dc").get("status"), "the topology's status")
        group: dict[str, Any] = {"metadata": {"name": "team"}, "spec": {"minMember": 2}}
        scene.api.create(GROUPS, group)
        labels = {"pod-group.scheduling.sigs.k8s.io": "team", "phalanx.dev/dialect": "koordinator"}
        for name in ("a", "b"):
            made = member(name)
            scene.api.create(PODS, {**made, "metadata": {**made["metadata"], "labels": labels}})
        scene.finish("a", "b")
        scene.await_phase("Placed", "team")

        def shown() -> Object:
            return dict(scene.api.ask("GET", f"{GROUPS}/team").get("status", {}))

        scene.api.wait(lambda: shown().get("running") == 2, "the group's status")
        assert shown()["phase"] == "Running"

        def told(kind: str) -> set[str]:
            found = scene.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]
            return {each["reason"] for each in found if each["regarding"]["kind"] == kind}

        scene.api.wait(lambda: "GangPlaced" in told("PodGroup"), "the group's user to be told")
        assert {"GangPlanned", "GangNominated", "GangReleased", "GangPlaced"} <= told("Gang")
        assert told("PodGroup") - {"GangWaiting"} == {"GangPlanned", "GangPlaced"}


def test_a_mirror_goes_with_the_gang_that_it_shows(scene: Scene) -> None:
    with leading(scene):
        scene.api.create(GROUPS, {"metadata": {"name": "team"}, "spec": {"minMember": 2}})
        labels = {"pod-group.scheduling.sigs.k8s.io": "team", "phalanx.dev/dialect": "koordinator"}
        made = member("a")
        scene.api.create(PODS, {**made, "metadata": {**made["metadata"], "labels": labels}})
        scene.await_mirror("team")
        scene.api.ask("PATCH", f"{GANGS}/team", {"spec": {"minMember": 7}}, _MERGE)
        scene.api.wait(
            lambda: scene.api.ask("GET", f"{GANGS}/team")["spec"]["minMember"] == 2, "the mirror to be mended"
        )
        scene.gone("a")
        scene.api.ask("DELETE", f"{GROUPS}/team")
        scene.api.wait(lambda: not scene.api.ask("GET", GANGS)["items"], "the mirror to go")


def test_a_mirror_whose_gang_ended_before_its_first_status_is_deleted(scene: Scene) -> None:
    with leading(scene):
        metadata = {
            "name": "ended",
            "labels": {"phalanx.dev/dialect": "phalanx"},
            "annotations": {"phalanx.dev/mirrors": "phalanx/default/ended"},
        }
        scene.api.create(GANGS, {"metadata": metadata, "spec": {"minMember": 1}})
        scene.api.wait(lambda: not scene.api.ask("GET", GANGS)["items"], "the mirror to go")


def test_pods_that_name_the_mirror_of_another_gang_write_nothing_on_it(scene: Scene) -> None:
    """The pods wait for a Gang that a user writes. Otherwise both gangs would write one object in turn, for ever."""
    with leading(scene):
        scene.api.create(GROUPS, {"metadata": {"name": "team"}, "spec": {"minMember": 2}})
        scene.await_mirror("team")
        scene.api.wait(lambda: scene.status("team").get("phase"), "the mirror to say how the PodGroup stands")
        shown = scene.status("team")["message"]
        scene.api.create(PODS, member("stray", "team"))
        scene.api.wait(lambda: "waits for Gang default/team" in scene.says("stray"), "the pod to be told")
        written = len(scene.api.writes())
        for number in range(5):  # each is a reason for another round
            scene.api.ask("PATCH", f"{PODS}/stray", {"metadata": {"labels": {"round": str(number)}}}, _MERGE)
            time.sleep(0.2)
        assert [each for each in scene.api.writes()[written:] if "/gangs/" in each] == []
        assert scene.status("team")["message"] == shown


def test_gang_objects_that_nobody_takes_keep_no_other_from_being_written(scene: Scene) -> None:
    """Writes fail for a quota of Gang objects, or for a gang that the API server finds too large.

    Then 100 objects of a namespace that comes first must not be retried for ever before those behind them are written.
    """
    slow = Fault(before=lambda: time.sleep(0.05), refusal=RefusedError(403, "Forbidden", "exceeded quota"))
    scene.api.fault(f"POST {GANGS}$", *[slow] * 10_000)
    scene.api.create("/api/v1/namespaces", {"metadata": {"name": "zz"}})
    theirs = GANGS.replace("default", "zz")
    group = {"spec": {"minMember": 2}}
    with leading(scene):
        scene.api.create(GROUPS, *({"metadata": {"name": f"bad-{number}"}, **group} for number in range(100)))
        scene.api.wait(lambda: len(tried(scene)) >= 100, "each to be tried")
        scene.api.create(GROUPS.replace("default", "zz"), {"metadata": {"name": "good"}, **group})
        scene.api.wait(lambda: scene.api.ask("GET", theirs)["items"], "the other tenant's to be written")
        assert len(tried(scene)) < 1_000


def tried(scene: Scene) -> list[str]:
    """The attempts to make a Gang object in the first namespace."""
    return [each for each in scene.api.writes() if each == f"POST {GANGS}"]


@pytest.mark.usefixtures("leader")
def test_a_fault_of_every_member_is_not_written_out_on_each_of_them(scene: Scene) -> None:
    """Of a thousand members that would be a thousand times a thousand lines in the API server's store."""
    names = [f"p{number:02}" for number in range(20)]
    made = [member(name) for name in names]
    for each in made:
        each["metadata"]["labels"]["phalanx.dev/pod-set"] = "none"
        each["metadata"]["annotations"] = {"phalanx.dev/index": "9" * 100_000}
    scene.api.create(GANGS, gang(minMember=20))
    scene.api.create(PODS, *made)
    # the first message may be about those few whose creation has been seen by then
    scene.api.wait(lambda: scene.status().get("message", "").endswith("; 15 more like these"), "all to be counted")
    message = scene.await_phase("Invalid")["message"]
    assert message.startswith('Pod default/p00: metadata.labels[phalanx.dev/pod-set]: "none" is not a pod set of Gang')
    scene.api.wait(lambda: all(scene.says(name) for name in names), "the members to be told")
    assert max(len(scene.says(name)) for name in names) < 6000


@pytest.mark.usefixtures("leader")
def test_a_gang_whose_members_are_evicted_says_for_which_gang(scene: Scene) -> None:
    """r1: n1 (batch-1), n2 (batch-2): both go for llm, which has the higher priority."""
    scene.api.create(GANGS, gang("batch"))
    for number in (1, 2):
        scene.run(f"batch-{number}", f"n{number}", of="batch", priorityClassName="low")
    place(scene, priorityClassName="high")

    def told() -> list[tuple[str, str]]:
        found = scene.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]
        return [(each["regarding"]["name"], each["note"]) for each in found if each["reason"] == "GangEvicted"]

    scene.api.wait(told, "the event")
    assert told() == [("batch", "2 pods evicted for gang default/llm of priority 1000, on n1..2")]


@pytest.mark.usefixtures("leader")
def test_kubectl_describe_pod_shows_why_the_gang_waits_on_the_first_members(scene: Scene) -> None:
    """Ten members that fit no rack: eight of them get one event, with the sentence that their conditions have."""
    names = [f"p{number}" for number in range(10)]
    scene.api.create(GANGS, gang(minMember=10))
    scene.api.create(PODS, *map(member, names))
    scene.api.wait(lambda: all("needs 10 pods in one rack" in scene.says(name) for name in names), "the conditions")

    def told() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in scene.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]:
            if each["reason"] == "MemberWaiting":
                found.setdefault(each["regarding"]["name"], []).append(each["note"])
        return found

    scene.api.wait(lambda: sum("needs 10 pods" in each[-1] for each in told().values()) == 8, "the events")
    assert told() == {name: [scene.says(name)] for name in names[:8]}


@pytest.mark.usefixtures("leader")
def test_another_count_in_the_message_is_no_new_event(scene: Scene) -> None:
    """The first message may be about no pod, or one."""

    def notes() -> set[str]:
        found = scene.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]
        return {each["note"] for each in found if each["reason"] == "GangWaiting"}

    def begins(text: str) -> bool:
        return bool(scene.status().get("message", "").startswith(text))

    scene.api.create(GANGS, gang(minMember=4))
    for exist, more in ((1, "3 more pods"), (2, "2 more pods"), (3, "1 more pod")):
        scene.api.create(PODS, member(f"p{exist}"))
        text = f"waits for {more}: {exist} of 4 exist"
        scene.api.wait(partial(begins, text), "the message")
    scene.api.wait(notes, "the event")
    assert len(notes()) == 1
