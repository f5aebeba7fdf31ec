"""Files with quantities and versions of devices that cannot be parsed: a mistake of the file, not a traceback."""

from typing import Any

import device_scenes as devices
import pytest
import scenes

OWN = f'device.capacity["{devices.DRIVER}"].memory.isGreaterThan(quantity("1Gi"))'


def wrong_slice(device: dict[str, Any], **spec: Any) -> scenes.Manifest:
    """The slice of n1 with one device that has these fields."""
    found: scenes.Manifest = devices.resource_slice("n1", 1, **spec)
    found["spec"]["devices"][0] |= device
    return found


def consuming(value: str) -> dict[str, Any]:
    """A device that consumes so much of a counter."""
    return {"consumesCounters": [{"counterSet": "card", "counters": {"slices": {"value": value}}}]}


def sharing(policy: dict[str, Any]) -> dict[str, Any]:
    """A device with this request policy for its memory."""
    return {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi", "requestPolicy": policy}}}


def asking(place: str) -> scenes.Manifest:
    """A template with a wrong quantity in a request for capacity."""
    one = {"deviceClassName": devices.DRIVER, "capacity": {"requests": {"memory": "x"}}}
    return devices.template({"name": "gpu", place: [{"name": "a", **one}] if place == "firstAvailable" else one})


COUNTERS = [{"name": "card", "counters": {"slices": {"value": "x"}}}]
WRONG = {
    "capacity": (wrong_slice({"capacity": {"memory": {"value": "Always"}}}), "devices[0].capacity.memory.value"),
    "version": (wrong_slice({"attributes": {"v": {"version": "1m"}}}), "devices[0].attributes.v.version"),
    "consumed": (wrong_slice(consuming("x")), "devices[0].consumesCounters[0].counters.slices.value"),
    "shared": (wrong_slice({}, sharedCounters=COUNTERS), "sharedCounters[0].counters.slices.value"),
    "default": (wrong_slice(sharing({"default": "x"})), "devices[0].capacity.memory.requestPolicy.default"),
    "valid values": (
        wrong_slice(sharing({"default": "1Gi", "validValues": ["1Gi", "x"]})),
        "devices[0].capacity.memory.requestPolicy.validValues[1]",
    ),
    "valid range": (
        wrong_slice(sharing({"default": "1Gi", "validRange": {"min": "1Gi", "step": "x"}})),
        "devices[0].capacity.memory.requestPolicy.validRange.step",
    ),
    "request": (asking("exactly"), "spec.devices.requests[0].exactly.capacity.requests.memory"),
    "alternative": (asking("firstAvailable"), "spec.devices.requests[0].firstAvailable[0].capacity.requests.memory"),
}


@pytest.mark.parametrize(("wrong", "field"), WRONG.values(), ids=WRONG)
def test_a_text_that_cannot_be_parsed_is_a_mistake_of_its_object(wrong: scenes.Manifest, field: str) -> None:
    beside = [] if wrong["kind"] == "ResourceClaimTemplate" else [devices.template()]
    cluster = [*scenes.nodes("r1: n1\n", ["rack"]), devices.device_class(devices.DRIVER, OWN), wrong, *beside]
    run = scenes.solved(cluster, scenes.gang(minMember=1), scenes.members(1, cpu=1, **devices.of_template()))
    (mistake,) = run.mistakes
    assert mistake.field == f"spec.{field}"
    assert "is not a " in mistake.problem
