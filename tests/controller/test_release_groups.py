"""A gang whose members belong to one PodGroup of scheduling.k8s.io: they are bound in one cycle, all or none.

The test is the scheduler. It follows the rules of kube-scheduler 1.37 for groups (docs/decisions/0041). It tries no pod
of a group while one of them has a gate. It also waits for the PodGroup, and for minCount pods. If one pod does not fit,
it binds none and clears all nominations.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import re
from collections.abc import Sequence

import pytest
from controller_scene import GANGS, PODS, Scene, gang, leading, member
from local_api.server import Fault
from local_api.store import RefusedError
from stepped_leader import PARTLY_SECONDS, SteppedLeader, stepped

from kube.scheduling_groups import release_group

GROUP = release_group("phalanx", "default", "llm")
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def place_group(scene: Scene, *names: str, of: str = GROUP, minimum: int = 2) -> None:
    """Create a gang and its members, as the webhook admits them where releases are atomic."""
    scene.api.create(
        GANGS, gang(minMember=minimum, podSets=[{"name": "main", "count": len(names), "minCount": minimum}])
    )
    scene.api.create(PODS, *(member(name, schedulingGroup={"podGroupName": of}) for name in names))


def min_count(scene: Scene, name: str = GROUP) -> int | None:
    """Return minCount of a PodGroup; None if it does not exist."""
    try:
        found = scene.api.ask("GET", f"{POD_GROUPS}/{name}")
    except RefusedError:
        return None
    return int(found["spec"]["schedulingPolicy"]["gang"]["minCount"])


def cycle(scene: Scene, *names: str) -> bool:
    """Be the scheduler for one cycle of the group of these pods. Return whether it was tried."""
    pods = [pod for name in names if (pod := scene.pod(name))]
    least = min_count(scene)
    if least is None or len(pods) < least or any(scene.gated(each["metadata"]["name"]) for each in pods):
        return False
    waiting = [each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")]
    taken = {each["spec"].get("nodeName") for each in scene.api.ask("GET", PODS)["items"]}
    if taken.isdisjoint(scene.nominated(*waiting)) and all(scene.nominated(*waiting)):
        scene.bind(*waiting)
        return True
    tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "pod group does not fit"}
    for name in waiting:
        status = {"status": {"nominatedNodeName": None, "conditions": [tried]}}
        scene.api.ask("PATCH", f"{PODS}/{name}/status", status, _STRATEGIC)
    return True


def answer_probes(scene: Scene) -> None:
    for probe in scene.probes():
        if "conditions" not in probe["status"]:
            scene.answer(probe["metadata"]["name"])


def run_whole(scene: Scene, *names: str) -> None:
    """Be the scheduler until these pods run. No member ever runs without the others."""

    def done() -> bool:
        answer_probes(scene)
        cycle(scene, *names)
        nodes = scene.nodes(*names)
        assert all(nodes) or not any(nodes), nodes
        return all(nodes)

    scene.api.wait(done, f"{', '.join(names)} to run")


WRITES = {
    "plan": "PATCH .*/gangs/llm/status",
    "first nomination": "PATCH .*/pods/a/status",
    "last nomination": "PATCH .*/pods/b/status",
    "group": "POST .*/podgroups",
    "probe": "POST .*/phalanx-system/pods",
    "first gate": "PATCH .*/pods/a$",
    "last gate": "PATCH .*/pods/b$",
}


@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_whichever_write_a_leader_dies_at_no_member_runs_without_the_others(
    scene: Scene, write: str, *, carried_out: bool
) -> None:
    with leading(scene) as first:
        scene.api.fault(write, Fault(before=first.die, cut=True, carried_out=carried_out))
        place_group(scene, "a", "b")

        def dead() -> bool:
            answer_probes(scene)
            return any(re.match(write, str(each)) and each.code == 0 for each in scene.api.requests)

        scene.api.wait(dead, "the leader to die")
        last_gate_went = write == WRITES["last gate"] and carried_out
        assert scene.gated("b") is not last_gate_went
        assert cycle(scene, "a", "b") is last_gate_went
        assert all(scene.nodes("a", "b")) is last_gate_went
    with leading(scene):
        run_whole(scene, "a", "b")
        scene.await_phase("Placed")
    assert min_count(scene) == 2


def release_but_last(scene: Scene, leader: SteppedLeader, *names: str) -> None:
    """Let the gang be planned, nominated, and released but for the last gate."""
    leader.step(2)
    leader.think()
    leader.step()
    answer_probes(scene)
    leader.step()
    assert [scene.gated(name) for name in names] == [*(False for _ in names[1:]), True]


def test_the_last_gate_goes_only_after_the_scheduler_has_seen_the_other_releases(scene: Scene) -> None:
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        leader.step(3)
        assert scene.gated("b")
        assert not cycle(scene, "a", "b")
        answer_probes(scene)
        leader.step(2)
        assert not scene.gated("b")
        assert cycle(scene, "a", "b")
        assert scene.nodes("a", "b") == ["n1", "n2"]
    owner = scene.api.ask("GET", f"{POD_GROUPS}/{GROUP}")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Gang", "llm")


def test_capacity_that_is_lost_before_the_last_gate_starts_no_member(scene: Scene) -> None:
    """The released member is pinned. The gang is withdrawn, so that it can be planned elsewhere."""
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        scene.run("thief", "n2", priorityClassName="high")
        answer_probes(scene)
        leader.step(2)
        assert scene.gated("b")
        assert scene.nodes("a", "b") == ["", ""]
        leader.wait(PARTLY_SECONDS + 1)
        leader.step(3)
        assert is_leaving(scene, "a")
        assert scene.nominated("b") == [""]


def is_leaving(scene: Scene, name: str) -> bool:
    return "deletionTimestamp" in scene.pod(name).get("metadata", {"deletionTimestamp": ""})


def test_after_a_failed_cycle_the_others_are_nominated_again_at_once_and_the_gang_is_withdrawn(scene: Scene) -> None:
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        answer_probes(scene)
        leader.step(2)
        scene.run("thief", "n2", priorityClassName="high")
        assert cycle(scene, "a", "b")
        assert scene.nominated("a", "b") == ["", ""]
        leader.step()
        assert scene.nominated("a", "b") == ["n1", ""]
        leader.wait(PARTLY_SECONDS + 1)
        leader.step(3)
        assert (is_leaving(scene, "a"), is_leaving(scene, "b")) == (True, True)


def test_after_a_failed_cycle_the_gang_starts_once_its_capacity_is_free_again(scene: Scene) -> None:
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        answer_probes(scene)
        leader.step(2)
        scene.run("thief", "n2", priorityClassName="high")
        cycle(scene, "a", "b")
        leader.step()
        scene.gone("thief")
        leader.step(2)
        assert scene.nominated("a", "b") == ["n1", "n2"]
        assert cycle(scene, "a", "b")
        assert scene.nodes("a", "b") == ["n1", "n2"]


def test_a_nomination_that_a_waiting_member_loses_is_written_again_before_the_last_gate(scene: Scene) -> None:
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        scene.api.ask("PATCH", f"{PODS}/a/status", {"status": {"nominatedNodeName": None}}, _MERGE)
        leader.step()
        assert scene.nominated("a", "b") == ["n1", "n2"]
        assert scene.gated("b")


def run_to_the_end(scene: Scene, leader: SteppedLeader, names: Sequence[str], rounds: int = 12) -> None:
    for _ in range(rounds):
        leader.step()
        leader.think()
        answer_probes(scene)
        cycle(scene, *names)


@pytest.mark.parametrize("of", [GROUP, "users"], ids=["ours", "a user's"])
def test_an_extra_without_capacity_keeps_no_member_from_its_node(scene: Scene, of: str) -> None:
    """A gated pod of the group would keep the scheduler from all of them. It stays in the rack of the gang."""
    if of != GROUP:
        scene.api.create(
            POD_GROUPS, {"metadata": {"name": of}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        )
    place_group(scene, "a", "b", "extra", of=of)  # before the leader reads: it might see the extra after the release
    with stepped(scene) as leader:
        for _ in range(6):
            leader.step()
            leader.think()
            answer_probes(scene)
        gates = [
            str(each).rpartition("/")[2] for each in scene.api.requests if re.fullmatch(rf"PATCH {PODS}/\w+", str(each))
        ]
        assert (gates[0], gates[-1]) == ("extra", "b")
        assert not any(scene.gated(name) for name in ("a", "b", "extra"))
        terms = scene.pod("extra")["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert terms["nodeSelectorTerms"][0]["matchExpressions"] == [
            {"key": "example.com/rack", "operator": "In", "values": ["r1"]}
        ]
        assert scene.nominated("a", "b", "extra") == ["n1", "n2", ""]
    assert (min_count(scene) is not None) is (of == GROUP)


def test_a_late_extra_without_capacity_does_not_keep_released_members_waiting(scene: Scene) -> None:
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        answer_probes(scene)
        leader.step(2)
        assert not scene.gated("b")
        scene.api.create(PODS, member("late", schedulingGroup={"podGroupName": GROUP}))
        assert not cycle(scene, "a", "b", "late")
        for _ in range(6):
            leader.step()
            leader.think()
            answer_probes(scene)
        assert not scene.gated("late")


def test_members_that_wait_for_the_last_gate_are_not_taken_for_untried(scene: Scene) -> None:
    with stepped(scene) as leader:
        place_group(scene, "a", "b")
        release_but_last(scene, leader, "a", "b")
        leader.wait(60)
        leader.step(2)
        assert "phalanx.dev/taken-back" not in scene.pod("a")["metadata"]["annotations"]
        assert scene.nominated("a") == ["n1"]
