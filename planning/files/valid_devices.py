"""Finds quantities and versions in files with ResourceSlices, DeviceClasses and claims that an API server would refuse.

The code that plans devices parses these texts, and expects that each of them can be parsed.
"""

from collections.abc import Iterator

from msgspec import Struct

from cluster.devices.selectors import is_version
from kube.devices import (
    Device,
    DeviceCapacity,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kube.quantities import exact
from planning.files.valid_metadata import Wrong

_Written = Iterator[tuple[str, str | int | float]]
"""Field paths, each with the quantity that is written there."""


def wrong_devices(value: Struct) -> Iterator[Wrong]:
    """Yield the quantities and versions of a slice, claim or template that cannot be parsed, as (field, problem)."""
    for path, quantity in _quantities(value):
        try:
            exact(quantity)
        except ValueError as error:
            yield path, f"{error}; write a number with a unit, such as 80Gi"
    if isinstance(value, ResourceSlice):
        for at, device in enumerate(value.spec.devices):
            for name, attribute in device.attributes.items():
                if attribute.version is not None and not is_version(attribute.version):
                    path = f"spec.devices[{at}].attributes.{name}.version"
                    yield path, f"{attribute.version!r} is not a semantic version; write one, such as 1.2.3"


def _quantities(value: Struct) -> _Written:
    if isinstance(value, ResourceSlice):
        for at, device in enumerate(value.spec.devices):
            yield from _of_device(device, f"spec.devices[{at}]")
        for at, shared in enumerate(value.spec.shared_counters):
            for name, counter in shared.counters.items():
                yield f"spec.sharedCounters[{at}].counters.{name}.value", counter.value
    elif isinstance(value, ResourceClaimTemplate):
        yield from _of_claim(value.spec.spec, "spec.spec")
    elif isinstance(value, ResourceClaim):
        yield from _of_claim(value.spec, "spec")
        results = value.status.allocation.devices.results if value.status.allocation is not None else ()
        for at, result in enumerate(results):
            for name, amount in result.consumed_capacity.items():
                yield f"status.allocation.devices.results[{at}].consumedCapacity.{name}", amount


def _of_device(device: Device, path: str) -> _Written:
    for name, capacity in device.capacity.items():
        yield from _of_capacity(capacity, f"{path}.capacity.{name}")
    for at, consumed in enumerate(device.consumes_counters):
        for name, counter in consumed.counters.items():
            yield f"{path}.consumesCounters[{at}].counters.{name}.value", counter.value


def _of_capacity(capacity: DeviceCapacity, path: str) -> _Written:
    yield f"{path}.value", capacity.value
    policy, path = capacity.request_policy, f"{path}.requestPolicy"
    if policy is None:
        return
    if policy.default is not None:
        yield f"{path}.default", policy.default
    for at, amount in enumerate(policy.valid_values):
        yield f"{path}.validValues[{at}]", amount
    if (valid := policy.valid_range) is not None:
        parts = {"min": valid.min, "max": valid.max, "step": valid.step}
        yield from ((f"{path}.validRange.{name}", amount) for name, amount in parts.items() if amount is not None)


def _of_claim(spec: ResourceClaimSpec, path: str) -> _Written:
    for at, request in enumerate(spec.devices.requests):
        yield from _of_request(request, f"{path}.devices.requests[{at}]")


def _of_request(request: DeviceRequest, path: str) -> _Written:
    exactly = [("exactly", request.exactly)] if request.exactly is not None else []
    for field, each in (*exactly, *((f"firstAvailable[{at}]", one) for at, one in enumerate(request.first_available))):
        for name, amount in each.capacity.requests.items() if each.capacity is not None else ():
            yield f"{path}.{field}.capacity.requests.{name}", amount
