"""Which devices each member of a plan gets: an exact choice by matching, after the solver has chosen the nodes."""

from collections.abc import Iterable, Sequence

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation
from cluster.devices.claims import Devices
from cluster.devices.inventory import Flags
from planning.devices.columns import DeviceColumns, freed
from planning.devices.demands import ClaimDemand, accepting


class AllotmentError(Exception):
    """The devices of a node do not suffice for the members that the plan puts there, which the columns rule out."""


def allotted(
    placed: Iterable[tuple[str, str]], victims: Iterable[str], columns: DeviceColumns
) -> dict[str, tuple[ClaimAllocation, ...]]:
    """Return the allocations of each pod's claims, by the pod's `namespace/name`.

    `placed`: the newly placed members in the order of rank, each as `namespace/name` with its node. `victims`: the
    evicted pods. The choice is the same for the same input: members in their order get the first devices in the
    inventory's order that leave enough for the other members. Raises `AllotmentError`.
    """
    by_node: dict[str, list[str]] = {}
    devices = columns.devices
    for pod, node in placed:
        if pod in columns.demands:
            by_node.setdefault(node, []).append(pod)
    free = columns.free.copy()
    for victim in victims:
        free[list(freed(victim, devices, columns.gone))] = True
    return {
        pod: each for node, pods in by_node.items() for pod, each in _on(node, pods, free, columns, devices).items()
    }


def _on(
    node: str, pods: Sequence[str], free: Flags, columns: DeviceColumns, devices: Devices
) -> dict[str, tuple[ClaimAllocation, ...]]:
    """Return the allocations of the pods on one node. `free`: the devices of the inventory that they may get."""
    claims = [(pod, claim) for pod in pods for claim in columns.demands[pod].claims]
    slots = [
        (place, request)
        for place, (_, claim) in enumerate(claims)
        for request in claim.requests
        for _ in range(request.count)
    ]
    inventory = devices.inventory
    here = [position for position in inventory.on(node) if free[position]]
    contents = inventory.content[here].tolist()
    every = list(inventory.on(node))
    accepted = {request.kind: accepting(request.kind, inventory) for _, request in slots}
    candidates = [
        [position for position, content in zip(here, contents, strict=True) if accepted[request.kind][content]]
        for _, request in slots
        if not request.admin
    ]
    chosen = iter(_matched(candidates))
    given: list[list[AllocatedDevice]] = [[] for _ in claims]
    for place, request in slots:
        if not request.admin:
            given[place].append(AllocatedDevice(request.name, inventory.ids[next(chosen)]))
    for place, (_, claim) in enumerate(claims):
        given[place] += _observed(claim, every, devices)
    found: dict[str, tuple[ClaimAllocation, ...]] = dict.fromkeys(pods, ())
    for (pod, claim), got in zip(claims, given, strict=True):
        order = {request.name: place for place, request in enumerate(claim.requests)}
        got.sort(key=lambda each: order[each.request])
        name = pod.partition("/")[2]
        allocation = ClaimAllocation(claim.namespace, claim.name, node, tuple(got), (name,), claim.entry)
        found[pod] = (*found[pod], allocation)
    return found


def _observed(claim: ClaimDemand, every: Sequence[int], devices: Devices) -> list[AllocatedDevice]:
    """Return the devices that the claim's requests with `adminAccess` get. Others may have them, too."""
    found: list[AllocatedDevice] = []
    for request in claim.requests:
        if request.admin:
            accepted = accepting(request.kind, devices.inventory)
            there = [each for each in every if accepted[devices.inventory.content[each]]]
            if len(there) < request.count:
                raise AllotmentError(request.name)
            found += [
                AllocatedDevice(request.name, devices.inventory.ids[each], admin_access=True)
                for each in there[: request.count]
            ]
    return found


def _matched(candidates: Sequence[Sequence[int]]) -> list[int]:
    """Return a different device for each slot, from the slot's candidates (augmenting paths, Kuhn's algorithm).

    Raises `AllotmentError` if there is no such choice.
    """
    holder: dict[int, int] = {}

    def find(slot: int, seen: set[int]) -> bool:
        for device in candidates[slot]:
            if device not in holder:
                holder[device] = slot
                return True
        for device in candidates[slot]:
            if device not in seen:
                seen.add(device)
                if find(holder[device], seen):
                    holder[device] = slot
                    return True
        return False

    if not all(find(slot, set()) for slot in range(len(candidates))):
        raise AllotmentError
    by_slot = {slot: device for device, slot in holder.items()}
    return [by_slot[slot] for slot in range(len(candidates))]
