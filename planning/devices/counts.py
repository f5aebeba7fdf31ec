"""How many devices match what a gang asks for in a domain, for the explanation of a rejection."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from planning.devices.columns import DeviceColumns


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """Devices of one resource of `DeviceColumns` in one domain.

    `devices`: the resource's name. `matching`: all devices there that match. `free`: the matching devices that are not
    allocated. `needed`: how many the members need at least that must run together.
    """

    devices: str
    matching: int
    free: int
    needed: int


def counts_in(nodes: Collection[str], columns: DeviceColumns, members: int) -> tuple[DeviceCount, ...]:
    """Return the numbers of devices on these nodes, for each resource. `members`: how many must run together.

    The result is empty if several claims may share a device: then a number of devices says little.
    """
    if columns.shares_devices:
        return ()
    found, there = [], columns.on(nodes)
    for name in columns.names:
        matching = columns.matching[name] & there
        asked = sorted(each[name] for each in columns.asked.values())
        found.append(DeviceCount(name, int(matching.sum()), int((matching & columns.free).sum()), sum(asked[:members])))
    return tuple(found)


def short(counts: Iterable[DeviceCount]) -> list[DeviceCount]:
    """Return the resources of which fewer devices are free than needed."""
    return [each for each in counts if each.free < each.needed]
