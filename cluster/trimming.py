"""Makes decoded objects small enough to keep by the ten thousand: what nobody reads goes, what is alike is shared.

Pods of one workload share their containers, affinity, tolerations and so on; strings that recur are interned.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kube.objects import Condition, Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KEPT_POD_CONDITIONS = ("PodScheduled", "Ready", "DisruptionTarget")
KEPT_NODE_CONDITIONS = ("Ready",)

_LONG = 64
"""Annotation values of this length or more are hardly ever alike."""
_TIED_VOLUMES = ("persistentVolumeClaim", "ephemeral")

V = TypeVar("V")

_encode = msgspec.json.Encoder().encode


def trim_pod(pod: Pod) -> Pod:
    """The pod without the volumes, conditions and annotations that nobody reads, its parts shared with its like."""
    return Pod(metadata=_metadata(pod.metadata), spec=_spec(pod.spec), status=_pod_status(pod.status))


def trim_node(node: Node) -> Node:
    """The node without the conditions and annotations that nobody reads."""
    status = NodeStatus(
        allocatable=_strings_shared(node.status.allocatable),
        conditions=_conditions(node.status.conditions, KEPT_NODE_CONDITIONS),
    )
    return Node(metadata=_metadata(node.metadata), spec=_shared(node.spec), status=status)


def trim_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """A plain object without managed fields and what kubectl last applied; changed in place."""
    metadata = manifest.get("metadata", {})
    metadata.pop("managedFields", None)
    metadata.get("annotations", {}).pop(LAST_APPLIED, None)
    return manifest


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return replace(
        metadata,
        generate_name=intern(metadata.generate_name),
        namespace=intern(metadata.namespace),
        labels=_strings_shared(metadata.labels),
        annotations={
            intern(key): intern(value) if len(value) < _LONG else value
            for key, value in metadata.annotations.items()
            if key != LAST_APPLIED
        },
        owner_references=_shared_all(metadata.owner_references),
    )


def _spec(spec: PodSpec) -> PodSpec:
    return replace(
        spec,
        node_name=intern(spec.node_name),
        scheduler_name=intern(spec.scheduler_name),
        priority_class_name=intern(spec.priority_class_name),
        preemption_policy=intern(spec.preemption_policy),
        node_selector=_strings_shared(spec.node_selector),
        affinity=_shared(spec.affinity),
        tolerations=_shared_all(spec.tolerations),
        topology_spread_constraints=_shared_all(spec.topology_spread_constraints),
        containers=_shared_all(spec.containers),
        init_containers=_shared_all(spec.init_containers),
        scheduling_gates=_shared_all(spec.scheduling_gates),
        volumes=tuple(each for each in spec.volumes if any(source in each for source in _TIED_VOLUMES)),
    )


def _pod_status(status: PodStatus) -> PodStatus:
    return replace(
        status,
        phase=intern(status.phase),
        nominated_node_name=intern(status.nominated_node_name),
        conditions=_conditions(status.conditions, KEPT_POD_CONDITIONS),
    )


def _conditions(conditions: Iterable[Condition], kept: tuple[str, ...]) -> tuple[Condition, ...]:
    return tuple(
        replace(each, type=intern(each.type), status=intern(each.status), reason=intern(each.reason))
        for each in conditions
        if each.type in kept
    )


def _strings_shared(mapping: Mapping[str, V]) -> dict[str, V]:
    return {intern(key): _interned(value) for key, value in mapping.items()}


def _interned(value: V) -> V:
    return cast("V", intern(value)) if isinstance(value, str) else value


def _shared(part: V) -> V:
    """An equal part that was seen before, else this one."""
    if part is None:
        return part
    kind: Any = type(part)
    return cast("V", _known(kind)(_encode(part)))


def _shared_all(parts: tuple[V, ...]) -> tuple[V, ...]:
    if not parts:
        return ()
    return cast("tuple[V, ...]", _known(tuple[type(parts[0]), ...])(_encode(parts)))  # type: ignore[misc]


@lru_cache(maxsize=64)
def _known(kind: Any) -> Callable[[bytes], Any]:
    """A decoder that gives the same object for the same bytes, as long as it remembers."""
    return lru_cache(maxsize=4096)(msgspec.json.Decoder(kind).decode)
