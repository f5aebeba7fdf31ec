"""A gang that does not fit the empty cluster: one reason and one event, whichever nodes other pods use.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import pytest
from controller_scene import GANGS, PODS, Scene, gang, member

MESSAGE = (
    "never fits this cluster, even without other pods: needs 3 pods in one rack, and the largest rack, r1 (2 nodes), "
    "holds 2"
)


@pytest.mark.usefixtures("leader")
def test_the_gang_is_told_once(scene: Scene) -> None:
    scene.run("first", "n1")
    scene.api.create(GANGS, gang(minMember=3))
    scene.api.create(PODS, *(member(name) for name in "abc"))
    status = scene.await_phase("Unplaceable")
    assert (status["reason"], status["message"]) == ("NeverFits", MESSAGE)
    scene.gone("first")
    scene.run("second", "n3")
    scene.api.create(GANGS, gang("later", minMember=2))
    scene.api.create(PODS, *(member(f"later-{name}", "later") for name in "ab"))
    scene.finish("later-a", "later-b")
    scene.await_phase("Placed", "later")
    status = scene.status()
    assert (status["reason"], status["message"]) == ("NeverFits", MESSAGE)
    assert scene.events().count("GangUnplaceable") == 1
