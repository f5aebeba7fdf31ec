"""The types of RuntimeClasses and DeviceClasses, and how a RuntimeClass changes pods at their admission."""

from collections.abc import Mapping

import msgspec

from kube.objects import ObjectMeta, Pod, Struct, Toleration

IMPLICIT_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that each DeviceClass provides under its own name (KEP 5004)."""
DEVICE_CLASSES = tuple(f"/apis/resource.k8s.io/{version}/deviceclasses" for version in ("v1", "v1beta2"))
"""The API paths of DeviceClasses, the newest version first. An API server before 1.34 does not serve v1."""


class Overhead(Struct, frozen=True):
    """node.k8s.io/v1 Overhead. `pod_fixed`: quantities by resource, as written."""

    pod_fixed: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class RuntimeClassScheduling(Struct, frozen=True):
    """node.k8s.io/v1 Scheduling."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Struct, frozen=True):
    """node.k8s.io/v1 RuntimeClass."""

    metadata: ObjectMeta = ObjectMeta()
    overhead: Overhead = Overhead()
    scheduling: RuntimeClassScheduling = RuntimeClassScheduling()


class DeviceClassSpec(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClassSpec, the used fields. `extended_resource_name`: "" if the class has none."""

    extended_resource_name: str = ""


class DeviceClass(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


def with_runtime_class(pod: Pod, classes: Mapping[str, RuntimeClass]) -> Pod:
    """Return the pod with the overhead, node selector and tolerations of its RuntimeClass.

    The API server's RuntimeClass admission plugin changes pods in the same way, but pods from files lack these parts. A
    pod that names no known class, or has an overhead already, is returned unchanged.
    """
    spec = pod.spec
    found = classes.get(spec.runtime_class_name) if spec.runtime_class_name and not spec.overhead else None
    if found is None:
        return pod
    added = tuple(each for each in found.scheduling.tolerations if each not in spec.tolerations)
    spec = msgspec.structs.replace(
        spec,
        overhead=found.overhead.pod_fixed,
        node_selector={**spec.node_selector, **found.scheduling.node_selector},
        tolerations=(*spec.tolerations, *added),
    )
    return msgspec.structs.replace(pod, spec=spec)
