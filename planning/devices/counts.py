"""Counts the devices of a domain that match what the members of a gang need. The message of a rejection names the
counts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cluster.devices.claims import Devices
from planning.devices.by_number import MOST_KINDS, limiting_sets
from planning.devices.columns import DeviceColumns
from planning.devices.demands import Kind, NotPlannedError, PodDemand, Request, requests_of
from planning.devices.kinds import accepted, selected


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """The number of devices of one device kind in one domain, or of several device kinds that have devices in common.

    `devices`: the DeviceClasses and selectors of the kinds, as `devices of …`. `requests`: the names of the requests
    for these kinds in the members' claims. `constraints`: the attributes by which constraints of the claims tie the
    devices of these requests together. `matching`: how many devices of the domain match. `free`: how many of the
    matching devices are not allocated. `needed`: how many devices the members that must run together need at least.
    """

    devices: str
    matching: int
    free: int
    needed: int
    requests: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """How many more free devices the members need at least; 0 if the free devices may suffice."""
        return max(0, self.needed - self.free)


def counts_in(nodes: Collection[str], columns: DeviceColumns, members: int) -> tuple[DeviceCount, ...]:
    """Return the numbers of devices on these nodes: for each device kind, and for kinds with common devices together.

    Example: four devices are of one kind, and two of them are of a second kind, too. Then both kinds together have four
    devices. `members`: the number of members that must run together. Requests that only observe devices are left out.
    The result is empty if several claims may share a device, because a number of devices then says little.
    """
    if columns.shares_devices:
        return ()
    demands = list(columns.demands.values())
    by_kind: dict[Kind, list[Request]] = {}
    for request in requests_of(demands):
        if not request.admin:
            by_kind.setdefault(request.kind, []).append(request)
    kinds, inventory, there = list(by_kind), columns.devices.inventory, columns.on(nodes)
    flags = [accepted(kind, inventory) for kind in kinds]
    joint = limiting_sets(flags) if 1 < len(kinds) <= MOST_KINDS else []
    found = []
    for places in (*((place,) for place in range(len(kinds))), *(each for each in joint if len(each) > 1)):
        some = [kinds[place] for place in places]
        matching = np.logical_or.reduce([flags[place] for place in places])[inventory.content] & there
        requests = [request for kind in some for request in by_kind[kind]]
        found.append(
            DeviceCount(
                devices=f"devices of {' or '.join(dict.fromkeys(kind.label for kind in some))}",
                matching=int(matching.sum()),
                free=int((matching & columns.free).sum()),
                needed=sum(sorted(_needed(demand, some) for demand in demands)[:members]),
                requests=tuple(dict.fromkeys(request.name for request in requests)),
                constraints=_constraints(demands, requests),
            )
        )
    return tuple(found)


def devices_of_each(columns: DeviceColumns, members: int) -> str:
    """Return the devices that every unbound member needs, such as `2 devices of gpu.example.com`, for messages.

    If the devices of a claim must have an equal value of an attribute, or different values, the text says so. "" if the
    members need no devices, or different ones. `members`: the number of unbound members.
    """
    demands = list({id(each): each for each in columns.demands.values()}.values())
    if len(columns.demands) < members:
        return ""
    requests = [request for request in requests_of(demands) if not request.admin]
    every = dict.fromkeys(request.kind for request in requests)
    texts = {_text({kind: _needed(demand, [kind]) for kind in every}) for demand in demands}
    tied = _constraints(demands, requests)
    with_constraints = f" with {' and '.join(tied)} in each claim" if tied else ""
    return texts.pop() + with_constraints if len(texts) == 1 else ""


def _text(amounts: Mapping[Kind, int]) -> str:
    parts = [
        f"{count} {'device' if count == 1 else 'devices'} of {kind.label}" for kind, count in amounts.items() if count
    ]
    return " and ".join(parts)


def _needed(demand: PodDemand, kinds: Collection[Kind]) -> int:
    """Return how many devices of these kinds a pod needs at least. A request for all devices counts as one device.

    A request with alternatives counts only if all alternatives are of these kinds.
    """
    return sum(
        min(0 if each.admin or each.kind not in kinds else max(1, each.count) for each in alternatives)
        for claim in demand.claims
        for alternatives in claim.asked.requests
    )


def _constraints(demands: Iterable[PodDemand], requests: Sequence[Request]) -> tuple[str, ...]:
    found = (
        f"{'different' if each.distinct else 'equal'} {each.attribute}"
        for demand in demands
        for claim in demand.claims
        for each in claim.asked.constraints
        if any(each.concerns(request) for request in requests)
    )
    return tuple(dict.fromkeys(found))


class ClassCount(NamedTuple):
    """How many devices of the cluster match the selectors of a DeviceClass, by state.

    `held`: the devices that are allocated to claims of members that are not released. `used`: the devices that are
    allocated to all other claims. A device may match several classes. A device that claims share is used if one of its
    claims is of a released pod, and held if it has other claims only.
    """

    name: str
    free: int
    held: int
    used: int


def class_counts(devices: Devices, gated: Collection[str], most: int) -> list[ClassCount]:
    """Return the numbers of devices for the first `most` DeviceClasses, in the order of their names.

    A DeviceClass is left out if one of its selectors cannot be evaluated, or fails for a device.

    :param gated: the members that are not released, as `namespace/name`.
    """
    held, used = np.zeros(len(devices.holders), dtype=np.bool_), np.zeros(len(devices.holders), dtype=np.bool_)
    for use in devices.uses:
        flags = held if all(pod in gated for pod in use.consumers) else used
        flags[[*use.positions, *(position for position, _ in use.shares)]] = True
    found = list[ClassCount]()
    for name, one in sorted(devices.classes.items())[:most]:
        expressions = tuple(each.cel.expression for each in one.spec.selectors if each.cel is not None)
        try:
            matching = selected(Kind(expressions, (), name), devices.inventory)[devices.inventory.content]
        except NotPlannedError:
            continue
        numbers = (matching & ~(held | used), matching & held & ~used, matching & used)
        found.append(ClassCount(name, *(int(each.sum()) for each in numbers)))
    return found


def short(counts: Iterable[DeviceCount]) -> list[DeviceCount]:
    """Return the counts of device kinds with fewer free devices than the members need."""
    return [each for each in counts if each.missing]
