"""Which devices each member of a plan gets: an exact choice by search, after the solver has chosen the nodes."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation
from cluster.devices.capacity import Amounts, consumed, written
from cluster.devices.inventory import Flags, Inventory
from planning.devices.columns import DeviceColumns, freed
from planning.devices.demands import ClaimDemand, NotPlannedError, Request
from planning.devices.fewest_domains import Claims, Fewest, FewestDomains
from planning.devices.kinds import accepted
from planning.devices.node_search import NOT_SELECTED, Choice, NodeSearch, node_devices

Allocations = dict[str, tuple[ClaimAllocation, ...]]
"""The devices of members' claims, by the pod's `namespace/name`."""


class AllotmentError(Exception):
    """No devices are found on a node for the members that the plan puts there.

    Such devices exist, because the solver has counted them exactly. But the search for them may take too long.
    """


def allotted(placed: Iterable[tuple[str, str]], victims: Collection[str], columns: DeviceColumns) -> Allocations:
    """Return the allocations of the claims of newly placed members.

    `placed`: these members in the order of rank, each as `namespace/name` with its node. `victims`: the evicted pods.
    The choice is the same for the same input: members in their order get the preferred alternatives and the first
    devices that leave enough for the other members. Raises `AllotmentError`.
    """
    by_node: dict[str, list[str]] = {}
    for pod, node in placed:
        if pod in columns.demands:
            by_node.setdefault(node, []).append(pod)
    free = columns.free.copy()
    free[list(freed(frozenset(victims), columns.devices, columns.gone))] = True
    used = columns.devices.shares(columns.gone.union(victims)) if columns.used else columns.used
    found: Allocations = {}
    for node, pods in by_node.items():
        found |= _on(node, pods, free, used, columns)
    return found


def _on(
    node: str, pods: Sequence[str], free: Flags, used: Mapping[int, Amounts], columns: DeviceColumns
) -> Allocations:
    """Return the allocations of the pods on one node.

    `free`: which devices of the inventory no claim has for itself. `used`: for each device that claims share, the
    amounts of its capacities that they consume.
    """
    claims = [(pod, claim) for pod in pods for claim in columns.demands[pod].claims]
    demands = [claim for _, claim in claims]
    found_few = fewest_on(node, pods, free, used, columns) if columns.below else None
    chosen = _chosen(node, demands, free, used, columns) if found_few is None else found_few.choices
    found: Allocations = dict.fromkeys(pods, ())
    for (pod, claim), devices in zip(claims, chosen, strict=True):
        got = tuple(_allocated(request, position, columns.devices.inventory) for request, position in devices)
        users = columns.users.get(claim.shared_as, (pod,)) if claim.shared_as else (pod,)
        names = tuple(each.partition("/")[2] for each in users)
        allocation = ClaimAllocation(claim.namespace, claim.name, node, got, names, claim.entry)
        found[pod] = (*found[pod], allocation)
    return found


def _allocated(request: Request, position: int, inventory: Inventory) -> AllocatedDevice:
    """Return the device at this position of the inventory as one entry of a claim's allocation, for this request."""
    identity, device = inventory.ids[position], inventory.content_at(position).device
    if not device.allow_multiple_allocations:
        return AllocatedDevice(request.name, identity, admin_access=request.admin)
    amounts = consumed(device, dict(request.kind.capacity)) or {}
    return AllocatedDevice(request.name, identity, shared=True, consumed=written(amounts))


def fewest_on(
    node: str, pods: Sequence[str], free: Flags, used: Mapping[int, Amounts], columns: DeviceColumns
) -> Fewest | None:
    """Return devices for the claims of these pods on one node, in the fewest domains of the levels below the node.

    None if the free devices do not suffice. The domains of several gangs are counted as if all pods were of one gang.
    """
    claims = [(pod, claim) for pod in pods for claim in columns.demands[pod].claims]
    inventory = columns.devices.inventory
    here = inventory.on(node)
    held = [position for position in held_by_gangs(pods, columns) if position in here]

    def serve(some: Flags, bound: Claims) -> list[Choice] | None:
        demands = [claim for _, claim in bound]
        search.cut_off |= bool(inventory.counters) and any(map(_asks_for_all, demands))
        try:
            return _chosen(node, demands, free, used, columns, among=some)
        except AllotmentError as error:
            search.cut_off |= error.__cause__ is not None
            search.long += error.__cause__ is not None
            return None

    search = FewestDomains(node, claims, held, columns.below, inventory, serve)
    return search.search(free)


def held_by_gangs(pods: Iterable[str], columns: DeviceColumns) -> list[int]:
    """Return the devices that are allocated to running members of the gangs to which these pods belong, as positions in
    the inventory.
    """
    gangs = {columns.gang_of[pod] for pod in pods}
    running = [pod for pod, gang in columns.gang_of.items() if gang in gangs and pod not in columns.gone]
    return devices_of_pods(running, columns)


def devices_of_pods(pods: Iterable[str], columns: DeviceColumns) -> list[int]:
    """Return the devices that are allocated to claims of these pods (`namespace/name`), as positions in the
    inventory.
    """
    devices = columns.devices
    uses = dict.fromkeys(place for pod in pods for place in devices.uses_of.get(pod, ()))
    return [position for place in uses for position in devices.uses[place].positions]


def _asks_for_all(claim: ClaimDemand) -> bool:
    return any(one.every for alternatives in claim.asked.requests for one in alternatives)


def _chosen(
    node: str,
    claims: Sequence[ClaimDemand],
    free: Flags,
    used: Mapping[int, Amounts],
    columns: DeviceColumns,
    *,
    among: Flags | None = None,
) -> list[Choice]:
    """Choose devices for each claim, all on one node, and return them by claim. Raises `AllotmentError` if none are
    found.

    `among`: the free devices that the claims may get; None: all free devices.
    """
    offered = free if among is None else among
    if columns.profiles is None and all(each.asked.by_number for each in claims):
        return _by_number(node, claims, offered, columns)
    inventory, alike = columns.devices.inventory, columns.alike
    if among is not None and inventory.counters and not any(map(_asks_for_all, claims)):
        # Devices that are not `among` must still count as free, because a device that is not free consumes counters. So
        # only their contents are left out.
        others = [each for each in inventory.on(node) if free[each] and not among[each]]
        offered, alike = free, alike.copy()
        alike[inventory.content[others]] = NOT_SELECTED
    search = NodeSearch(inventory, node_devices(node, inventory, offered, used, alike))
    try:
        found = search.choose([each.asked for each in claims])
    except NotPlannedError as error:
        raise AllotmentError(node) from error
    if found is None:
        raise AllotmentError(node)
    return found


def _by_number(node: str, claims: Sequence[ClaimDemand], free: Flags, columns: DeviceColumns) -> list[Choice]:
    """Return free devices of one node for claims without constraints or alternatives, by bipartite matching: each claim
    needs numbers of devices only. Raises `AllotmentError` if the devices do not suffice.
    """
    inventory = columns.devices.inventory
    slots = [
        (place, request)
        for place, claim in enumerate(claims)
        for (request,) in claim.asked.requests
        for _ in range(request.count)
    ]
    here = [position for position in inventory.on(node) if free[position]]
    contents = inventory.content[here].tolist()
    flags = {request.kind: accepted(request.kind, inventory) for _, request in slots}
    candidates = [
        [position for position, content in zip(here, contents, strict=True) if flags[request.kind][content]]
        for _, request in slots
    ]
    matched = _matched(candidates)
    if matched is None:
        raise AllotmentError(node)
    found: list[Choice] = [[] for _ in claims]
    for (place, request), position in zip(slots, matched, strict=True):
        found[place].append((request, position))
    return found


def _matched(candidates: Sequence[Sequence[int]]) -> list[int] | None:
    """Return a different device for each slot (a device that a claim still needs), from the slot's candidates (Kuhn's
    algorithm with augmenting paths).

    None if there is no such choice.
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
        return None
    by_slot = {slot: device for device, slot in holder.items()}
    return [by_slot[slot] for slot in range(len(candidates))]
