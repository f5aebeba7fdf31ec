"""Gangs whose devices are held, on a real control plane: allocated by Phalanx before they are released.

    rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, 4 devices

The plans' devices come from a stand-in for the planner (`device_scene.FirstFit`).
"""

from collections.abc import Iterator

import pytest
from device_scene import GANGS, DeviceScene, Leader, device_scene, devices_of, doubled, gang, job

from planning import planner

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The control plane of this file."""
    with device_scene(tmp_path_factory.mktemp("audit")) as scene:
        yield scene


@pytest.fixture
def scene(lab: DeviceScene, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceScene]:
    """The cluster without workloads, claims and rules. Gangs with claims are planned."""
    monkeypatch.setattr(planner, "unplanned_devices", lambda *_: None)
    yield lab
    lab.clear()


def submit(scene: DeviceScene, name: str, size: int, **how: str) -> None:
    """Create a gang, and a Job whose pods are its members."""
    scene.ask("POST", GANGS, gang(name, size))
    scene.ask("POST", "/apis/batch/v1/namespaces/default/jobs", job(name, size, **how))


def planned(scene: DeviceScene, name: str) -> dict[str, list[tuple[str, str]]]:
    """The devices that the gang's plan gives to each member, by the pod's name."""
    return {
        each["pods"][0]: [(device["pool"], device["device"]) for device in each["devices"]]
        for each in scene.status(name).get("claims", ())
    }


def held(scene: DeviceScene, prefix: str) -> dict[str, list[tuple[str, str]]]:
    """The devices of the claims of each pod, by the pod's name."""
    return {
        each["metadata"]["ownerReferences"][0]["name"]: devices_of(each)
        for each in scene.claims(prefix)
        if devices_of(each)
    }


def test_a_job_gets_the_planned_devices_and_the_scheduler_writes_no_claim(scene: DeviceScene) -> None:
    mark = scene.mark()
    plans = list[dict[str, list[tuple[str, str]]]]()
    with Leader(scene):
        submit(scene, "llm", 4)
        scene.wait(lambda: plans.append(planned(scene, "llm")) or len(plans[-1]) == 4, "a plan with devices")
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        scene.wait(lambda: not scene.rules(), "the rules to be gone")
    assert held(scene, "llm") == plans[-1]
    assert doubled(scene.claims()) == {}
    assert {name: node for name, node in scene.bound("llm").items()} == {n: d[0][0] for n, d in plans[-1].items()}
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == []
