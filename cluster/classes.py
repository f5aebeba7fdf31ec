"""The type of RuntimeClasses, and how a RuntimeClass changes pods at their admission."""

from collections.abc import Mapping

import msgspec

from kube.objects import ObjectMeta, Pod, Struct, Toleration

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
