"""The devices that members use of their queue's quotas, counted as Kueue counts them (docs/coming-from/kueue.md).

Source: Kueue's `pkg/dra`, `claims.go` and `extended_resources.go`. Each request of a claim's template counts with its
number of devices, under the resource to which Kueue's Configuration maps its DeviceClass. A request for an extended
resource of a mapped DeviceClass counts under that resource, too.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from cluster.devices.claims import PodClaim
from cluster.devices.extended_resources import as_written, converted_entry, is_as_written
from cluster.snapshot import Snapshot
from gangs.model import Gang, Member
from gangs.quota_model import Charge, DeviceQuotas
from kube.devices import DeviceRequest, ExactDeviceRequest, ResourceClaimSpec
from kube.keys import CONVERTED
from kube.objects import Pod
from kube.requests import extended_resources, pod_requests
from planning.devices.demands import EXACT


class _UncountedError(Exception):
    """Devices that Kueue's quotas do not count. The text says what the gang waits for."""


def with_charges(gang: Gang, snapshot: Snapshot) -> Gang:
    """Return the gang, with a charge for each member whose use of the quotas differs from its pod's requests.

    If no member has a charge, or the gang is in no queue, the result is the same object.
    """
    if gang.account is None:
        return gang
    quotas, known = gang.account.devices, dict[object, Charge]()
    members = tuple(_charged(member, quotas, snapshot, known) for member in gang.members)
    if all(one is other for one, other in zip(members, gang.members, strict=True)):
        return gang
    return replace(gang, members=members)


def _charged(member: Member, quotas: DeviceQuotas | None, snapshot: Snapshot, known: dict[object, Charge]) -> Member:
    """Return the member with its charge: the devices that count in its queue's quotas.

    `known`: cache of the charges, by the identity of the pod's spec and by its annotation, because many members share
    one spec.
    """
    pod = member.pod
    if member.charge is not None:
        return member
    converted = CONVERTED in pod.metadata.annotations
    if not converted and (quotas is None or not _has_devices(pod, snapshot)):
        return member
    key = id(pod.spec), pod.metadata.annotations.get(CONVERTED)
    if key not in known:
        known[key] = charge_of(pod, quotas, snapshot)
    return replace(member, charge=known[key])


def _has_devices(pod: Pod, snapshot: Snapshot) -> bool:
    if pod.spec.resource_claims:
        return True
    return bool(snapshot.device_classes) and any(
        each in snapshot.device_classes for each in extended_resources(pod.spec)
    )


def charge_of(pod: Pod, quotas: DeviceQuotas | None, snapshot: Snapshot) -> Charge:
    """Return what the pod uses of its queue's quotas. If admission has converted a request for an extended resource
    into a claim, the charge is that of the request as the user wrote it.

    If the claim asks for other devices than the pod's requests, the claim is counted like every other claim.

    :param quotas: how the quotas count devices; None: claims count as nothing.
    """
    amounts = Counter(pod_requests(as_written(pod)))
    if quotas is None:
        return Charge(dict(amounts))
    if quotas.problem:
        return Charge(dict(amounts), quotas.problem)
    try:
        for resource in [name for name in amounts if name in snapshot.device_classes]:
            name = _resource_of(snapshot.device_classes[resource], quotas, unmapped=resource)
            amounts[name] += amounts.pop(resource) if name != resource else 0
        amounts.update(_of_claims(pod, quotas, snapshot))
    except _UncountedError as error:
        return Charge(dict(amounts), str(error))
    return Charge(dict(amounts))


def _of_claims(pod: Pod, quotas: DeviceQuotas, snapshot: Snapshot) -> Counter[str]:
    found, of_conversion = Counter[str](), converted_entry(pod)
    for each in snapshot.devices.claims_of(pod) if snapshot.devices is not None else ():
        spec = _spec(each)
        if each.entry == of_conversion and spec is not None and is_as_written(pod, spec, snapshot.device_classes):
            continue
        for request in _requests(pod, each):
            name, count = _counted(request, quotas)
            if count:
                found[name] += count
    return found


def _requests(pod: Pod, claim: PodClaim) -> Iterator[DeviceRequest]:
    """Yield the requests of a claim that is made from a template. Raises `_UncountedError` for a claim that the pod
    names directly.
    """
    entry = next(each for each in pod.spec.resource_claims if each.get("name") == claim.entry)
    if named := entry.get("resourceClaimName"):
        raise _UncountedError(
            f"ResourceClaim {named} to be replaced by a template, because Kueue counts no named claims"
        )
    source = _spec(claim)
    yield from source.devices.requests if source is not None else ()


def _spec(claim: PodClaim) -> ResourceClaimSpec | None:
    if claim.template is not None:
        return claim.template.spec.spec
    return claim.claim.spec if claim.claim is not None else None


def _counted(request: DeviceRequest, quotas: DeviceQuotas) -> tuple[str, int]:
    """Return the quota's resource that a device request uses, and how many devices of it; 0 devices if the request uses
    no quota.

    A request with alternatives is counted only if all alternatives use the same amount of the same resource. Raises
    `_UncountedError`.
    """
    if request.exactly is not None:
        return ("", 0) if request.exactly.admin_access else _exactly(request.name, request.exactly, quotas)
    alternatives = {_exactly(f"{request.name}/{each.name}", each, quotas) for each in request.first_available}
    if len(alternatives) != 1:
        text = f'alternatives of one number and one resource in the request "{request.name}"'
        raise _UncountedError(f"{text}, because Kueue counts no others")
    return alternatives.pop()


def _exactly(name: str, request: ExactDeviceRequest, quotas: DeviceQuotas) -> tuple[str, int]:
    if request.allocation_mode != EXACT:
        text = f'a number of devices in the request "{name}"'
        raise _UncountedError(f"{text}, because Kueue does not count {request.allocation_mode}")
    return _resource_of(request.device_class_name, quotas), request.count


def _resource_of(device_class: str, quotas: DeviceQuotas, *, unmapped: str = "") -> str:
    """Return the quota's resource that devices of a DeviceClass use.

    `unmapped`: the resource of a class without a mapping; "" if there is none. Raises `_UncountedError` if there is no
    such resource, or if the mapping has a setting that Phalanx does not support.
    """
    if device_class in quotas.uncounted:
        field = quotas.uncounted[device_class]
        raise _UncountedError(f"a mapping of DeviceClass {device_class} that Phalanx counts, without {field}")
    if device_class in quotas.resources:
        return quotas.resources[device_class]
    if unmapped:
        return unmapped
    raise _UncountedError(f"DeviceClass {device_class} in resources.deviceClassMappings of {quotas.source}")
