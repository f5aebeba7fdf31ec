"""The message about devices that are not held, because the pods that need them do not exist yet."""

from dataclasses import replace

import msgspec
from protocol_scenes import gang, pod, record

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from controller.release.records import PlanRecord
from controller.status.about_devices import devices_not_held
from kube.objects import Pod
from kube.placeholders import seat_uid


def expected(name: str) -> Pod:
    """A pod that its workload has yet to create."""
    found = pod(name)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, uid=seat_uid("w", "main", name))
    )


def planned(*claims: tuple[str, ...]) -> PlanRecord:
    """A plan with a claim for each of these tuples of pods."""
    got = (AllocatedDevice("gpu", DeviceId("gpu.example.com", "n1", "gpu-0")),)
    allocations = tuple(ClaimAllocation("default", "", "n1", got, pods, "gpu") for pods in claims)
    return replace(record([("a", "n1")]), claims=allocations)


def test_the_message_names_the_expected_pods_that_need_devices() -> None:
    of = gang(pod("a"), expected("b"), expected("c"), expected("d"))
    assert devices_not_held(of, planned(("a",), ("b",))) == "the devices of b are not held before it exists"
    assert devices_not_held(of, planned(("b",), ("c",))) == "the devices of b, c are not held before they exist"
    assert devices_not_held(of, planned(("b", "c"))) == "the devices of b, c are not held before they exist"


def test_there_is_no_message_without_such_pods() -> None:
    of = gang(pod("a"), expected("b"))
    assert devices_not_held(of, planned(("a",))) == ""
    assert devices_not_held(of, planned(("a", "b"))) == "", "the claim that b shares with a is held"
    assert devices_not_held(of, None) == ""
    assert devices_not_held(gang(pod("a")), planned(("a",))) == ""
