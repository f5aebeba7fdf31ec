"""The object that a gang waits for arrives while the gang's last answer is too young to be planned again.

The gang is planned again when that time is over.
"""

from functools import partial
from time import monotonic

import pytest
from controller_scene import PODS, Scene, member, place

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def is_past(instant: float) -> bool:
    return monotonic() > instant


@pytest.mark.usefixtures("leader")
def test_nobody_sleeps_through_what_a_gang_waits_for(scene: Scene) -> None:
    place(scene, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    scene.await_phase("Waiting")
    for number in range(6):  # the pauses between two looks become longer
        scene.api.create(PODS, member(f"x-{number}", "", cpu=0, gated=False))
        ends = monotonic() + 0.5
        scene.api.wait(partial(is_past, ends), "a round")
    scene.api.create(CLAIMS, {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}})
    scene.await_phase("Unplaceable")  # the claim has no volume yet
