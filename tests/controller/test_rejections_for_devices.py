"""A rejection of a gang with claims holds while more devices are taken, and ends when devices are new or free."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from protocol_scenes import TOPOLOGY, gang, pod, snapshot

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.claims import DeviceObjects, Devices, devices_of
from controller.scheduling.cluster_changes import Basis, ClusterChanges
from gangs.model import Gang
from kube.devices import DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate, ResourceSlice
from kube.objects import Container, ResourceRequirements

DRIVER = "gpu.example.com"


def claim(name: str, device: str = "") -> ResourceClaim:
    """A claim, with a device of n1 unless it is ""."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device}]
    status = {"allocation": {"devices": {"results": results}}} if device else {}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "status": status}, ResourceClaim)


def slice_of(*names: str) -> ResourceSlice:
    """The slice of n1 with these devices."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [{"name": each} for each in names]}
    return msgspec.convert({"spec": spec}, ResourceSlice)


OBJECTS = DeviceObjects((slice_of("gpu-0", "gpu-1"),), (), (claim("a", "gpu-0"), claim("b")))
BEFORE = devices_of(OBJECTS)


ONE = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
SMALLER = msgspec.structs.replace(claim("b"), spec=msgspec.convert({"devices": {"requests": [ONE]}}, ResourceClaimSpec))


def with_claims() -> Gang:
    """A gang of one pod with a claim."""
    one = pod("p")
    spec = msgspec.structs.replace(one.spec, resource_claims=({"name": "gpu", "resourceClaimName": "b"},))
    return gang(msgspec.structs.replace(one, spec=spec))


def changed(**fields: Any) -> Devices:
    """The devices after these objects have changed; all others are the same objects in memory."""
    return devices_of(OBJECTS._replace(**fields), (OBJECTS, BEFORE))


def planned(devices: Devices) -> Devices:
    """The devices with one that a plan gives to claim b."""
    got = (AllocatedDevice("gpu", DeviceId(DRIVER, "n1", "gpu-1")),)
    return devices.with_planned([ClaimAllocation("default", "b", "n1", got, ("p",))])


def holds(of: Gang, before: Devices | None, after: Devices | None) -> bool:
    """Whether a proven rejection of the gang still holds after the change."""
    was, now = (Basis(replace(snapshot(), devices=each), [TOPOLOGY]) for each in (before, after))
    return ClusterChanges(now).are_only_new_pods(was, of)


@pytest.mark.parametrize(
    "after",
    [
        changed(claims=(claim("a", "gpu-0"), claim("b", "gpu-1"))),
        changed(claims=(claim("a", "gpu-0"), claim("b"), claim("c"))),
        planned(BEFORE),
    ],
    ids=["another claim has a device", "another claim exists", "another plan takes a device"],
)
def test_it_holds_while_more_devices_are_taken(after: Devices) -> None:
    assert holds(with_claims(), BEFORE, after)


@pytest.mark.parametrize(
    "after",
    [
        changed(slices=(slice_of("gpu-0", "gpu-1", "gpu-2"),)),
        changed(classes=(DeviceClass(),)),
        changed(templates=(ResourceClaimTemplate(),)),
        changed(claims=(claim("a"), claim("b"))),
        changed(claims=(claim("a", "gpu-1"), claim("b"))),
        changed(claims=(claim("b"),)),
        changed(claims=(claim("a", "gpu-0"), SMALLER)),
        None,
    ],
    ids=[
        "new slice",
        "new class",
        "new template",
        "freed",
        "another device",
        "claim gone",
        "asks less",
        "not readable",
    ],
)
def test_it_ends_when_devices_may_be_free(after: Devices | None) -> None:
    assert not holds(with_claims(), BEFORE, after)
    assert holds(gang(pod("p")), BEFORE, after), "a gang without claims needs no devices"


def test_it_ends_when_another_plan_takes_no_device_any_more() -> None:
    assert not holds(with_claims(), planned(BEFORE), BEFORE)


def test_it_ends_for_an_expected_pod_whose_request_becomes_a_claim() -> None:
    """The leader of a group has no claim, and its workers do not exist yet."""
    one = pod("p")
    container = Container(name="c", resources=ResourceRequirements(limits={"example.com/gpu": "1"}))
    of = gang(msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, containers=(container,))))
    provides = {"example.com/gpu": "gpu"}
    freed = changed(claims=(claim("a"), claim("b")))
    was, now = (Basis(replace(snapshot(), devices=at, device_classes=provides), [TOPOLOGY]) for at in (BEFORE, freed))
    assert not ClusterChanges(now).are_only_new_pods(was, of)
    assert ClusterChanges(was).are_only_new_pods(was, of)
