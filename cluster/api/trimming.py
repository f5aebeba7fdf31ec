"""Trims decoded objects, so that tens of thousands fit in memory.

Fields that Phalanx does not read are removed. Equal parts of different objects become one object in memory: pods of one
workload share their containers, affinity, tolerations and so on. Recurring strings are interned.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kube.objects import Condition, ContainerStatus, Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus
from kube.requests import RESIZE_PENDING

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KEPT_POD_CONDITIONS = ("PodScheduled", "Ready", "DisruptionTarget", RESIZE_PENDING)
KEPT_NODE_CONDITIONS = ("Ready",)

_LONG = 64
"""Annotation values of this length in characters or more are not interned, because they are rarely equal."""
_LONG_PART = 16_384
"""Size in bytes above which a part of a pod is not compared with other pods' parts."""
_TIED_VOLUMES = frozenset(("persistentVolumeClaim", "ephemeral"))

_NO_METADATA = ObjectMeta()

V = TypeVar("V")

_encode = msgspec.json.Encoder().encode


def trim_pod(pod: Pod, before: Pod | None = None) -> Pod:
    """Return the pod without the volumes, conditions and annotations that Phalanx does not read.

    :param before: the trimmed pod in an earlier version, with which the result shares its equal parts. To compare a
        part takes a fraction of the time of trimming it.
    """
    volumes = tuple(each for each in pod.spec.volumes if not _TIED_VOLUMES.isdisjoint(each))
    spec = replace(pod.spec, volumes=volumes) if volumes != pod.spec.volumes else pod.spec
    same = before is not None and spec == before.spec
    return Pod(
        metadata=_metadata(pod.metadata, before.metadata if before is not None else _NO_METADATA),
        spec=before.spec if before is not None and same else _spec(spec),
        status=_pod_status(pod),
    )


def trim_node(node: Node) -> Node:
    """Return the node without the conditions and annotations that Phalanx does not read."""
    status = NodeStatus(
        allocatable={intern(key): _as_interned(value) for key, value in node.status.allocatable.items()},
        conditions=_conditions(node.status.conditions, KEPT_NODE_CONDITIONS),
    )
    return Node(metadata=_metadata(node.metadata), spec=_shared(node.spec), status=status)


def trim_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a plain object without managed fields and kubectl's last applied configuration. It is changed in place."""
    metadata = manifest.get("metadata") or {}
    metadata.pop("managedFields", None)
    (metadata.get("annotations") or {}).pop(LAST_APPLIED, None)
    return manifest


def _metadata(metadata: ObjectMeta, before: ObjectMeta = _NO_METADATA) -> ObjectMeta:
    owners, finalizers = metadata.owner_references, metadata.finalizers
    return replace(
        metadata,
        generate_name=intern(metadata.generate_name),
        namespace=intern(metadata.namespace),
        labels=before.labels if metadata.labels == before.labels else _interned(metadata.labels),
        annotations=before.annotations if metadata.annotations == before.annotations else _kept(metadata.annotations),
        owner_references=before.owner_references if owners == before.owner_references else _shared_all(owners),
        finalizers=before.finalizers if finalizers == before.finalizers else _shared_all(finalizers),
    )


def _kept(annotations: Mapping[str, str]) -> dict[str, str]:
    return {
        intern(key): intern(value) if len(value) < _LONG else value
        for key, value in annotations.items()
        if key != LAST_APPLIED
    }


def _spec(spec: PodSpec) -> PodSpec:
    return replace(
        spec,
        node_name=intern(spec.node_name),
        scheduler_name=intern(spec.scheduler_name),
        priority_class_name=intern(spec.priority_class_name),
        preemption_policy=intern(spec.preemption_policy),
        runtime_class_name=intern(spec.runtime_class_name),
        node_selector=_interned(spec.node_selector),
        affinity=_shared(spec.affinity),
        tolerations=_shared_all(spec.tolerations),
        topology_spread_constraints=_shared_all(spec.topology_spread_constraints),
        containers=_shared_all(spec.containers),
        init_containers=_shared_all(spec.init_containers),
        scheduling_gates=_shared_all(spec.scheduling_gates),
    )


def _pod_status(pod: Pod) -> PodStatus:
    status = pod.status
    given = () if _given_as_asked(pod) else (status.container_statuses, status.init_container_statuses)
    return PodStatus(
        phase=intern(status.phase),
        nominated_node_name=intern(status.nominated_node_name),
        conditions=_conditions(status.conditions, KEPT_POD_CONDITIONS),
        start_time=status.start_time,
        container_statuses=_shared_all(given[0]) if given else (),
        init_container_statuses=_shared_all(given[1]) if given else (),
        allocated_resources=_shared(status.allocated_resources) if given else None,
        resources=_shared(status.resources) if given else None,
        resource_claim_statuses=status.resource_claim_statuses,
    )


def _given_as_asked(pod: Pod) -> bool:
    """Whether the resources in the pod's status are exactly those that its spec requests.

    This holds for nearly every pod with one container. Then these parts of the status are dropped, because they add
    nothing to the spec (`kube.requests`).
    """
    status, containers = pod.status, pod.spec.containers
    if len(containers) != 1 or pod.spec.init_containers or pod.spec.overhead or pod.spec.resources is not None:
        return not (status.container_statuses or status.init_container_statuses or status.allocated_resources)
    asked = containers[0].resources.requests
    statuses: list[PodStatus | ContainerStatus] = [status, *status.container_statuses]
    return all(
        (each.allocated_resources is None or each.allocated_resources == asked)
        and (each.resources is None or each.resources.requests == asked)
        for each in statuses
    )


def _conditions(conditions: Iterable[Condition], kept: tuple[str, ...]) -> tuple[Condition, ...]:
    return tuple(
        replace(each, type=intern(each.type), status=intern(each.status), reason=intern(each.reason))
        for each in conditions
        if each.type in kept
    )


def _interned(mapping: Mapping[str, str]) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in mapping.items()}


def _as_interned(value: V) -> V:
    return cast("V", intern(value)) if isinstance(value, str) else value


def _shared(part: V) -> V:
    """Return an equal object that was seen before, so that equal parts are one object in memory; if there is none,
    return `part` itself.
    """
    if part is None:
        return part
    kind: Any = type(part)
    shared: V = _known(kind)(_encode(part))
    return shared


def _shared_all(parts: tuple[V, ...]) -> tuple[V, ...]:
    if not parts:
        return ()
    kind: Any = type(parts[0])
    shared: tuple[V, ...] = _known_tuples(kind)(_encode(parts))
    return shared


@lru_cache(maxsize=64)
def _known_tuples(kind: Any) -> Callable[[bytes], Any]:
    """Return a JSON decoder for tuples of this type. For equal bytes it returns the same tuple, as long as that is
    cached.
    """
    return _known(tuple[kind, ...])


@lru_cache(maxsize=64)
def _known(kind: Any) -> Callable[[bytes], Any]:
    """Return a JSON decoder for this type that returns the same object for equal bytes, as long as they are cached."""
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
    known = lru_cache(maxsize=4096)(decode)
    return lambda text: known(text) if len(text) <= _LONG_PART else decode(text)
