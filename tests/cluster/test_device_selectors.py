"""CEL selectors of devices: the results of Kubernetes' own implementation for the same expressions.

They were compared with the cases of `dynamic-resource-allocation/cel/compile_test.go` of Kubernetes 1.37.1. The only
differences are values that are lists, and the function `includes`: both are behind a feature gate that is off.
"""

from typing import Any

import msgspec
import pytest

from cluster.devices.selectors import SelectorError, matches
from kube.devices import Device

DRIVER = "gpu.example.com"
OWN = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'
DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "firmware": {"version": "1.2.3-rc.1+build"},
        "other.example.com/rail": {"int": 0},
    },
    "capacity": {"memory": {"value": "40Gi"}, "other.example.com/slots": {"value": "500m"}},
}


def selected(expression: str, **more: Any) -> bool:
    """Whether the expression selects the device."""
    return matches(expression, msgspec.convert({**DEVICE, **more}, Device), DRIVER)


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        f'device.driver == "{DRIVER}" && {OWN}.healthy',
        f'{OWN}["model"] == "A100"',
        f'{OWN}.model.lowerAscii().startsWith("a1")',
        f'{OWN}.model.matches("^[A-Z]1")',
        f"{OWN}.index in [1, 2, 3]",
        'device.attributes["other.example.com"].rail == 0',
        f'!("rail" in {OWN})',
        f'"{DRIVER}" in device.attributes && !("none.example.com" in device.attributes)',
        '!has(device.attributes["none.example.com"].rail)',
        '!("slots" in device.capacity["none.example.com"])',
        f"cel.bind(own, {OWN}, own.healthy && own.index > 2)",
        f'{OWN}.?missing.orValue("x") == "x"',
        f'{MEMORY}.compareTo(quantity("40960Mi")) == 0 && {MEMORY} == quantity("40960Mi")',
        f'{MEMORY}.isGreaterThan(quantity("39Gi")) && {MEMORY}.isLessThan(quantity("0.05Ti"))',
        f'{MEMORY}.sub(quantity("40Gi")).sign() == 0 && {MEMORY}.isInteger()',
        'device.capacity["other.example.com"].slots.asApproximateFloat() == 0.5',
        'quantity("1k").add(24).asInteger() == 1024',
        'isQuantity("1Gi") && !isQuantity("1 Gi")',
        f'{OWN}.firmware.isLessThan(semver("1.2.3")) && {OWN}.firmware.isGreaterThan(semver("1.2.3-rc.0"))',
        f'{OWN}.firmware.isLessThan(semver("1.2.3-rc.1.1")) && {OWN}.firmware.isGreaterThan(semver("1.2.3-5"))',
        f"{OWN}.firmware.major() == 1 && {OWN}.firmware.minor() == 2 && {OWN}.firmware.patch() == 3",
        'isSemver("1.0.0") && !isSemver("1.0") && semver("v01.2", true) == semver("1.2.0")',
        "!device.allowMultipleAllocations",
        f'{OWN}.missing == "x" || true',
    ],
)
def test_an_expression_that_selects_the_device(expression: str) -> None:
    assert selected(expression)
    assert not selected(f"!({expression})")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1", "has the type int, not bool"),
        ("?!", "is not understood"),
        ("device.colour == 'red'", "is not understood: 1:7: undeclared reference to 'device.colour'"),
        ("paint(device.driver)", "is not understood"),
        (f"{OWN}.index", "fails for device gpu-0: 3"),
        (f"{OWN}.missing", 'fails for device gpu-0: NOT_FOUND: Key not found in map : "missing"'),
        ('device.attributes["none.example.com"].rail == 0', 'Key not found in map : "rail"'),
        ('quantity("many") == quantity("1")', "'many' is not a quantity"),
        ('semver("1.0") == semver("1.0.0")', "'1.0' is not a semantic version"),
        (f'{MEMORY}.isGreaterThan(semver("1.0.0"))', "fails for device gpu-0"),
        (f"{MEMORY}.major() == 1", "not a semantic version"),
    ],
)
def test_an_expression_that_cannot_be_evaluated_is_named_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(SelectorError) as error:
        selected(expression)
    assert f'the CEL selector "{expression}"' in str(error.value)
    assert reason in str(error.value)


def test_a_shared_device() -> None:
    assert selected("device.allowMultipleAllocations", allowMultipleAllocations=True)
