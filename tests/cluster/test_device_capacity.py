"""The amounts that requests consume of a device's capacities, as the stock scheduler's allocator rounds them."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from cluster.devices.capacity import consumed, written
from kube.devices import Device
from kube.quantities import exact

STEPS = {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi", "max": "8Gi"}}
RANGE = {"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi"}}
VALUES = {"default": "2Gi", "validValues": ["2Gi", "4Gi", "8Gi"]}
UNEVEN = {"default": "1", "validRange": {"min": "1", "step": "3"}}


def of(policy: dict[str, Any] | None, request: str | None, value: str = "10Gi") -> str | None:
    """The amount that a request consumes of a capacity; None if it cannot get the device."""
    capacity = {"memory": {"value": value, **({"requestPolicy": policy} if policy else {})}}
    device = msgspec.convert({"allowMultipleAllocations": True, "capacity": capacity}, Device)
    found = consumed(device, {} if request is None else {"memory": exact(request)})
    return None if found is None else dict(written(found))["memory"]


@pytest.mark.parametrize(
    ("policy", "request_", "expected"),
    [
        (None, None, "10Gi"),
        (None, "3Gi", "3Gi"),
        (None, "11Gi", None),
        ({"default": "1Gi"}, None, "1Gi"),
        ({"default": "1Gi"}, "3Gi", "3Gi"),
        (STEPS, None, "2Gi"),
        (STEPS, "1", "2Gi"),
        (STEPS, "2Gi", "2Gi"),
        (STEPS, "3Gi", "4Gi"),
        (STEPS, "8Gi", "8Gi"),
        (STEPS, "9Gi", None),
        (RANGE, "3Gi", "3Gi"),
        (RANGE, "1Gi", "2Gi"),
        (RANGE, "9Gi", None),
        (VALUES, None, "2Gi"),
        (VALUES, "1Gi", "2Gi"),
        (VALUES, "5Gi", "8Gi"),
        (VALUES, "9Gi", None),
        (UNEVEN, "2", "4"),
        (UNEVEN, "4", "4"),
        (UNEVEN, "4500m", "7"),
    ],
)
def test_a_policy_rounds_a_request_up(
    policy: dict[str, Any] | None, request_: str | None, expected: str | None
) -> None:
    assert of(policy, request_) == expected


def test_a_rounded_amount_beyond_the_capacity_is_refused() -> None:
    assert of(STEPS, "3Gi", value="3Gi") is None
    assert of(VALUES, "3Gi", value="3Gi") is None


def test_a_device_without_a_requested_capacity_is_refused() -> None:
    device = msgspec.convert({"capacity": {"memory": {"value": "1Gi"}}}, Device)
    assert consumed(device, {"bandwidth": Decimal(1)}) is None
    assert consumed(device, {}) == {"memory": Decimal(2**30)}


def test_amounts_are_written_as_quantities() -> None:
    amounts = {"b": Decimal(3 * 2**30), "a": Decimal("1.50"), "c": Decimal(5 * 2**20), "d": Decimal(0)}
    assert written(amounts) == (("a", "1.5"), ("b", "3Gi"), ("c", "5Mi"), ("d", "0"))
