"""Members that request an extended resource of a DeviceClass: adds the ResourceClaim that such a member gets at its
admission.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from cluster.devices.extended_resources import Conversion, conversion_of, converted, provided_by_classes
from cluster.devices.inventory import NOWHERE, Inventory
from cluster.snapshot import Snapshot
from gangs.model import Gang, Member
from kube.devices import DeviceClass
from kube.objects import Pod
from kube.placeholders import to_come
from kube.requests import extended_resources
from planning.devices.demands import Kind, NotPlannedError
from planning.devices.kinds import accepted

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def with_implied_claims(gang: Gang, snapshot: Snapshot) -> Gang:
    """Return the gang, with the claims that its members get at their admission for extended resources
    (`cluster.devices.extended_resources`).

    Pods that the API server has stored stay as they are, because admission converts a request only when a pod is
    created. If the cluster view has no devices, or the user ignores the claims of the gang, no pod changes.
    """
    if snapshot.devices is None or gang.ignores_claims:
        return gang
    known = dict[bytes, Conversion | None]()
    pods = [_converted(member.pod, snapshot, known) for member in gang.members]
    if all(pod is member.pod for pod, member in zip(pods, gang.members, strict=True)):
        return gang
    members = tuple(replace(member, pod=pod) for pod, member in zip(pods, gang.members, strict=True))
    return replace(gang, members=members)


def unused_devices(members: Iterable[Member], snapshot: Snapshot) -> tuple[str, ...]:
    """Return, as phrases for messages, the devices that could serve members but that are not planned.

    If a node has an extended resource in `status.allocatable`, requests for it are planned on such nodes only. The
    stock scheduler would also allocate devices of a DeviceClass on other nodes.
    """
    devices, allocatable = snapshot.devices, snapshot.allocatable_resources
    if devices is None or not devices.inventory.ids:
        return ()
    asked = {name for each in members if not each.pod.bound for name in extended_resources(each.pod.spec)}
    found = list[str]()
    for resource in sorted(asked & allocatable):
        name = snapshot.device_classes.get(resource, "")
        if name in devices.classes and _elsewhere(resource, devices.classes[name], devices.inventory, snapshot):
            found.append(
                f"devices of DeviceClass {name} for {resource} on nodes without status.allocatable[{resource}]"
            )
    return tuple(found)


def _elsewhere(resource: str, device_class: DeviceClass, inventory: Inventory, snapshot: Snapshot) -> bool:
    """Return whether a node without the resource in `status.allocatable` has a device of the class."""
    selectors = tuple(each.cel.expression if each.cel is not None else "" for each in device_class.spec.selectors)
    try:
        flags = accepted(Kind(selectors, (), device_class.metadata.name), inventory)[inventory.content]
    except NotPlannedError:
        return True
    nodes = {inventory.nodes[place] for place in inventory.node[flags].tolist() if place != NOWHERE}
    states = (snapshot.state(name) for name in nodes)
    return any(state is not None and not state.allocatable.get(resource) for state in states)


def _converted(pod: Pod, snapshot: Snapshot, known: dict[bytes, Conversion | None]) -> Pod:
    """Return the pod as the webhook would admit it: a claim replaces its requests for extended resources. `known`: the
    results for equal containers.
    """
    if pod.bound or (pod.metadata.uid and not to_come(pod)):
        return pod
    provided = provided_by_classes(pod.spec, snapshot.device_classes, snapshot.allocatable_resources)
    if not provided:
        return pod
    key = _encode((pod.spec.containers, pod.spec.init_containers))
    if key not in known:
        try:
            known[key] = conversion_of(pod.spec, provided)
        except ValueError:  # a quantity that cannot be parsed, which the checks of inputs report
            known[key] = None
    conversion = known[key]
    return pod if conversion is None else converted(pod, conversion)
