"""Workloads that create pods in order, and whose pods name a gang themselves.

The controller reserves no capacity for the later pods of such a workload. Only the pods that the workload creates at
once are planned before they exist.

    StatefulSet  w-0 ──runs──► w-1 ──runs──► w-2 ──runs──► w-3
    MPIJob       three workers ──ready──► launcher
"""

from typing import Any

import pytest
from workload_operators import ROWS, Object, spark_application

from gangs.dialects.expanding import expanded, unforeseen
from gangs.dialects.reading import read_all
from gangs.manifests import key_of
from gangs.sources import Sources
from gangs.workloads.pod_templates import templates

KEYS: dict[str, tuple[Object, Object]] = {
    "Koordinator's": (
        {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "4"},
        {},
    ),
    "Kueue's": (
        {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "g"},
        {"kueue.x-k8s.io/pod-group-total-count": "4"},
    ),
    "ACK's": ({"pod-group.scheduling.sigs.k8s.io": "g"}, {}),
    "a Gang object": ({"phalanx.dev/gang": "g"}, {}),
}
GANG = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "g", "namespace": "default"}}
ORDER: dict[str, tuple[Object, tuple[str, ...]]] = {
    "StatefulSet": ({"podManagementPolicy": "OrderedReady"}, ("w-0",)),
    "MPIJob": ({"launcherCreationPolicy": "WaitForWorkersReady"}, ("w-worker-0", "w-worker-1", "w-worker-2")),
    "LeaderWorkerSet": ({"startupPolicy": "LeaderReady"}, ("w-0",)),
    "JobSet": ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, ("w-driver-0-0",)),
    "SparkApplication": ({}, ("w-driver",)),
}
"""By kind: the spec fields that make it create pods in order, and the names of the pods that it creates at once."""


def workload(kind: str, keys: str) -> Object:
    manifest: Any = spark_application().manifest() if kind == "SparkApplication" else ROWS[kind].manifest()
    manifest["metadata"]["annotations"] = {}
    manifest["spec"] |= ORDER[kind][0]
    labels, annotations = KEYS[keys]
    for each in templates(manifest):
        part: Any = manifest
        for step in (*each.way, *each.metadata):
            part = part[int(step)] if isinstance(part, list) else part.setdefault(step, {})
        part["labels"] = {**(part.get("labels") or {}), **labels}
        part["annotations"] = {**(part.get("annotations") or {}), **annotations}
    return dict(manifest)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("kind", ORDER)
def test_only_those_are_planned_that_are_made_at_once(kind: str, keys: str) -> None:
    """If all pods were planned, `solve` would report a gang as Placed that waits for ever on a cluster."""
    manifest = workload(kind, keys)
    gang = {**GANG, "spec": {"minMember": 4}} if keys == "a Gang object" else None
    sources = Sources(objects={key_of(each): each for each in (manifest, gang) if each is not None})
    (found,) = (each for each in read_all(expanded(sources)[0]).gangs if each.key.name == "g")
    assert tuple(sorted(member.pod.metadata.name for member in found.members)) == ORDER[kind][1]
    assert not found.suffice(found.members) or keys == "ACK's"
    (advice,) = unforeseen(sources, ())
    assert advice.object.kind == kind
    remedy = f"have all made at once, or write annotations of ours on the {kind} itself"
    assert advice.text.endswith(f"it makes others only when the first run: {remedy}")
