"""Members that need devices, which Phalanx does not plan: resource claims, and extended resources of DeviceClasses.

The stock scheduler would bind such members one by one, for as long as devices last, so the gang would run in part.
Until Phalanx plans devices, such a gang stays gated. The annotation `phalanx.dev/ignore-resource-claims` releases it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cluster.classes import IMPLICIT_RESOURCE
from cluster.snapshot import Snapshot
from gangs.model import Gang, ObjectRef
from kube.objects import Pod
from kube.requests import extended_resources
from planning.decision import WaitReason


@dataclass(frozen=True, slots=True)
class UnplannedDevices:
    """Why a gang stays gated: its pods need devices, and Phalanx does not plan devices.

    `claiming`: names of the pods with `spec.resourceClaims`. `asking`: names of the pods that request extended
    resources of DeviceClasses. `resources`: these resources, each with its DeviceClass. `source`: the object that asks
    for the gang.
    """

    source: ObjectRef
    claiming: tuple[str, ...] = ()
    asking: tuple[str, ...] = ()
    resources: tuple[tuple[str, str], ...] = ()

    code = WaitReason.RESOURCE_CLAIMS


def unplanned_devices(gang: Gang, snapshot: Snapshot) -> UnplannedDevices | None:
    """Return the devices that the gang's unbound members need, because Phalanx does not plan devices.

    None if they need none, or if the user ignores them by annotation.
    """
    if gang.ignores_claims:
        return None
    pods = [member.pod for member in gang.members if not member.pod.bound]
    claiming = tuple(pod.metadata.name for pod in pods if pod.spec.resource_claims)
    needed = {pod.metadata.name: dict(_of_device_classes(pod, snapshot)) for pod in pods}
    asking = tuple(name for name, resources in needed.items() if resources)
    if not claiming and not asking:
        return None
    resources = {resource: by for each in needed.values() for resource, by in each.items()}
    return UnplannedDevices(gang.source, claiming, asking, tuple(sorted(resources.items())))


def _of_device_classes(pod: Pod, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the extended resources of the pod that only a DeviceClass provides, each with the name of the class."""
    for resource in extended_resources(pod.spec):
        if resource in snapshot.allocatable_resources:
            continue
        if resource.startswith(IMPLICIT_RESOURCE):
            yield resource, resource.removeprefix(IMPLICIT_RESOURCE)
        elif resource in snapshot.device_classes:
            yield resource, snapshot.device_classes[resource]
