"""The real scheduler accepts the devices of random plans: it binds all members and writes no claim.

Twelve nodes of eight devices each: gpu-0 to gpu-3 in one NVLink domain, gpu-4 to gpu-7 in another. Half of the nodes
have devices of model a, half of model b. Each node also has two devices of 8Gi that claims share, of another driver and
DeviceClass. How many gangs are planned:

    PHALANX_DEVICE_GANGS=500 pytest -s -m long tests/system/test_planned_devices_accepted.py
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from device_scene import (
    CLAIMS,
    DRIVER,
    GANGS,
    PODS,
    RESOURCE,
    TEMPLATES,
    DeviceScene,
    History,
    Leader,
    Object,
    device_scene,
    devices_of,
    gang,
    member,
    results_of,
    slice_with_shared_devices,
)

from controlplane.recording import Recorder
from kube.quantities import exact

TOTAL = int(os.environ.get("PHALANX_DEVICE_GANGS", "40"))
AT_ONCE = 16
"""The gangs that exist at the same time. Together they want more devices than there are, so some wait for others."""
LARGEST = 4
NODES = tuple(f"n{number}" for number in range(12))
PROGRESS_SECONDS = 600.0
"""The longest time until one of the gangs is bound. Only a failing test takes so long."""
pytestmark = [pytest.mark.controlplane, pytest.mark.long, pytest.mark.timeout(600 + 30 * TOTAL)]


def request(name: str, count: int, expression: str = "") -> Object:
    """A request for devices that fulfil a CEL expression; "" for any devices."""
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": count, **selectors}}


def model(name: str) -> str:
    """The CEL expression for devices of this model."""
    return f"device.attributes['{DRIVER}'].model == '{name}'"


def alike(attribute: str, *requests: str) -> list[Object]:
    """The constraint that devices have the same value of an attribute; without requests, all devices of the claim."""
    return [{"matchAttribute": f"{DRIVER}/{attribute}", **({"requests": [*requests]} if requests else {})}]


CHOICE: Object = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "four", "deviceClassName": "gpu", "count": 4},
        {"name": "one", "deviceClassName": "gpu", "count": 1},
    ],
}
SHARING = "sharing"
"""The DeviceClass of the devices that claims share; its driver is sharing.example.com."""


def share(name: str, memory: str = "", count: int = 1) -> Object:
    """A request for shares of devices; "" for the amount that the device's policy says."""
    asked: Object = {"capacity": {"requests": {"memory": memory}}} if memory else {}
    return {"name": name, "exactly": {"deviceClassName": SHARING, "count": count, **asked}}


SPECS: dict[str, Object] = {
    "one": {"requests": [request("gpu", 1)]},
    "three": {"requests": [request("gpu", 3)]},
    "model": {"requests": [request("gpu", 2, model("b"))]},
    "domain": {"requests": [request("gpu", 3)], "constraints": alike("nvlink")},
    "two-requests": {"requests": [request("gpu", 1, model("a")), request("other", 2)], "constraints": alike("model")},
    "apart": {"requests": [request("gpu", 2)], "constraints": [{"distinctAttribute": f"{DRIVER}/nvlink"}]},
    "choice": {"requests": [CHOICE]},
    "share": {"requests": [share("part", "2500Mi")]},
    "small-share": {"requests": [share("part")]},
    "two-devices": {"requests": [share("part", "3Gi", 2)]},
    "two-shares": {"requests": [share("part", "1Gi"), share("more", "4Gi")]},
    "share-and-device": {"requests": [request("gpu", 1), share("part", "2Gi")]},
}
"""The specs of claims, by the name of their template."""
SHARED = "shared"
"""The kind of gangs whose members all use one claim, so they land on one node."""


def slice_of(node: str) -> Object:
    """The devices of a node, in two NVLink domains."""
    chosen = "a" if int(node[1:]) % 2 == 0 else "b"
    devices = [
        {"name": f"gpu-{i}", "attributes": {"model": {"string": chosen}, "nvlink": {"string": f"{node}-{i // 4}"}}}
        for i in range(8)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The cluster with a template for each kind of claims."""
    with device_scene(tmp_path_factory.mktemp("audit"), nodes=NODES, slice_of=slice_of) as found:
        found.ask("DELETE", f"{TEMPLATES}/one")
        chosen = [{"cel": {"expression": f"device.driver == '{SHARING}.example.com'"}}]
        found.ask("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": SHARING}, "spec": {"selectors": chosen}})
        for node in NODES:
            shared = slice_with_shared_devices(node, 2)
            shared["metadata"]["name"] = f"{node}-{SHARING}"
            shared["spec"]["driver"] = f"{SHARING}.example.com"
            found.ask("POST", f"{RESOURCE}/resourceslices", shared)
        for name, spec in SPECS.items():
            found.ask("POST", TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": {"devices": spec}}})
        yield found


def test_all_members_have_the_planned_devices_and_the_scheduler_writes_no_claim(scene: DeviceScene) -> None:
    mark, random, kinds, numbers = scene.mark(), Random(40), Counter[str](), iter(range(TOTAL))  # noqa: S311 - drawn gangs
    sizes, done = dict[str, int](), 0
    with scene.history() as history, Recorder(scene.plane, GANGS) as plans, Leader(scene):
        while (new := [number for _, number in zip(range(AT_ONCE - len(sizes)), numbers, strict=False)]) or sizes:
            for number in new:
                name, kind = f"g{number}", random.choice([*SPECS, SHARED])
                sizes[name] = submit(scene, name, kind, random.randint(1, LARGEST))
                kinds[kind] += 1
            ready = whole(scene, sizes)
            done += len(ready)
            for name in ready:
                check(history, plans, name, scene.bound(f"{name}-"))
                remove(scene, name)
                del sizes[name]
            print(f"{done} gangs bound as planned", flush=True)  # noqa: T201 - the progress of a long run
        scene.wait(lambda: not scene.rules() and not scene.leftovers(), "rules and probes to be gone")
        assert history.whole
    assert history.doubled == {}
    assert max(history.most_consumed.values(), default=0) <= exact("8Gi")
    written = scene.writes("kube-scheduler", "resourceclaims", mark)
    probes = [each for each in written if each.name.startswith("probe-")]
    assert [each for each in written if each not in probes] == []
    assert all(each.code == 403 for each in probes)
    print(f"{TOTAL} gangs: {dict(kinds)}; {len(history.recorder.events)} changes of claims")  # noqa: T201 - the figures of a long run


def submit(scene: DeviceScene, name: str, kind: str, size: int) -> int:
    """Create a gang with claims of this kind. Return the number of its members."""
    scene.ask("POST", GANGS, gang(name, size))
    if kind == SHARED:
        spec = {"devices": SPECS["three"]}
        scene.ask("POST", CLAIMS, {"metadata": {"name": f"{name}-shared"}, "spec": spec})
    for number in range(size):
        each = member(f"{name}-{number}", name)
        used = {"resourceClaimTemplateName": kind}
        if kind == SHARED:
            used = {"resourceClaimName": f"{name}-shared"}
        each["spec"]["resourceClaims"] = [{"name": "gpu", **used}]
        scene.ask("POST", PODS, each)
    return size


def whole(scene: DeviceScene, sizes: dict[str, int]) -> list[str]:
    """Wait until a gang is bound as a whole. Return the names of all such gangs."""

    def present() -> list[str]:
        counts = Counter(name.rpartition("-")[0] for name in scene.bound("g"))
        return [name for name, size in sizes.items() if counts[name] == size]

    scene.wait(present, "a gang to be bound", PROGRESS_SECONDS)
    return present()


def check(history: History, plans: Recorder, name: str, bound: dict[str, str]) -> None:
    """Fail unless each claim of a bound gang has the devices that the plan gives it, on the nodes of the plan."""
    statuses = [each.object.get("status", {}) for each in plans.of(name)]
    planned = next(each["claims"] for each in reversed(statuses) if each.get("claims"))
    claims = {each["metadata"]["name"]: each for each in history.now(f"{name}-")}
    for each in planned:
        (claim,) = [
            one
            for at, one in claims.items()
            if (at == each.get("name")) or (not each.get("name") and at.startswith(f"{each['pods'][0]}-gpu-"))
        ]
        assert devices_of(claim) == [(device["pool"], device["device"]) for device in each["devices"]]
        for result, device in zip(results_of(claim), each["devices"], strict=True):
            assert result["request"] == device["request"]
            assert result.get("consumedCapacity") == device.get("consumedCapacity")
            assert ("shareID" in result) == ("consumedCapacity" in device)
        assert {bound[pod] for pod in each["pods"]} == {device["pool"] for device in each["devices"]}
        reserved = {one["name"] for one in claim["status"]["reservedFor"]}
        assert reserved == set(each["pods"])
    assert len(planned) == len(claims)


def remove(scene: DeviceScene, name: str) -> None:
    """Delete a gang with its members and its own claim. The members' claims end with them."""
    for each in scene.pods(f"{name}-"):
        scene.ask("DELETE", f"{PODS}/{each['metadata']['name']}?gracePeriodSeconds=0")
    scene.ask("DELETE", f"{GANGS}/{name}")
    scene.plane.request("DELETE", f"{CLAIMS}/{name}-shared")
