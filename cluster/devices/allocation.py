"""The devices that a ResourceClaim gets: the planner's choice, and the form in which a claim's `status.allocation`
stores it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from kube.quantities import exact


class DeviceId(NamedTuple):
    """The identity of a device in the cluster: its driver, the name of its pool, and its name within the pool."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device that a claim gets.

    `request`: the name of the request in the claim's `spec.devices.requests`, as the API server writes it in
    `status.allocation.devices.results` ("gpu", or "gpu/large" for a subrequest of `firstAvailable`). `admin_access`:
    the device is shared for administration, so other claims can still get it.

    `shared`: the claim gets a share of a device that several claims can use (`allowMultipleAllocations`). `consumed`:
    the amounts that the share consumes of the device's capacities: names and quantities, in the order of names.
    """

    request: str
    device: DeviceId
    admin_access: bool = False
    shared: bool = False
    consumed: tuple[tuple[str, str], ...] = ()

    @property
    def amounts(self) -> Mapping[str, Decimal]:
        """The consumed amounts, by the name of the capacity. Empty if the device is not shared."""
        return {name: exact(amount) for name, amount in self.consumed}


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """The devices of one claim, all usable on one node.

    `namespace` and `name`: the claim's. The name is "" as long as the claim of a template does not exist.
    `pod_claim`: for a claim of a template, the name of the entry in the pod's `spec.resourceClaims`; else "".
    `pods`: the names of the members that use the claim; several only for a claim that they share.
    """

    namespace: str
    name: str
    node: str
    devices: tuple[AllocatedDevice, ...]
    pods: tuple[str, ...]
    pod_claim: str = ""
