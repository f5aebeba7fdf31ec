"""A round's decisions hold beside each other: no gang is released whose capacity the same round gives away.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu; the gangs low and high need two nodes of one rack
"""

from controller_scene import GANGS, PODS, Scene, gang, member
from stepped_leader import SteppedLeader, stepped

from controller.scheduling.postponed_steps import HANDOVER_SECONDS


def place(scene: Scene, name: str) -> None:
    """Create a gang of two members of the priority class that the gang is named after."""
    scene.api.create(GANGS, gang(name))
    scene.api.create(PODS, *(member(f"{name}-{each}", name, priorityClassName=name) for each in "ab"))


def gates(scene: Scene, name: str) -> list[bool]:
    """Return for each member of the gang whether it is gated."""
    return [scene.gated(f"{name}-{each}") for each in "ab"]


def nodes(scene: Scene, name: str) -> list[str]:
    """Return the nodes that the gang's members are nominated to, in order."""
    return sorted(scene.nominated(f"{name}-a", f"{name}-b"))


def nominate(scene: Scene, leader: SteppedLeader, name: str) -> None:
    """Create a gang and let it be planned and nominated; its probe waits for the scheduler."""
    place(scene, name)
    leader.step(2)
    leader.think()
    leader.step()
    assert nodes(scene, name) == ["n1", "n2"]


def answer_probe(scene: Scene) -> None:
    """Let the scheduler try the newest probe."""
    scene.answer(scene.probes()[-1]["metadata"]["name"])


def test_a_gang_is_not_released_in_the_round_that_gives_its_capacity_to_a_higher_priority(scene: Scene) -> None:
    with stepped(scene) as leader:
        nominate(scene, leader, "low")
        place(scene, "high")
        leader.step()
        answer_probe(scene)
        leader.think()
        leader.step()  # accepts the plan of high; the release of low is due
        assert nodes(scene, "high") == ["n1", "n2"]
        assert gates(scene, "low") == [True, True]
        leader.step()
        leader.think()
        leader.step()  # the plan of low is invalidated: its nominations are cleared
        assert nodes(scene, "low") == ["", ""]
        assert scene.status("low")["phase"] == "Unplaceable"
        answer_probe(scene)
        leader.step()
        assert gates(scene, "high") == [False, False]
        assert gates(scene, "low") == [True, True]


def test_no_pod_is_evicted_for_a_gang_in_the_round_that_gives_its_capacity_to_a_higher_priority(scene: Scene) -> None:
    scene.run("victim", "n1", cpu=2)
    with stepped(scene) as leader:
        place(scene, "low")
        leader.step(2)
        leader.think()
        place(scene, "high")
        leader.step()  # accepts the plan of low and asks for a plan for high
        assert nodes(scene, "low") == ["n1", "n2"]
        leader.think()
        leader.step()  # accepts the plan of high; the eviction for low is due
        assert nodes(scene, "high") == ["n1", "n2"]
        assert "deletionTimestamp" not in scene.pod("victim")["metadata"]


def test_a_release_beside_a_plan_for_other_nodes_is_not_postponed(scene: Scene) -> None:
    with stepped(scene) as leader:
        nominate(scene, leader, "low")
        scene.api.create(GANGS, gang("high", minMember=1))
        scene.api.create(PODS, member("high-a", "high", priorityClassName="high"))
        leader.step()
        answer_probe(scene)
        leader.think()
        leader.step()
        assert scene.nominated("high-a") == ["n3"]
        assert gates(scene, "low") == [False, False]


def test_a_new_leader_plans_a_waiting_gang_before_it_releases_one_of_lower_priority(scene: Scene) -> None:
    with stepped(scene) as first:
        nominate(scene, first, "low")
    place(scene, "high")
    with stepped(scene) as second:
        second.step(2)  # sends a probe of its own
        answer_probe(scene)
        second.step()  # the release of low is due; high is being planned
        assert gates(scene, "low") == [True, True]
        second.think()
        second.step()
        assert nodes(scene, "high") == ["n1", "n2"]
        assert gates(scene, "low") == [True, True]


def test_a_new_leader_postpones_releases_for_a_bounded_time(scene: Scene) -> None:
    with stepped(scene) as first:
        nominate(scene, first, "low")
    place(scene, "high")
    with stepped(scene) as second:
        second.step(2)
        answer_probe(scene)
        second.step()
        assert gates(scene, "low") == [True, True]
        second.wait(HANDOVER_SECONDS)
        second.step(2)
        assert gates(scene, "low") == [False, False]
