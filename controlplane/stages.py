"""How pods end on kwok's nodes: at once, or slowly, as a training process that still writes its checkpoint."""

from collections.abc import Mapping
from typing import Any

Stage = dict[str, Any]


def pod_deletion(slow: Mapping[str, float]) -> list[Stage]:
    """Stages that remove pods which have been deleted.

    :param slow: seconds that a pod stays Terminating, by the name of its priority class.
    """
    deleted = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
    key = ".spec.priorityClassName"
    quick = [{"key": key, "operator": "NotIn", "values": list(slow)}] if slow else []
    stages = [_stage("pod-delete", [deleted, *quick], 0.0)]
    for name, seconds in slow.items():
        stages.append(
            _stage(f"pod-delete-{name}", [deleted, {"key": key, "operator": "In", "values": [name]}], seconds)
        )
    return stages


def _stage(name: str, expressions: list[dict[str, Any]], seconds: float) -> Stage:
    delay = {"delay": {"durationMilliseconds": int(seconds * 1000)}} if seconds else {}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": expressions},
            **delay,
            "next": {"delete": True},
        },
    }
