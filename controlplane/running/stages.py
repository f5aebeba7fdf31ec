"""KWOK's Stage objects, by which KWOK simulates nodes and pods.

A deleted pod ends at once, or slowly, like a training that writes a checkpoint.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Stage = dict[str, Any]

TERMINATES_AFTER = "kwok.phalanx.dev/terminates-after"
"""Annotation on a pod: how long it stays Terminating, as Go writes durations (`3s`)."""

GOES_ON = "kwok.phalanx.dev/goes-on"
"""Annotation on a Job's pod: the pod runs until it is deleted. Without the annotation, it completes at once."""

COMPLETES_AFTER = "kwok.phalanx.dev/completes-after"
"""Annotation on a Job's pod: how long it runs until it completes, as Go writes durations (`20s`)."""

NOT_READY = "kwok.phalanx.dev/not-ready"
"""Annotation on a pod: the pod runs, but kwok does not make it ready. A test writes the condition itself."""

_FILE = Path(__file__).with_name("kwok-stages.yaml")
_PRIORITY_CLASS = ".spec.priorityClassName"
_ANNOTATION = f'.metadata.annotations["{TERMINATES_AFTER}"]'
_DELETED = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
_NOT_ENDED = {"key": ".metadata.deletionGracePeriodSeconds == 0", "operator": "NotIn", "values": ["true"]}
"""Excludes pods that have ended and are kept by a finalizer.

kwok deletes by name, so a second deletion could hit the next pod of that name.
"""


def stages(slow: Mapping[str, float]) -> list[Stage]:
    """Return all Stage objects with which KWOK starts, because KWOK has none built in. `slow`: see `pod_deletion`."""
    return [*yaml.safe_load_all(_FILE.read_text()), *pod_deletion(slow)]


def pod_deletion(slow: Mapping[str, float]) -> list[Stage]:
    """Return KWOK's Stage objects (`kwok.x-k8s.io`) by which KWOK removes pods that have a deletion timestamp.

    :param slow: seconds that a pod stays Terminating, by the name of its priority class. Other pods are removed at
        once.
    """
    unannotated = {"key": _ANNOTATION, "operator": "DoesNotExist"}
    others = [{"key": _PRIORITY_CLASS, "operator": "NotIn", "values": list(slow)}] if slow else []
    stages = [
        _stage("pod-delete", [_DELETED, unannotated, *others], {}),
        _stage(
            "pod-delete-annotated",
            [_DELETED, {"key": _ANNOTATION, "operator": "Exists"}],
            {"durationFrom": {"expressionFrom": _ANNOTATION}},
        ),
    ]
    for name, seconds in slow.items():
        of_class = {"key": _PRIORITY_CLASS, "operator": "In", "values": [name]}
        delay = {"durationMilliseconds": int(seconds * 1000)}
        stages.append(_stage(f"pod-delete-{name}", [_DELETED, unannotated, of_class], delay))
    return stages


def _stage(name: str, expressions: list[dict[str, Any]], delay: dict[str, Any]) -> Stage:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [*expressions, _NOT_ENDED]},
            **({"delay": delay} if delay else {}),
            "next": {"delete": True},
        },
    }
