"""RuntimeClasses and DeviceClasses, decoded by msgspec: what they add to pods, and which resources they provide."""

from collections.abc import Iterator, Mapping

import msgspec

from kube.objects import ObjectMeta, Pod, PodSpec, Struct, Toleration

IMPLICIT_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that each DeviceClass provides under its own name (KEP 5004)."""


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
    """resource.k8s.io/v1 DeviceClassSpec. `extended_resource_name`: "" where the class provides none."""

    extended_resource_name: str = ""


class DeviceClass(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


def with_runtime_class(pod: Pod, classes: Mapping[str, RuntimeClass]) -> Pod:
    """The pod with its RuntimeClass' overhead, node selector and tolerations, as the RuntimeClass admission plugin sets
    them. A pod that names no known class, or states its overhead, is returned as it is.
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


def needs_devices(spec: PodSpec) -> bool:
    """Whether the pod has resource claims, or asks for an extended resource."""
    return bool(spec.resource_claims) or next(extended_resources(spec), None) is not None


def extended_resources(spec: PodSpec) -> Iterator[str]:
    """The extended resources that containers ask for: their names have a domain other than Kubernetes' own."""
    for container in (*spec.containers, *spec.init_containers):
        for name in {**container.resources.limits, **container.resources.requests}:
            if "/" in name and not name.startswith("kubernetes.io/"):
                yield name
