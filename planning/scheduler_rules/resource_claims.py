"""Members that need devices which Phalanx does not plan: some resource claims, and extended resources of DeviceClasses.

The stock scheduler would bind such members one by one, for as long as devices last, so the gang would run in part.
So such a gang stays gated. The annotation `phalanx.dev/ignore-resource-claims` releases it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cluster.devices.claims import Devices
from cluster.devices.extended_resources import MOST_REQUESTS, conversion_of, provided_by_classes, requests_needed
from cluster.snapshot import Snapshot
from gangs.model import Gang, ObjectRef
from kube.objects import Pod
from kube.topology import Topology
from planning.decision import WaitReason
from planning.devices.columns import device_columns
from planning.devices.demands import (
    MOST_IN_CLAIM,
    MOST_USERS,
    ClaimOfTooManyPodsError,
    ClaimTooLargeError,
    DemandTable,
    NotPlannedError,
    missing,
)


@dataclass(frozen=True, slots=True)
class ClaimTooLarge:
    """A claim that the API server does not accept, or to which no scheduler allocates devices, because of its size.

    `pods`: names of the pods with such a claim. `written_in`: the field that asks for the devices, and the object if it
    is not the pod. `unit`: "devices", "requests", or "pods" that use the claim. `number`: how many of these the claim
    asks for; 0 if only known to be more than `most`. `converted`: whether the claim would replace the requests for
    extended resources in the pod.
    """

    pods: tuple[str, ...]
    written_in: str
    unit: str
    most: int
    number: int = 0
    converted: bool = False


@dataclass(frozen=True, slots=True)
class UnplannedDevices:
    """Why a gang stays gated: its pods need devices that Phalanx does not plan.

    `claiming`: names of the pods with `spec.resourceClaims` that are not planned. `because`: what in these claims is
    not planned; "" if no claim is planned at all. `asking`: names of the pods that request extended resources of
    DeviceClasses, and whose requests have not become claims. `resources`: these resources, each with its DeviceClass.
    `converts`: whether the requests of new pods become claims, so that recreated pods would be planned. `source`: the
    object that asks for the gang.
    """

    source: ObjectRef
    claiming: tuple[str, ...] = ()
    because: str = ""
    asking: tuple[str, ...] = ()
    resources: tuple[tuple[str, str], ...] = ()
    level: str = ""
    """The level below the node that the gang requires although no member has a ResourceClaim; "" if there is none."""
    converts: bool = False
    too_large: ClaimTooLarge | None = None
    """A claim that no scheduler could serve. Then the other causes are left out."""

    code = WaitReason.RESOURCE_CLAIMS


def unplanned_devices(gang: Gang, snapshot: Snapshot, topology: Topology | None) -> UnplannedDevices | None:
    """Return the devices that the gang's unbound members need and that Phalanx does not plan.

    None if there are none, or if the user ignores them by annotation. If the snapshot has no devices (None), no claims
    are planned. `topology`: the gang's topology, whose levels below the node the gang may require.
    """
    if gang.ignores_claims:
        return None
    if level := _level_without_claims(gang, topology):
        return UnplannedDevices(gang.source, level=level)
    pods = [member.pod for member in gang.members if not member.pod.bound]
    claiming = tuple(pod.metadata.name for pod in pods if pod.spec.resource_claims)
    because = ""
    if claiming and snapshot.devices is not None:
        error = _not_planned(gang, snapshot, topology)
        if isinstance(error, ClaimTooLargeError | ClaimOfTooManyPodsError):
            return UnplannedDevices(gang.source, too_large=_too_large(error, pods, snapshot.devices))
        because = str(error or "")
        claiming = claiming if because else ()
    of_nodes, classes = snapshot.allocatable_resources, snapshot.device_classes
    needed = {pod.metadata.name: provided_by_classes(pod.spec, classes, of_nodes) for pod in pods}
    if (too_large := _too_many_requests(pods, needed)) is not None:
        return UnplannedDevices(gang.source, too_large=too_large)
    asking = tuple(name for name, resources in needed.items() if resources)
    if not claiming and not asking:
        return None
    resources = {resource: by for each in needed.values() for resource, by in each.items()}
    converts = snapshot.devices is not None and all(
        _converts(pod, needed[pod.metadata.name]) for pod in pods if needed[pod.metadata.name]
    )
    return UnplannedDevices(gang.source, claiming, because, asking, tuple(sorted(resources.items())), converts=converts)


def _converts(pod: Pod, provided: Mapping[str, str]) -> bool:
    """Return whether the pod's requests for the resources in `provided` become a claim if the pod is created again.

    They do not if the claim would have more requests than the API server accepts.
    """
    try:
        return conversion_of(pod.spec, provided) is not None
    except ValueError:  # a quantity that the API server refuses
        return False


def _too_many_requests(pods: Sequence[Pod], needed: Mapping[str, Mapping[str, str]]) -> ClaimTooLarge | None:
    """Return the claim that would replace requests for extended resources, if it would have too many requests.

    `needed`: by name of a pod, the extended resources that only a DeviceClass provides, each with the class.
    """
    found = dict[str, int]()
    for pod in pods:
        with suppress(ValueError):  # a quantity that the API server refuses
            number = requests_needed(pod.spec, needed[pod.metadata.name])
            if number > MOST_REQUESTS:
                found[pod.metadata.name] = number
    if not found:
        return None
    written_in, most = "spec.containers[*].resources", max(found.values())
    return ClaimTooLarge(tuple(found), written_in, "requests", MOST_REQUESTS, number=most, converted=True)


def _too_large(
    error: ClaimTooLargeError | ClaimOfTooManyPodsError, pods: Sequence[Pod], devices: Devices
) -> ClaimTooLarge:
    """Return the claim of these pods that the error is about, with the pods that have it."""
    if isinstance(error, ClaimOfTooManyPodsError):
        used = {pod.metadata.name: [each.claim for each in devices.claims_of(pod)] for pod in pods}
        users = (
            pod
            for pod, claims in used.items()
            if any(claim is not None and f"ResourceClaim {claim.metadata.name}" == str(error) for claim in claims)
        )
        return ClaimTooLarge(tuple(users), str(error), "pods", MOST_USERS)
    table, names = DemandTable(devices), list[str]()
    for pod in pods:
        try:
            table.of(pod)
        except ClaimTooLargeError as other:
            names += [pod.metadata.name] if str(other) == str(error) else []
        except NotPlannedError:
            continue
    return ClaimTooLarge(tuple(names), str(error), "devices", MOST_IN_CLAIM, converted=str(error).startswith("spec."))


def _level_without_claims(gang: Gang, topology: Topology | None) -> str:
    """Return the level below the node that the gang or a pod set requires, if no pod of it has a ResourceClaim; else
    "".
    """
    if topology is None:
        return ""
    for pod_set in gang.pod_sets:
        named = [name for name in (pod_set.required, gang.required) if name and topology.find_below(name)]
        own = pod_set.required in named
        pods = [each.pod for each in gang.members if each.pod_set == pod_set.name or not own]
        if named and pods and not any(pod.spec.resource_claims for pod in pods):
            return named[0]
    return ""


def missing_for_claims(gang: Gang, snapshot: Snapshot) -> list[str]:
    """Return the objects that the members' claims name and that do not exist, such as "DeviceClass gpu"."""
    if gang.ignores_claims or snapshot.devices is None:
        return []
    pods = [each.pod for each in gang.members if each.pod.spec.resource_claims and not each.pod.bound]
    return list(dict.fromkeys(name for pod in pods for name in missing(pod, snapshot.devices)))


def _not_planned(gang: Gang, snapshot: Snapshot, topology: Topology | None) -> NotPlannedError | None:
    """Return the error that names what in the claims of the gang is not planned; None if everything is, or if an object
    is missing yet.
    """
    if missing_for_claims(gang, snapshot):
        return None
    try:
        device_columns((gang,), snapshot, topology, priority=gang.priority)
    except NotPlannedError as error:
        return error
    return None
