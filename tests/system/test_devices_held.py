"""Gangs whose devices are held, on a real control plane: allocated by Phalanx before they are released.

    rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, 4 devices

The plans' devices come from a stand-in for the planner (`device_scene.FirstFit`).
"""

from collections.abc import Callable, Iterator

import pytest
from device_scene import GANGS, DeviceScene, Leader, device_scene, gang, job

from planning import planner

pytestmark = pytest.mark.controlplane


MOST_WRITES = 60
"""More writes than a gang of two costs, from its first status to its last."""


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


def dies_before(number: int) -> Callable[[Leader, str, str], None]:
    """Return a function that ends a leader's term before its write of this number."""

    def before(leader: Leader, _method: str, _path: str) -> None:
        if len(leader.writes) == number:
            leader.die()

    return before


def planned(scene: DeviceScene, name: str) -> dict[str, list[tuple[str, str]]]:
    """The devices that the gang's plan gives to each member, by the pod's name."""
    return {
        each["pods"][0]: [(device["pool"], device["device"]) for device in each["devices"]]
        for each in scene.status(name).get("claims", ())
    }


def test_a_job_gets_the_planned_devices_and_the_scheduler_writes_no_claim(scene: DeviceScene) -> None:
    mark, plans = scene.mark(), list[dict[str, list[tuple[str, str]]]]()
    with scene.history() as history, Leader(scene):
        submit(scene, "llm", 4)
        scene.wait(lambda: plans.append(planned(scene, "llm")) or len(plans[-1]) == 4, "a plan with devices")
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        scene.wait(lambda: not scene.rules(), "the rules to be gone")
    assert history.devices("llm") == plans[-1]
    assert history.doubled == {}
    assert {name: node for name, node in scene.bound("llm").items()} == {n: d[0][0] for n, d in plans[-1].items()}
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == []
    (config,) = history.last("llm")[0]["status"]["allocation"]["devices"]["config"]
    assert config["source"] == "FromClass"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_leader_that_dies_before_any_write_leaves_what_the_next_one_finishes(scene: DeviceScene) -> None:
    """Each round ends the leader's term before one more write. A rival of the gang waits for every device meanwhile."""
    last = 0
    for number in range(1, MOST_WRITES):
        mark, name = scene.mark(), f"g{number}"
        with scene.history() as history:
            submit(scene, name, 2)
            with Leader(scene, before=dies_before(number)) as first:
                scene.wait(lambda: first.term.left() <= 0 or len(scene.bound(name)) == 2, "the death")
            last = len(first.writes)
            with Leader(scene):
                scene.wait(lambda: len(scene.bound(name)) == 2, f"{name} to be bound")
                scene.wait(lambda: not scene.rules(), "the rules to be gone")
                scene.wait(lambda: not scene.leftovers(), "the probes to be gone")
        assert history.doubled == {}, number
        assert scene.writes("kube-scheduler", "resourceclaims", mark) == [], number
        scene.clear()
        if last < number:
            return
    pytest.fail(f"the protocol has more than {last} writes")
