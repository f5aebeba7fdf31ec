"""A gang that runs in part and cannot become whole is evicted, and only as long as it is not whole.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu; the gang llm needs two nodes of one rack: a and b
"""

from collections.abc import Callable

import pytest
from controller_scene import PODS, Scene, member, place
from local_api.server import UNREACHABLE, refused
from lost_statuses import LOSSES
from stepped_leader import PARTLY_SECONDS, SteppedLeader, stepped


def is_leaving(scene: Scene, name: str) -> bool:
    """Return whether the pod is gone or has been deleted."""
    return "deletionTimestamp" in scene.pod(name).get("metadata", {"deletionTimestamp": ""})


def release(scene: Scene, leader: SteppedLeader) -> None:
    """Let the gang be planned, nominated and released, and let the scheduler bind a."""
    place(scene)
    leader.step(2)
    leader.think()
    leader.step()
    scene.answer(scene.probes()[-1]["metadata"]["name"])
    leader.step()
    scene.bind("a")


def strand(scene: Scene, leader: SteppedLeader) -> None:
    """Let another pod take the node of b, and let time pass until the gang is to be evicted in the next round."""
    scene.run("other", scene.nominated("b")[0], priorityClassName="high")
    leader.step()
    leader.wait(PARTLY_SECONDS + 1)


def test_a_gang_that_becomes_whole_before_its_eviction_stays(scene: Scene) -> None:
    with stepped(scene) as leader:
        release(scene, leader)
        strand(scene, leader)
        scene.api.silence("pods")
        scene.gone("other")
        scene.bind("b")
        leader.step()  # the cache shows that b is not bound and that its node is taken
        assert not is_leaving(scene, "a")
        scene.api.silence()
        leader.step(3)
        assert not is_leaving(scene, "a")
        assert not is_leaving(scene, "b")
        assert scene.status()["phase"] == "Placed"


def test_members_that_are_not_bound_go_first(scene: Scene) -> None:
    with stepped(scene) as leader:
        release(scene, leader)
        strand(scene, leader)
        leader.step()
        evictions = [each.path for each in scene.api.requests if each.path.endswith("/eviction")]
        assert evictions == [f"{PODS}/b/eviction", f"{PODS}/a/eviction"]
        assert is_leaving(scene, "a")
        assert scene.pod("b") == {}


@pytest.mark.parametrize("answer", [(409, "Conflict"), (500, "InternalError"), (429, "TooManyRequests")])
def test_no_bound_member_is_evicted_while_one_that_is_not_bound_may_still_be(
    scene: Scene, answer: tuple[int, str]
) -> None:
    with stepped(scene) as leader:
        release(scene, leader)
        strand(scene, leader)
        scene.api.fault(f"POST {PODS}/b/eviction", refused(*answer))
        leader.step()
        assert not is_leaving(scene, "a")
        leader.wait(3)
        leader.step(3)
        assert is_leaving(scene, "a")
        assert scene.pod("b") == {}


def release_a_alone(scene: Scene, leader: SteppedLeader) -> None:
    """Let the gang be nominated; the leader is cut off when it has released a, which the scheduler binds."""
    place(scene)
    leader.step(2)
    leader.think()
    leader.step()
    scene.answer(scene.probes()[-1]["metadata"]["name"])
    scene.api.fault(f"PATCH {PODS}/b$", UNREACHABLE)
    leader.step()
    scene.api.mend()
    scene.bind("a")


def replace_b(scene: Scene) -> None:
    """Let b be deleted, another pod take its node, and its controller make another b."""
    node = scene.nodes("b")[0] or scene.nominated("b")[0]
    scene.gone("b")
    scene.run("other", node, priorityClassName="high")
    scene.api.create(PODS, member("b"))


@LOSSES
def test_a_gang_whose_member_was_deleted_while_nobody_led_is_withdrawn(
    scene: Scene, lose: Callable[[Scene], None]
) -> None:
    with stepped(scene) as leader:
        release_a_alone(scene, leader)
    replace_b(scene)
    lose(scene)
    with stepped(scene, ahead=PARTLY_SECONDS) as successor:
        successor.step(2)
        successor.think()
        successor.wait(1)
        successor.step(2)
        assert is_leaving(scene, "a")


@LOSSES
def test_a_gang_that_was_whole_is_not_withdrawn(scene: Scene, lose: Callable[[Scene], None]) -> None:
    with stepped(scene) as leader:
        release(scene, leader)
        scene.bind("b")
        leader.step(2)
    replace_b(scene)
    lose(scene)
    with stepped(scene, ahead=PARTLY_SECONDS) as successor:
        successor.step(2)
        successor.think()
        successor.wait(1)
        successor.step(3)
        assert not is_leaving(scene, "a")
        assert scene.status()["phase"] == "Unplaceable"
        whole = next(each for each in scene.status()["conditions"] if each["type"] == "Whole")
        assert whole["status"] == "True"


@LOSSES
def test_a_withdrawal_that_has_begun_goes_on(scene: Scene, lose: Callable[[Scene], None]) -> None:
    with stepped(scene) as leader:
        release(scene, leader)
        strand(scene, leader)
        scene.api.fault(
            f"POST {PODS}/a/eviction",
            refused(429, "TooManyRequests", "a budget", causes=[{"reason": "DisruptionBudget"}]),
        )
        leader.step()
        assert scene.pod("b") == {}
        assert not is_leaving(scene, "a")
    lose(scene)
    with stepped(scene, ahead=PARTLY_SECONDS) as successor:
        successor.step(2)
        successor.wait(1)
        successor.step(2)
        assert is_leaving(scene, "a")
