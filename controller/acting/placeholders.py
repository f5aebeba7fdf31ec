"""Placeholders: pods that never run and reserve capacity for expected pods (docs/decisions/0022).

There is one placeholder for each expected pod. It is gated and nominated, and has the requests and the priority of the
expected pod. When the pod arrives, the pod is nominated first, so that the capacity is reserved twice for a moment.
Then the placeholder is deleted. The pod is released only after the scheduler has seen the deletion.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from controller.acting.probe import PODS_PATH, never_run
from controller.release.next_step import Planned
from controller.writes.writer import Writer, Written
from gangs.model import GangKey
from kube.keys import GATE, SYSTEM_NAMESPACE
from kube.objects import ObjectMeta, Pod
from kube.placeholders import HELD_FOR, HELD_FOR_GANG, PLACEHOLDER, SEAT, written_limits
from kube.requests import PODS, pod_limits, pod_requests

_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
"""Resources that may be overcommitted. For all others the API requires limits equal to the requests."""


def hold(
    writer: Writer, gang: GangKey, member: Planned, plan_id: str, condition: Mapping[str, str] | None = None
) -> Written:
    """Reserve capacity for an expected pod: create its placeholder if it has none, and nominate the placeholder.

    Return the result of the write that failed, or of the nomination.

    :param member: the expected pod with its planned node.
    """
    placeholder = member.placeholder
    if placeholder is None:
        manifest = placeholder_manifest(gang, member.pod)
        made = writer.create(PODS_PATH, manifest)
        if not made.done:
            return made
        name = manifest["metadata"]["name"]
        meta = ObjectMeta(name=name, namespace=SYSTEM_NAMESPACE, uid=made.uid, resource_version=made.version)
        placeholder = Pod(metadata=meta)
    return writer.nominate(placeholder, member.node, plan_id, condition)


def free(writer: Writer, placeholders: Iterable[Pod]) -> list[Written]:
    """Delete placeholders, which frees their capacity. Return the results in order."""
    return writer.all(
        partial(
            writer.delete, f"{PODS_PATH}/{pod.metadata.name}", pod.metadata.uid, version=pod.metadata.resource_version
        )
        for pod in placeholders
    )


def placeholder_manifest(gang: GangKey, pod: Pod) -> dict[str, Any]:
    """Return the manifest of the placeholder for an expected pod.

    Its name is a hash of the expected pod's seat, so two placeholders for one expected pod cannot exist.

    :param pod: the expected pod.
    """
    requests = {
        name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in pod_requests(pod).items()
        if name != PODS
    }
    metadata = {
        "name": f"placeholder-{hashlib.sha256(pod.metadata.uid.encode()).hexdigest()[:20]}",
        "labels": {PLACEHOLDER: "true"},
        "annotations": {
            HELD_FOR: pod.key,
            HELD_FOR_GANG: f"{gang.dialect}/{gang.namespace}/{gang.name}",
            SEAT: pod.metadata.uid,
            **written_limits(pod_limits(pod)),
        },
    }
    resources = {
        "requests": requests,
        "limits": {name: text for name, text in requests.items() if name not in _OVERCOMMITTED},
    }
    return never_run(
        metadata,
        resources,
        schedulingGates=[{"name": GATE}],
        tolerations=[msgspec.to_builtins(each) for each in pod.spec.tolerations],
        **({"priorityClassName": pod.spec.priority_class_name} if pod.spec.priority_class_name else {}),
    )
