"""Gangs whose pods share devices (consumable capacity), on a real control plane: Phalanx holds the shares.

rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, one device with 8Gi of memory that several claims share

A claim consumes whole Gi of the memory, and 1Gi if it does not name the memory.
"""

from collections import defaultdict
from collections.abc import Iterator

import pytest
from device_scene import (
    DRIVER,
    GANGS,
    JOBS,
    PODS,
    TEMPLATES,
    DeviceScene,
    History,
    Leader,
    Object,
    device_scene,
    gang,
    job,
    pod,
)

from kube.quantities import exact

pytestmark = pytest.mark.controlplane

WHOLE = exact("8Gi")


def slice_with_shared_device(name: str) -> Object:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    devices = [{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{name}-{DRIVER}"}, "spec": spec}


def share_spec(memory: str) -> Object:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": memory}}}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The control plane of this file, with a template `large` of claims of 2500Mi."""
    with device_scene(tmp_path_factory.mktemp("audit"), slice_of=slice_with_shared_device) as scene:
        scene.ask("POST", TEMPLATES, {"metadata": {"name": "large"}, "spec": {"spec": share_spec("2500Mi")}})
        yield scene


@pytest.fixture
def scene(lab: DeviceScene) -> Iterator[DeviceScene]:
    """The cluster without workloads, claims and rules."""
    yield lab
    lab.clear()


def results_of(claim: Object) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results", ()))


def most_consumed(history: History) -> dict[str, int]:
    """By pool: the largest amount of memory that claims consumed at the same time. A whole device counts as all."""
    found, now = defaultdict[str, int](int), dict[str, list[Object]]()
    for event in history.recorder.events:
        now[event.name] = results_of(event.object) if event.type != "DELETED" else []
        total = defaultdict[str, int](int)
        for each in (each for results in now.values() for each in results):
            total[each["pool"]] += int(exact(each["consumedCapacity"]["memory"]) if each.get("shareID") else WHOLE)
        for pool, amount in total.items():
            found[pool] = max(found[pool], amount)
    return found


def large_pod(name: str, **how: str) -> Object:
    """An ordinary pod with a claim of the template `large`."""
    found = pod(name, "", **how)
    found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "large"}]
    return found


def large_job(name: str, size: int) -> Object:
    """A Job whose pods are members of a gang of its name, each with a claim of the template `large`."""
    found = job(name, size)
    spec = found["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "large"}]
    return found


def test_a_job_gets_the_planned_shares_and_the_scheduler_writes_no_claim(scene: DeviceScene) -> None:
    """Four shares of 3Gi: two for each device. The allocations have what the scheduler writes for an ordinary pod."""
    scene.ask("POST", PODS, large_pod("stock"))
    scene.wait(lambda: scene.bound("stock"), "an ordinary pod to be bound")
    (stock,) = scene.claims("stock")
    mark = scene.mark()
    with scene.history() as history, Leader(scene):
        scene.ask("POST", GANGS, gang("llm", 4))
        scene.ask("POST", JOBS, large_job("llm", 4))
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        scene.wait(lambda: not scene.rules(), "the rules to be gone")
    held = history.last("llm")
    (model,) = results_of(stock)
    for (result,) in map(results_of, held):
        assert result.keys() == model.keys()
        assert result["consumedCapacity"] == model["consumedCapacity"] == {"memory": "3Gi"}
    assert len({result["shareID"] for (result,) in map(results_of, held)}) == 4
    for claim in held:
        assert claim["status"]["allocation"].keys() == stock["status"]["allocation"].keys()
        assert claim["status"]["allocation"]["devices"]["config"] == stock["status"]["allocation"]["devices"]["config"]
    assert max(most_consumed(history).values()) <= WHOLE
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == []
