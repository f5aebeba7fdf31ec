"""The devices that a gang's members have or will get, read from their claims and from the status of the Gang object."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube.devices import ResourceClaim, claim_names
from kube.keys import GATE
from kube.objects import Pod
from planning.messages.wording import devices_text

Claims = Mapping[str, ResourceClaim]
"""Claims by `namespace/name`."""


@dataclass(frozen=True, slots=True)
class MemberDevices:
    """The devices of one member. `held`: whether its claims have the devices; otherwise they are only planned.

    `devices`: each with the request of a claim that gets it, its name, and what the claim consumes of the capacities of
    a shared device. The name of a pool that is not the node's is part of the name.
    """

    devices: tuple[tuple[str, str, Mapping[str, Any]], ...]
    held: bool

    @property
    def count(self) -> int:
        """How many devices the member has or will get."""
        return len(self.devices)

    @property
    def text(self) -> str:
        """The devices as text: `gpu: gpu-0..1`, or `planned: gpu: gpu-0..1`."""
        found = devices_text(self.devices)
        return found if self.held else f"planned: {found}"


def devices_of_member(pod: Pod, claims: Claims, status: Mapping[str, Any]) -> MemberDevices | None:
    """Return the devices that a member has or will get; None if there are none, or if they are not known.

    :param claims: the known claims. Without the claims of the member, only planned devices are known.
    :param status: the status of the gang's Gang object.
    """
    node = pod.spec.node_name or pod.status.nominated_node_name
    results = [
        (each.request, each.pool, each.device, each.consumed_capacity)
        for claim in _claims_of(pod, claims)
        if claim.status.allocation is not None
        for each in claim.status.allocation.devices.results
    ]
    if results:
        return MemberDevices(_named(results, node), held=True)
    planned = [
        (each["request"], each["pool"], each["device"], each.get("consumedCapacity") or {})
        for claim in status.get("claims") or ()
        if claim["namespace"] == pod.metadata.namespace and pod.metadata.name in claim["pods"]
        for each in claim["devices"]
    ]
    node = node or next((each["node"] for each in status.get("claims") or () if pod.metadata.name in each["pods"]), "")
    return MemberDevices(_named(planned, node), held=False) if planned else None


def _named(
    devices: Iterable[tuple[str, str, str, Mapping[str, Any]]], node: str
) -> tuple[tuple[str, str, Mapping[str, Any]], ...]:
    return tuple(
        (request, device if pool == node else f"{pool}/{device}", consumed)
        for request, pool, device, consumed in devices
    )


def _claims_of(pod: Pod, claims: Claims) -> list[ResourceClaim]:
    created = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    names = (named or created.get(entry, "") for entry, named, _ in claim_names(pod.spec.resource_claims))
    found = (claims.get(f"{pod.metadata.namespace}/{name}") for name in names)
    return [each for each in found if each is not None]


def held_devices(pods: Sequence[Pod], claims: Claims, status: Mapping[str, Any]) -> str:
    """Return what is allocated to the claims of the gang's unreleased members, as text: `3 of 4 claims, 6 devices`.

    "" if no claim is planned for such members.
    """
    waiting = {(pod.metadata.namespace, pod.metadata.name) for pod in pods if pod.gated_by(GATE)}
    planned = [
        each
        for each in status.get("claims") or ()
        if any((each["namespace"], name) in waiting for name in each["pods"])
    ]
    if not planned:
        return ""
    held = {
        (claim.metadata.namespace, claim.metadata.name): claim
        for pod in pods
        if pod.gated_by(GATE)
        for claim in _claims_of(pod, claims)
        if claim.status.allocation is not None
    }
    count = sum(len(each.status.allocation.devices.results) for each in held.values() if each.status.allocation)
    return f"{len(held)} of {len(planned)} claims, {count} {'device' if count == 1 else 'devices'}"
