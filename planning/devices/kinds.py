"""Which devices a request accepts, evaluated once for each distinct content of devices."""

import numpy as np

from cluster.devices.capacity import consumed
from cluster.devices.inventory import NOWHERE, Flags, Inventory
from cluster.devices.selectors import SelectorError, check, matches
from cluster.eligibility.taints import untolerated
from kube.objects import Taint
from planning.devices.demands import Kind, NotPlannedError, Request

_SELECTED, _SHAREABLE = "selected", "shareable"
"""Keys in `Inventory.flags`: part of the key of flags that ignore taints, and the key of `shareable`."""


def selected(kind: Kind, inventory: Inventory) -> Flags:
    """Return, for each content of the inventory, whether it matches the selectors of the kind and has the capacity that
    the request asks for. The result is cached, so it must not be changed.

    Raises `NotPlannedError` if a selector cannot be evaluated, or fails for a device that all earlier selectors match.
    """
    key = kind.selectors, kind.capacity, _SELECTED
    if key not in inventory.flags:
        found = np.zeros(len(inventory.contents), dtype=np.bool_)
        try:
            for expression in kind.selectors:
                check(expression)
            for place, content in enumerate(inventory.contents):
                found[place] = all(matches(each, content.device, content.driver) for each in kind.selectors)
                if found[place] and (kind.capacity or content.device.allow_multiple_allocations):
                    found[place] = consumed(content.device, dict(kind.capacity)) is not None
        except SelectorError as error:
            raise NotPlannedError(str(error)) from None
        inventory.flags[key] = found
    return inventory.flags[key]


def accepted(kind: Kind, inventory: Inventory) -> Flags:
    """Return, for each content of the inventory, whether a request of this kind can get such a device: the kind selects
    it, and tolerates its taints. The result is cached, so it must not be changed.

    Raises `NotPlannedError` if a selector cannot be evaluated, or fails for a device that all earlier selectors match.
    """
    key = kind.selectors, kind.capacity, kind.tolerations
    if key not in inventory.flags:
        found = selected(kind, inventory).copy()
        for place in np.flatnonzero(found).tolist():
            taints = inventory.contents[place].device.taints
            as_of_nodes = [Taint(key=each.key, value=each.value, effect=each.effect) for each in taints]
            found[place] = untolerated(as_of_nodes, kind.tolerations) is None
        inventory.flags[key] = found
    return inventory.flags[key]


def check_planned(request: Request, inventory: Inventory) -> None:
    """Raise `NotPlannedError` if the request accepts devices that Phalanx does not plan."""
    kind = request.kind
    found = accepted(kind, inventory)
    for place in np.flatnonzero(found).tolist():
        device = inventory.contents[place].device
        if device.allow_multiple_allocations and request.admin:
            raise NotPlannedError(f"adminAccess to devices that several claims share ({kind.label})")
        if device.binding_conditions:
            raise NotPlannedError(f"devices with binding conditions ({kind.label})")
    if request.admin and shares_counters(request, inventory):
        raise NotPlannedError(f"adminAccess to devices that share counters ({kind.label})")
    if found[inventory.content[inventory.in_spread_pool]].any():
        raise NotPlannedError(f"devices that share counters with devices of other nodes ({kind.label})")
    if found[inventory.content[inventory.node == NOWHERE]].any():
        raise NotPlannedError(f"devices that are not on one node ({kind.label})")


def shares_devices(request: Request, inventory: Inventory) -> bool:
    """Return whether the request accepts devices that several claims can share."""
    return bool((accepted(request.kind, inventory) & shareable(inventory)).any())


def shareable(inventory: Inventory) -> Flags:
    """Return, for each content of the inventory, whether several claims can share such a device. The result is cached,
    so it must not be changed.
    """
    if _SHAREABLE not in inventory.flags:
        every = [each.device.allow_multiple_allocations for each in inventory.contents]
        inventory.flags[_SHAREABLE] = np.array(every, dtype=np.bool_)
    return inventory.flags[_SHAREABLE]


def shares_counters(request: Request, inventory: Inventory) -> bool:
    """Return whether the request accepts devices that consume counters of their pool."""
    found = accepted(request.kind, inventory)
    return any(inventory.contents[place].device.consumes_counters for place in np.flatnonzero(found).tolist())
