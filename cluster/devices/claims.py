"""The devices of a cluster, and the claims for them: which devices are allocated, and which pods use them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.capacity import Amounts
from cluster.devices.extended_resources import template_of
from cluster.devices.inventory import IntColumn, Inventory, inventory_of
from kube.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    claim_names,
)
from kube.objects import Pod
from kube.quantities import exact

_NOTHING = Decimal(0)
NO_POD = ""
"""The key of a consumer that is not a pod. The devices of its claim never become free."""


class DeviceObjects(NamedTuple):
    """The objects about devices of one cluster."""

    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()
    claims: Sequence[ResourceClaim] = ()
    templates: Sequence[ResourceClaimTemplate] = ()
    taint_rules: Sequence[DeviceTaintRule] = ()


class PodClaim(NamedTuple):
    """One entry of a pod's `spec.resourceClaims`.

    `entry`: its name. `claim`: the claim that the pod uses; None if it does not exist yet. `template`: the template
    from which the claim is created; None if the pod names a claim, or the template does not exist. `wanted`: what the
    pod waits for, such as "ResourceClaim gpu"; "" if it waits for neither.
    """

    entry: str
    claim: ResourceClaim | None = None
    template: ResourceClaimTemplate | None = None
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """The devices that are allocated to one claim. `consumers`: the pods that use the claim, as `namespace/name`, or
    `NO_POD`.

    `positions`: the devices that the claim takes for itself, as positions in the inventory. `shares`: the devices that
    it shares with other claims, each with the amounts of capacity that the claim consumes. Devices for administration,
    and devices that are in no slice any more, are left out.
    """

    claim: str
    consumers: tuple[str, ...]
    positions: tuple[int, ...]
    shares: tuple[tuple[int, Amounts], ...] = ()


@dataclass(frozen=True)
class Devices:
    """The devices, classes, claims and templates of a cluster at one instant. Claims and templates by `namespace/name`.

    `planned`: the devices that plans give to claims which are not allocated yet.
    """

    inventory: Inventory = field(default_factory=Inventory)
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    templates: Mapping[str, ResourceClaimTemplate] = field(default_factory=dict)
    planned: tuple[ClaimAllocation, ...] = ()

    def with_planned(self, allocations: Iterable[ClaimAllocation]) -> "Devices":
        """Return the devices with these allocations added to the planned ones."""
        added = tuple(allocations)
        return replace(self, planned=(*self.planned, *added)) if added else self

    @cached_property
    def emptied(self) -> "Devices":
        """The devices as if none were allocated to a claim."""
        claims = {
            key: ResourceClaim(metadata=each.metadata, spec=each.spec) if each.status.allocation else each
            for key, each in self.claims.items()
        }
        return replace(self, claims=claims, planned=())

    def claims_of(self, pod: Pod) -> list[PodClaim]:
        """Return the entries of the pod's `spec.resourceClaims`, with the objects that they name.

        The name of a claim that was created from a template is in the pod's status.
        """
        namespace, found = pod.metadata.namespace, list[PodClaim]()
        created = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        for entry, named, template in claim_names(pod.spec.resource_claims):
            name = named or created.get(entry, "")
            claim = self.claims.get(f"{namespace}/{name}") if name else None
            if claim is not None or named:
                found.append(PodClaim(entry, claim, wanted="" if claim is not None else f"ResourceClaim {named}"))
                continue
            source = self.templates.get(f"{namespace}/{template}")
            if source is None and (of_conversion := template_of(pod)) and of_conversion.metadata.name == template:
                source = of_conversion  # the controller creates it when the pod exists
            wanted = "" if source is not None else f"ResourceClaimTemplate {template}"
            found.append(PodClaim(entry, None, source, wanted))
        return found

    def planned_node(self, claim: ResourceClaim | None) -> str:
        """Return the node on which a plan gives devices to this claim; "" if none does."""
        return "" if claim is None or not self.planned else self._planned_nodes.get(claim.key, "")

    @cached_property
    def _planned_nodes(self) -> Mapping[str, str]:
        return {f"{each.namespace}/{each.name}": each.node for each in self.planned if each.name}

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """The devices of all allocated claims, and of the claims for which plans have devices."""
        allocated = (self._use(each) for each in self.claims.values() if each.status.allocation is not None)
        planned = (self._used(f"{each.namespace}/{each.name}", each.pods, each.devices) for each in self.planned)
        return (*allocated, *planned)

    def _use(self, claim: ResourceClaim) -> Use:
        namespace = claim.metadata.namespace
        consumers = tuple(
            f"{namespace}/{each.name}" if each.resource == "pods" and not each.api_group else NO_POD
            for each in claim.status.reserved_for
        )
        results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
        devices = (
            AllocatedDevice(
                each.request,
                DeviceId(each.driver, each.pool, each.device),
                each.admin_access,
                bool(each.share_id),
                tuple((name, str(amount)) for name, amount in each.consumed_capacity.items()),
            )
            for each in results
        )
        # A claim that no pod uses is never deallocated: it keeps its devices until it is deleted.
        return self._used(claim.key, consumers or (NO_POD,), devices)

    def _used(self, claim: str, consumers: tuple[str, ...], devices: Iterable[AllocatedDevice]) -> Use:
        positions, shares = list[int](), list[tuple[int, Amounts]]()
        for each in devices:
            position = self.inventory.positions.get(each.device)
            if position is None or each.admin_access:
                continue
            if each.shared:
                shares.append((position, {name: exact(amount) for name, amount in each.consumed}))
            else:
                positions.append(position)
        return Use(claim, consumers, tuple(positions), tuple(shares))

    @cached_property
    def holders(self) -> IntColumn:
        """By device of the inventory, the number of claims to which it is allocated exclusively."""
        found = np.zeros(len(self.inventory.ids), dtype=np.int64)
        np.add.at(found, [position for use in self.uses for position in use.positions], 1)
        return found

    def shares(self, gone: Collection[str], positions: Iterable[int] | None = None) -> Mapping[int, Amounts]:
        """Return the amounts that claims consume of the devices that they share, by position in the inventory.

        A device without an entry is not in use. `gone`: the pods that count as gone, as `namespace/name`. `positions`:
        the devices in question; None: all.
        """
        found: dict[int, Amounts] = {}
        for position in self._shares_by_device if positions is None else positions:
            for place, amounts in self._shares_by_device.get(position, ()):
                if not all(pod in gone for pod in self.uses[place].consumers):
                    known = found.get(position, {})
                    names = known.keys() | amounts.keys()
                    found[position] = {name: known.get(name, _NOTHING) + amounts.get(name, _NOTHING) for name in names}
        return found

    @cached_property
    def _shares_by_device(self) -> Mapping[int, Sequence[tuple[int, Amounts]]]:
        """By device, the positions in `uses` of the claims that share it, and what each consumes."""
        found: defaultdict[int, list[tuple[int, Amounts]]] = defaultdict(list)
        for place, use in enumerate(self.uses):
            for position, amounts in use.shares:
                found[position].append((place, amounts))
        return dict(found)

    def uses_at(self, position: int) -> Iterator[Use]:
        """Yield the claims to which the device at this position of the inventory is allocated exclusively."""
        return (self.uses[place] for place in self._uses_by_device.get(position, ()))

    @cached_property
    def _uses_by_device(self) -> Mapping[int, Sequence[int]]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for place, use in enumerate(self.uses):
            for position in use.positions:
                found[position].append(place)
        return found

    @cached_property
    def uses_of(self) -> Mapping[str, Sequence[int]]:
        """The positions in `uses` of each pod's claims, by the pod's `namespace/name`."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for place, use in enumerate(self.uses):
            for pod in use.consumers:
                found[pod].append(place)
        return found


def devices_of(objects: DeviceObjects, before: tuple[DeviceObjects, Devices] | None = None) -> Devices:
    """Return the devices that these objects describe.

    :param before: earlier objects with their result. Devices are not read again if their slices and taint rules are the
        same objects in memory.
    """
    if before is not None and all(one is other for one, other in zip(before[0], objects, strict=True)):
        return before[1]
    same = before is not None and before[0].slices is objects.slices and before[0].taint_rules is objects.taint_rules
    return Devices(
        before[1].inventory if before is not None and same else inventory_of(objects.slices, objects.taint_rules),
        {each.metadata.name: each for each in objects.classes},
        {each.key: each for each in objects.claims},
        {each.key: each for each in objects.templates},
    )
