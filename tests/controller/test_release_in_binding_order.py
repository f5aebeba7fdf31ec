"""A member that the scheduler would evict for is released once its siblings are bound.

r1: n1, n2      r2: n3      The members are spread over the racks. A pod of lower priority on n1 counts for them.
"""

import pytest
from controller_scene import GANGS, PODS, RACK, Scene, gang, member
from local_api.store import Object

SPREAD = {
    "maxSkew": 1,
    "topologyKey": RACK,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}


def alike(name: str) -> Object:
    """A member that the constraint counts."""
    made = member(name, cpu=1, priorityClassName="high", priority=1000, topologySpreadConstraints=[SPREAD])
    made["metadata"]["labels"]["app"] = "x"
    return made


@pytest.mark.usefixtures("leader")
def test_the_member_beside_a_pod_that_could_be_evicted_comes_last(scene: Scene) -> None:
    scene.api.create(PODS, member("full", "", gated=False, nodeName="n2"))
    old = member("old", "", cpu=1, gated=False, nodeName="n1", priorityClassName="low", priority=1)
    old["metadata"]["labels"]["app"] = "x"
    scene.api.create(PODS, old)
    scene.ready("full")
    scene.ready("old")
    scene.api.create(GANGS, gang(minMember=3, required=None))
    scene.api.create(PODS, alike("a"), alike("b"), alike("c"))
    scene.answer(scene.await_probe())
    scene.api.wait(lambda: not scene.gated("b"), "the members of the empty rack to be released")
    assert scene.nominated("a", "b", "c") == ["n1", "n3", "n3"]
    assert scene.gated("a")
    scene.bind("b", "c")
    scene.finish("a")
    assert scene.nodes("a", "b", "c") == ["n1", "n3", "n3"]
    scene.await_phase("Placed")
