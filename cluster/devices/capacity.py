"""Consumable capacity: what a request consumes of a device, and what is left of devices that several claims share.

The rules are those of the stock scheduler's allocator in 1.37.1 (dynamic-resource-allocation, file
`consumable_capacity.go`). The feature is beta and on by default since Kubernetes 1.36 (DRAConsumableCapacity).
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from kube.devices import CapacityPolicy, CapacityRange, CapacityRequirements, Device
from kube.quantities import exact

Amounts = Mapping[str, Decimal]
"""Amounts of a device's capacities, by name."""

_UNITS = (("Gi", 2**30), ("Mi", 2**20))
"""The units in which `written` writes their multiples. Other amounts are written in ones."""


def amounts_asked(requirements: CapacityRequirements | None) -> tuple[tuple[str, Decimal], ...]:
    """Return the amounts that a request asks for, by name and in the order of names."""
    requests = requirements.requests if requirements is not None else {}
    return tuple((name, exact(requests[name])) for name in sorted(requests))


def consumed(device: Device, requests: Amounts) -> Amounts | None:
    """Return what a request for these amounts consumes of each capacity of a device.

    None if the request cannot get the device, even if nothing of it is consumed yet. This is the case if the device
    lacks a capacity, if its policy does not allow the amount, or if the amount is larger than the capacity.
    """
    if any(name not in device.capacity for name in requests):
        return None
    found: dict[str, Decimal] = {}
    for name, capacity in device.capacity.items():
        whole, policy = exact(capacity.value), capacity.request_policy
        amount = _rounded(requests.get(name), whole, policy)
        if amount is None or not 0 <= amount <= whole:
            return None
        found[name] = amount
    return found


def _rounded(request: Decimal | None, whole: Decimal, policy: CapacityPolicy | None) -> Decimal | None:
    """Return the amount to which the policy rounds a request; None if the policy allows no amount that is large enough.

    `request`: None if the request does not name the capacity. `whole`: the capacity.
    """
    if request is None:
        return exact(policy.default) if policy is not None and policy.default is not None else whole
    if policy is None:
        return request
    if policy.valid_range is not None:
        return _in_range(request, policy.valid_range)
    if policy.valid_values:
        return min((each for each in map(exact, policy.valid_values) if each >= request), default=None)
    return request


def _in_range(request: Decimal, valid: CapacityRange) -> Decimal | None:
    """Return the least amount of the range that suffices for the request; None if the request is above the range."""
    least = exact(valid.min)
    amount = max(request, least)
    if valid.step is not None and (step := exact(valid.step)) > 0:
        steps, rest = divmod(amount - least, step)
        amount = least + step * (steps + 1 if rest else steps)
    return amount if valid.max is None or amount <= exact(valid.max) else None


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts, by the name of the capacity."""
    found: dict[str, Decimal] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, Decimal(0)) + amount
    return found


def exceeds(amounts: Amounts, capacity: Amounts) -> bool:
    """Return whether some of these amounts is larger than the device's capacity of the same name. Amounts of capacities
    that the device lacks are ignored.
    """
    return any(amounts.get(name, Decimal(0)) > whole for name, whole in capacity.items())


def written(amounts: Amounts) -> tuple[tuple[str, str], ...]:
    """Return amounts as quantities in the API's form, by name and in the order of names."""
    return tuple((name, _quantity(amounts[name])) for name in sorted(amounts))


def _quantity(amount: Decimal) -> str:
    for unit, size in _UNITS:
        if amount and amount % size == 0:
            return f"{int(amount // size)}{unit}"
    return format(amount.normalize(), "f")
