"""Which devices are allocated to which claims, and which DeviceTaintRules taint devices. The controller reads this
before it allocates devices.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cluster.devices.allocation import DeviceId
from cluster.devices.capacity import Amounts, exceeds, total
from cluster.devices.extended_resources import classes_by_resource
from cluster.devices.partitions import NO_PARTITIONS, Partitions
from kube.devices import DeviceClass, DeviceRequestAllocationResult, DeviceTaintRule, ResourceClaim
from kube.keys import DEVICE_RULE, SYSTEM_NAMESPACE, TAKING
from kube.quantities import exact

CLAIMS_PATH = "/apis/resource.k8s.io/v1/resourceclaims"
"""The API path of the ResourceClaims of all namespaces. Kubernetes 1.34 and later serve it."""
SLICES_PATH = "/apis/resource.k8s.io/v1/resourceslices"
"""The API path of ResourceSlices. Kubernetes 1.34 and later serve it."""
RULES_PATH = "/apis/resource.k8s.io/v1/devicetaintrules"
"""The API path of DeviceTaintRules. Kubernetes 1.37 and later serve it."""


@dataclass(frozen=True)
class DeviceView:
    """The claims, taint rules and DeviceClasses of the cluster at one instant.

    `known`: whether the claims have been read; until then nothing is known about devices. `taints`: whether the API
    server serves DeviceTaintRules.
    """

    claims: tuple[ResourceClaim, ...] = ()
    rules: tuple[DeviceTaintRule, ...] = ()
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    known: bool = False
    taints: bool = False
    partitions: Partitions = NO_PARTITIONS

    @cached_property
    def by_key(self) -> Mapping[str, ResourceClaim]:
        """The claims by `namespace/name`."""
        return {claim.key: claim for claim in self.claims}

    @cached_property
    def by_resource(self) -> Mapping[str, str]:
        """By extended resource, the name of the DeviceClass that provides it (`spec.extendedResourceName`)."""
        return classes_by_resource(self.classes.values())

    @cached_property
    def of_probes(self) -> tuple[ResourceClaim, ...]:
        """The claims in Phalanx's own namespace. The claims of probes are among them."""
        return tuple(claim for claim in self.claims if claim.metadata.namespace == SYSTEM_NAMESPACE)

    @cached_property
    def holders(self) -> Mapping[DeviceId, tuple[ResourceClaim, ...]]:
        """By device: the allocated claims that have it for themselves. More than one is a double allocation."""
        found = defaultdict[DeviceId, list[ResourceClaim]](list)
        for claim in self.claims:
            for device in devices_of_claim(claim):
                if not device.admin_access and not device.share_id:
                    found[device_id(device)].append(claim)
        return {device: tuple(claims) for device, claims in found.items()}

    @cached_property
    def sharers(self) -> Mapping[DeviceId, tuple[tuple[ResourceClaim, Amounts], ...]]:
        """By device: the allocated claims that share it, each with the amounts of capacity that it consumes.

        A claim that has several shares of a device has one entry for each share.
        """
        found = defaultdict[DeviceId, list[tuple[ResourceClaim, Amounts]]](list)
        for claim in self.claims:
            for device in devices_of_claim(claim):
                if not device.admin_access and device.share_id:
                    found[device_id(device)].append((claim, amounts_of(device)))
        return {device: tuple(shares) for device, shares in found.items()}

    @cached_property
    def users(self) -> Mapping[DeviceId, tuple[ResourceClaim, ...]]:
        """By device: the allocated claims that have it for themselves or share it, each once."""
        found = defaultdict[DeviceId, dict[str, ResourceClaim]](dict)
        for device, claims in self.holders.items():
            found[device] |= {claim.key: claim for claim in claims}
        for device, shares in self.sharers.items():
            found[device] |= {claim.key: claim for claim, _ in shares}
        return {device: tuple(claims.values()) for device, claims in found.items()}

    def has_room(self, device: DeviceId, amounts: Amounts | None) -> bool:
        """Return whether the scheduler could allocate the device to one more claim, as far as claims show.

        :param amounts: what the claim would consume of the capacities of a shared device; None if the claim would have
            the device for itself.
        """
        if device in self.holders:
            return False
        if amounts is None:
            return device not in self.sharers
        consumed = (each for _, each in self.sharers.get(device, ()))
        return not exceeds(total((*consumed, amounts)), self.partitions.shared_capacity.get(device, {}))

    @cached_property
    def by_consumer(self) -> Mapping[str, tuple[ResourceClaim, ...]]:
        """By UID of a pod: the allocated claims that are reserved for it."""
        found = defaultdict[str, list[ResourceClaim]](list)
        for claim in self.claims:
            if claim.status.allocation is not None:
                for uid in consumers(claim):
                    found[uid].append(claim)
        return {uid: tuple(claims) for uid, claims in found.items()}

    def held_for(self, uids: Collection[str]) -> tuple[ResourceClaim, ...]:
        """Return the allocated claims that are reserved for any of these pods, each once, in the order of names."""
        found = {claim.key: claim for uid in uids for claim in self.by_consumer.get(uid, ())}
        return tuple(found[key] for key in sorted(found))


NO_DEVICES = DeviceView()
"""The view of a cluster in which no DeviceClass exists."""


def without_taking(rules: Iterable[DeviceTaintRule]) -> tuple[DeviceTaintRule, ...]:
    """Return the taint rules that planning considers: all except those by which the controller keeps the devices of
    plans in force for itself.

    The plans in force themselves say which devices they take.
    """
    return tuple(each for each in rules if each.metadata.labels.get(DEVICE_RULE) != TAKING)


def devices_of_claim(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the devices of the claim; empty if it is not allocated."""
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def device_id(result: DeviceRequestAllocationResult) -> DeviceId:
    """Return the identity of an allocated device."""
    return DeviceId(result.driver, result.pool, result.device)


def amounts_of(result: DeviceRequestAllocationResult) -> Amounts:
    """Return the amounts of capacity that an allocated share consumes; empty if the device is not shared."""
    return {name: exact(amount) for name, amount in result.consumed_capacity.items()}


def consumers(claim: ResourceClaim) -> frozenset[str]:
    """Return the UIDs of the pods that the claim is reserved for."""
    return frozenset(each.uid for each in claim.status.reserved_for)
