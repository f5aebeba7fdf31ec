"""After which writes the probe is created, for which writes its answer counts, and how many rounds a gang takes.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import re
import time

import pytest
from controller_scene import GANGS, PODS, SYSTEM_PODS, Leader, Scene, gang, member, place
from local_api.server import Fault, refused

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def done(scene: Scene, pattern: str) -> list[int]:
    """Return the positions of the successful requests that match the pattern."""
    asked = enumerate(scene.api.requests)
    return [at for at, each in asked if re.fullmatch(pattern, str(each)) and 200 <= each.code < 300]


def rounds(leader: Leader) -> int:
    """How many rounds have gone by."""
    found = (each for family in leader.metrics.round_seconds.collect() for each in family.samples)
    return round(sum(each.value for each in found if each.name.endswith("_count")))


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("late", ["a", "b"])
def test_the_probe_comes_after_the_last_nomination_has_been_answered(scene: Scene, late: str) -> None:
    slow = Fault(before=lambda: time.sleep(0.3))
    scene.api.fault(f"PATCH .*/pods/{late}/status", refused(500, "InternalError"), slow)
    place(scene)
    scene.finish("a", "b")
    nominated = [done(scene, f"PATCH {PODS}/{each}/status")[0] for each in ("a", "b")]
    released = [done(scene, f"PATCH {PODS}/{each}")[0] for each in ("a", "b")]
    probes = done(scene, f"POST {SYSTEM_PODS}")
    assert max(nominated) < probes[0] < min(released)


@pytest.mark.usefixtures("leader")
def test_where_a_pod_is_ending_on_a_planned_node_the_probe_comes_after_it_has_gone(scene: Scene) -> None:
    """The pod is no victim of the plan. The scheduler must have seen its end, because others may take its capacity."""
    scene.run("old", "n1")
    scene.api.ask("DELETE", f"{PODS}/old", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30})
    place(scene)
    scene.api.wait(lambda: sorted(scene.nominated("a", "b")) == ["n1", "n2"], "room to be held")
    time.sleep(0.5)
    assert done(scene, f"POST {SYSTEM_PODS}") == []
    scene.gone("old")
    gone = len(scene.api.requests)
    scene.finish("a", "b")
    assert done(scene, f"POST {SYSTEM_PODS}")[0] >= gone


@pytest.mark.usefixtures("leader")
def test_an_answer_counts_for_no_nomination_that_was_written_after_its_probe(scene: Scene) -> None:
    place(scene)
    first = scene.await_probe()
    scene.api.ask("PATCH", f"{PODS}/a/status", {"status": {"nominatedNodeName": ""}}, _MERGE)
    scene.api.wait(lambda: scene.nominated("a") == ["n1"] and len(done(scene, f"PATCH {PODS}/a/status")) > 1, "room")
    scene.answer(first)
    scene.api.wait(lambda: scene.probes() and scene.probes()[-1]["metadata"]["name"] != first, "another probe")
    assert (scene.gated("a"), scene.gated("b")) == (True, True)
    scene.finish("a", "b")
    assert max(done(scene, f"PATCH {PODS}/[ab]/status")[:3]) < done(scene, f"POST {SYSTEM_PODS}")[1]


@pytest.mark.usefixtures("leader")
def test_the_scheduler_has_seen_victims_go_before_anybody_is_let_go(scene: Scene) -> None:
    for number in (1, 2, 3):
        scene.run(f"low-{number}", f"n{number}", priorityClassName="low")
    place(scene, priorityClassName="high")
    gone = f"POST {PODS}/low-[12]/eviction"
    scene.api.wait(lambda: len(done(scene, gone)) == 2, "the evictions")
    for number in (1, 2):
        scene.gone(f"low-{number}")
    scene.finish("a", "b")
    assert max(done(scene, gone)) < done(scene, f"POST {SYSTEM_PODS}")[0] < done(scene, f"PATCH {PODS}/[ab]")[0]


def test_members_that_come_one_after_the_other_have_few_rounds_and_the_last_one_has_one_at_once(
    scene: Scene, leader: Leader
) -> None:
    count, before = 60, rounds(leader)
    scene.api.create(GANGS, gang(minMember=count))
    began = time.monotonic()
    for number in range(count - 1):
        scene.api.create(PODS, member(f"m-{number}", cpu=0))
        time.sleep(0.01)
    spent = time.monotonic() - began
    assert rounds(leader) - before <= 3 + 4.5 * spent
    scene.api.create(PODS, member("last", cpu=0))
    scene.await_probe()


def test_a_small_gang_takes_few_rounds(scene: Scene, leader: Leader) -> None:
    scene.api.wait(lambda: rounds(leader) > 0, "the first round")
    before = rounds(leader)
    place(scene)
    probe = scene.await_probe()
    asked = rounds(leader)
    scene.answer(probe)
    scene.api.wait(lambda: not scene.gated("a") and not scene.gated("b"), "both to be released")
    assert rounds(leader) - asked <= 2
    assert asked - before <= 8
    scene.bind("a", "b")
    scene.await_phase("Placed")
