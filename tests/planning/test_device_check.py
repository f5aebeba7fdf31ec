"""The check of the devices that a plan gives: each kind of wrong allocation is found, and a right one passes."""

from collections.abc import Callable
from dataclasses import replace

import device_scenes as devices
import pytest
import scenes

from cluster.devices.allocation import ClaimAllocation, DeviceId
from cluster.devices.claims import Devices
from planning.devices.verifying import PlacedPod, faults

SETTING = [
    *scenes.nodes("r1: n1 n2", ["rack"]),
    devices.device_class(),
    devices.resource_slice(
        "n1",
        [
            *[devices.device(f"gpu-{place}", attributes={"numa": place // 2}) for place in range(6)],
            devices.device("broken", attributes={"numa": 0}, taints=[{"key": "broken", "effect": "NoSchedule"}]),
        ],
    ),
    devices.resource_slice("n2", 1),
    devices.template(devices.request(count=2), constraints=[{"matchAttribute": f"{devices.DRIVER}/numa"}]),
    *devices.user("other", "n1", "gpu-4"),
]


def plan() -> tuple[list[PlacedPod], Devices]:
    """The plan for two pods, which get gpu-0 and gpu-1, and gpu-2 and gpu-3, and the devices of the cluster."""
    members = scenes.members(2, cpu=1, **devices.of_template())
    run = scenes.solved(scenes.topology(["rack"]), SETTING, scenes.gang(minMember=2), members)
    (decision,) = run.decisions
    assert run.snapshot.devices is not None
    return [PlacedPod(each.member.pod, each.node, each.devices) for each in decision.assignments], run.snapshot.devices


def with_devices(*names: str, node: str = "n1") -> Callable[[ClaimAllocation], ClaimAllocation]:
    """Return a function that gives other devices to a claim."""

    def change(allocation: ClaimAllocation) -> ClaimAllocation:
        first = allocation.devices[0]
        ids = [DeviceId(devices.DRIVER, node, each) for each in names]
        return replace(allocation, devices=tuple(replace(first, device=each) for each in ids))

    return change


def test_the_plan_itself_is_valid() -> None:
    placed, there = plan()
    assert [[each.device.device for each in pod.allocations[0].devices] for pod in placed] == [
        ["gpu-0", "gpu-1"],
        ["gpu-2", "gpu-3"],
    ]
    assert not list(faults(placed, frozenset(), there))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (with_devices("gpu-2", "gpu-3"), "is given 2 times"),
        (with_devices("gpu-0"), "1 devices, not 2"),
        (with_devices("gpu-0", "gpu-0"), "a device twice"),
        (with_devices("gpu-0", "broken"), "broken does not match"),
        (with_devices("gpu-5", "gpu-4"), "gpu-4 has another holder"),
        (with_devices("gpu-1", "gpu-5"), f"{devices.DRIVER}/numa is violated"),
        (with_devices("gpu-0", "gpu-9"), "a device that is not on n1"),
        (with_devices("gpu-0", node="n2"), "a device that is not on n1"),
        (lambda each: replace(each, node="n2"), "gets devices of n2 on n1"),
        (lambda each: replace(each, pod_claim="nic"), "gets no devices for gpu"),
        (
            lambda each: replace(each, devices=tuple(replace(one, request="nic") for one in each.devices)),
            "devices for an unknown request nic",
        ),
        (
            lambda each: replace(each, devices=tuple(replace(one, admin_access=True) for one in each.devices)),
            "wrong adminAccess",
        ),
    ],
)
def test_a_wrong_allocation_is_found(change: Callable[[ClaimAllocation], ClaimAllocation], fault: str) -> None:
    placed, there = plan()
    first = placed[0]._replace(allocations=(change(placed[0].allocations[0]),))
    found = list(faults([first, placed[1]], frozenset(), there))
    assert any(fault in each for each in found), found


def test_a_device_of_a_pod_that_goes_is_free() -> None:
    placed, there = plan()
    first = placed[0]._replace(allocations=(with_devices("gpu-5", "gpu-4")(placed[0].allocations[0]),))
    assert not list(faults([first, placed[1]], {"default/other"}, there))
