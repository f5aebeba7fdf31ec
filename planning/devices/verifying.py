"""Checks the devices that a plan gives to claims, device by device, without any of the code that chose them.

Every plan must pass this check before it is returned. The check reads the claims, the slices and the present
allocations.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.claims import Devices, PodClaim
from cluster.devices.inventory import Content
from cluster.devices.selectors import matches
from cluster.eligibility.taints import untolerated
from kube.devices import (
    Device,
    DeviceCapacity,
    DeviceConstraint,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from kube.objects import Pod, Taint
from kube.quantities import exact


class PlacedPod(NamedTuple):
    """A newly placed member, its node, and the devices that its claims get."""

    pod: Pod
    node: str
    allocations: tuple[ClaimAllocation, ...]


def faults(placed: Sequence[PlacedPod], gone: Collection[str], devices: Devices) -> Iterator[str]:
    """Yield one message for each fault in the devices of a plan; nothing if all allocations are valid.

    `gone`: the pods whose devices count as free, the plan's victims included, as `namespace/name`.
    """
    shared: dict[str, str] = {}
    for each in placed:
        for allocation in each.allocations:
            if allocation.node != each.node:
                yield f"{each.pod.key} gets devices of {allocation.node} on {each.node}"
            if allocation.name and not allocation.pod_claim:
                shared[f"{allocation.namespace}/{allocation.name}"] = allocation.node
    for each in placed:
        yield from _faults_of_pod(each, shared, gone, devices)
    yield from _taken_twice(placed, gone, devices)


def _faults_of_pod(each: PlacedPod, shared: dict[str, str], gone: Collection[str], devices: Devices) -> Iterator[str]:
    by_entry = {allocation.pod_claim or allocation.name: allocation for allocation in each.allocations}
    for claim in devices.claims_of(each.pod):
        if _has_devices(claim, gone, devices):
            continue
        named = claim.claim is not None and not any(one.controller for one in claim.claim.metadata.owner_references)
        name = claim.claim.metadata.name if claim.claim is not None else ""
        allocation = by_entry.get(name if named else claim.entry)
        if allocation is None:
            if shared.get(f"{each.pod.metadata.namespace}/{name}") != each.node:
                yield f"{each.pod.key} gets no devices for {claim.entry}"
            continue
        spec = claim.claim.spec if claim.claim is not None else _spec(claim)
        yield from _faults_of_claim(spec, allocation, gone, devices)


def _spec(claim: PodClaim) -> ResourceClaimSpec:
    return claim.template.spec.spec if claim.template is not None else ResourceClaimSpec()


def _has_devices(claim: PodClaim, gone: Collection[str], devices: Devices) -> bool:
    """Whether the claim needs no devices from this plan: it keeps the devices that it has, or another plan gives it
    devices.
    """
    if claim.claim is None:
        return False
    if devices.planned_node(claim.claim):
        return True
    users = [f"{claim.claim.metadata.namespace}/{each.name}" for each in claim.claim.status.reserved_for]
    return claim.claim.status.allocation is not None and not (users and all(user in gone for user in users))


def _faults_of_claim(
    spec: ResourceClaimSpec, allocation: ClaimAllocation, gone: Collection[str], devices: Devices
) -> Iterator[str]:
    whose = f"{allocation.namespace}/{allocation.name or ','.join(allocation.pods)} {allocation.pod_claim}"
    got: defaultdict[str, list[AllocatedDevice]] = defaultdict(list)
    if any(each.device not in devices.inventory.positions for each in allocation.devices):
        yield f"{whose}: a device that is not on {allocation.node}, nor on any other node"
        return
    for each in allocation.devices:
        got[each.request].append(each)
    for request in spec.devices.requests:
        alternatives = list(_alternatives(request))
        used = [(name, one) for name, one in alternatives if got.get(name)]
        if len(used) != 1:
            yield f"{whose}: request {request.name} has devices of {len(used)} alternatives"
            continue
        ((name, one),) = used
        yield from (
            f"{whose}: {text}" for text in _faults_of_request(one, got.pop(name), allocation.node, gone, devices)
        )
    yield from (f"{whose}: devices for an unknown request {name}" for name in got)
    twice = Counter((each.device, each.request if each.shared else "") for each in allocation.devices)
    if any(count > 1 for count in twice.values()):
        yield f"{whose}: a device twice"
    for constraint in spec.devices.constraints:
        if not _meets(constraint, allocation.devices, devices):
            yield f"{whose}: {constraint.match_attribute or constraint.distinct_attribute} is violated"


def _alternatives(request: DeviceRequest) -> Iterator[tuple[str, ExactDeviceRequest]]:
    if request.exactly is not None:
        yield request.name, request.exactly
    for each in request.first_available:
        yield f"{request.name}/{each.name}", each


def _faults_of_request(
    request: ExactDeviceRequest, got: Sequence[AllocatedDevice], node: str, gone: Collection[str], devices: Devices
) -> Iterator[str]:
    inventory = devices.inventory
    on_node = {inventory.ids[position]: position for position in inventory.on(node)}
    if any(each.device not in on_node for each in got):
        yield f"a device that is not on {node}"
        return
    for each in got:
        content = _content(each, devices)
        taints = [Taint(key=one.key, value=one.value, effect=one.effect) for one in content.device.taints]
        if not _selects(request, content, devices) or untolerated(taints, request.tolerations) is not None:
            yield f"{each.device.device} does not match"
        if each.admin_access != request.admin_access:
            yield f"{each.device.device} has the wrong adminAccess"
        if not each.admin_access and _is_held(on_node[each.device], gone, devices):
            yield f"{each.device.device} has another holder"
        yield from _faults_of_capacity(request, each, content.device)
    if request.allocation_mode == "All":
        contents = [inventory.content_at(position) for position in on_node.values()]
        every = sum(_selects(request, one, devices) and _suffices(request, one.device) for one in contents)
        if len(got) != every or node in inventory.incomplete:
            yield "not all devices"
    elif len(got) != request.count:
        yield f"{len(got)} devices, not {request.count}"


def _faults_of_capacity(request: ExactDeviceRequest, got: AllocatedDevice, device: Device) -> Iterator[str]:
    """Yield the faults of the amounts that a request consumes of one device."""
    name = got.device.device
    if got.shared != device.allow_multiple_allocations:
        yield f"{name} is {'' if got.shared else 'not '}shared, in conflict with its slice"
    if not _suffices(request, device):
        yield f"{name} lacks the capacity"
        return
    amounts = {capacity: exact(amount) for capacity, amount in got.consumed}
    if amounts.keys() != (device.capacity.keys() if got.shared else set()):
        yield f"{name}: consumes other capacities than the device has"
        return
    wanted = request.capacity.requests if request.capacity is not None else {}
    for capacity, amount in amounts.items():
        if not _is_due(amount, wanted.get(capacity), device.capacity[capacity]):
            yield f"{name}: {amount} of {capacity} is not what the request consumes"


def _suffices(request: ExactDeviceRequest, device: Device) -> bool:
    """Return whether the device has the capacities in the request, and its policies allow large enough amounts."""
    wanted = request.capacity.requests if request.capacity is not None else {}
    for name, amount in wanted.items():
        capacity = device.capacity.get(name)
        if capacity is None:
            return False
        most = exact(capacity.value)
        policy = capacity.request_policy
        if policy is not None and policy.valid_range is not None:
            valid = policy.valid_range
            most = min(most, exact(valid.max)) if valid.max is not None else most
            if valid.step is not None and exact(valid.step):
                most -= (most - exact(valid.min)) % exact(valid.step)
            most = most if exact(valid.min) <= most else Decimal(-1)
        elif policy is not None and policy.valid_values:
            most = max((one for one in map(exact, policy.valid_values) if one <= most), default=Decimal(-1))
        if exact(amount) > most:
            return False
    return True


def _is_due(amount: Decimal, wanted: str | float | None, capacity: DeviceCapacity) -> bool:
    """Return whether `amount` is what a request for `wanted` consumes of the capacity: the smallest amount that the
    capacity's policy allows and that is not smaller than `wanted`.

    `wanted`: None if the request does not name the capacity.
    """
    policy = capacity.request_policy
    if wanted is None:
        return amount == exact(capacity.value if policy is None or policy.default is None else policy.default)
    least = exact(wanted)
    if policy is not None and policy.valid_range is not None:
        start, step = exact(policy.valid_range.min), exact(policy.valid_range.step or 0)
        if amount == max(least, start):
            return not step or (amount - start) % step == 0
        return bool(step) and amount > least and (amount - start) % step == 0 and amount - step < least
    if policy is not None and policy.valid_values:
        valid = [exact(each) for each in policy.valid_values]
        return amount in valid and amount >= least and not any(least <= each < amount for each in valid)
    return amount == least


def _selects(request: ExactDeviceRequest, content: Content, devices: Devices) -> bool:
    selectors = (*devices.classes[request.device_class_name].spec.selectors, *request.selectors)
    return all(
        each.cel is not None and matches(each.cel.expression, content.device, content.driver) for each in selectors
    )


def _content(each: AllocatedDevice, devices: Devices) -> Content:
    return devices.inventory.content_at(devices.inventory.positions[each.device])


def _is_held(position: int, gone: Collection[str], devices: Devices) -> bool:
    """Whether the device is allocated to a claim of a pod that is not evicted (not in `gone`), or to a claim without
    pods.
    """
    return any(not all(pod in gone for pod in use.consumers) for use in devices.uses_at(position))


def _meets(constraint: DeviceConstraint, got: Iterable[AllocatedDevice], devices: Devices) -> bool:
    attribute = constraint.match_attribute or constraint.distinct_attribute
    domain, _, name = attribute.partition("/")
    values = []
    for each in got:
        if constraint.requests and not {each.request, each.request.partition("/")[0]} & set(constraint.requests):
            continue
        content = _content(each, devices)
        own = content.device.attributes.get(name) if domain == content.driver else None
        values.append(content.device.attributes.get(attribute, own))
    if None in values:
        return False
    return len(set(values)) == len(values) if constraint.distinct_attribute else len(set(values)) <= 1


def _taken_twice(placed: Sequence[PlacedPod], gone: Collection[str], devices: Devices) -> Iterator[str]:
    """Yield one fault for each device that several claims of the plan get, and for each capacity or counter that the
    plan overdraws.
    """
    known = devices.inventory.positions
    every = [each for one in placed for allocation in one.allocations for each in allocation.devices]
    every = [each for each in every if not each.admin_access and each.device in known]
    taken = Counter(each.device for each in every if not each.shared)
    yield from (
        f"{device.device} of {device.pool} is given {count} times" for device, count in taken.items() if count > 1
    )
    shares = {devices.inventory.ids[at]: dict(amounts) for at, amounts in devices.shares(gone).items()}
    for each in every:
        if each.shared:
            amounts = shares.setdefault(each.device, {})
            for name, amount in each.consumed:
                amounts[name] = amounts.get(name, Decimal(0)) + exact(amount)
    for device in {each.device for each in every if each.shared}:
        for name, capacity in devices.inventory.content_at(known[device]).device.capacity.items():
            if shares[device].get(name, Decimal(0)) > exact(capacity.value):
                yield f"{name} of {device.device} in pool {device.pool} is overdrawn"
    yield from _counters_overdrawn({each.device for each in every}, {*taken, *shares}, gone, devices)


def _counters_overdrawn(
    given: Collection[DeviceId], taken: Collection[DeviceId], gone: Collection[str], devices: Devices
) -> Iterator[str]:
    """Yield one fault for each overdrawn counter in the pools of the devices that the plan gives to claims (`given`).

    `taken`: the devices that the plan takes or that claims share. A device consumes its counters only once.
    """
    inventory = devices.inventory
    contents = ((each, inventory.content_at(inventory.positions[each])) for each in given)
    for driver, pool in {(each.driver, each.pool) for each, one in contents if one.device.consumes_counters}:
        used: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for position, identity in enumerate(inventory.ids):
            if (identity.driver, identity.pool) != (driver, pool):
                continue
            if identity not in taken and not _is_held(position, gone, devices):
                continue
            for consumed in inventory.content_at(position).device.consumes_counters:
                for name, counter in consumed.counters.items():
                    used[consumed.counter_set, name] += exact(counter.value)
        for one_set, counters in inventory.counters[driver, pool].items():
            for name, most in counters.items():
                if used[one_set, name] > most:
                    yield f"counter {name} of {one_set} in pool {pool} is overdrawn"
