"""Small clusters and requests for the tests of planning, as the manifests a user would write.

A cluster is drawn one domain a line, its path and its nodes:

    spine-0/block-0: node-0 node-1
    spine-0/block-1: node-2
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from manual_clock import clock_at

from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from gangs.dialects.claims import protected
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.topologies import topologies
from gangs.model import Gang
from gangs.sources import Sources
from kube.topology import Topology
from planning.dry_run import DryRun, dry_run
from planning.files.documents import Document
from planning.files.objects import read_objects
from planning.framing.priorities import admitted

Manifest = dict[str, Any]

LEVELS = ("spine", "block")

SPINES = """
spine-0/block-0: node-0 node-1 node-2
spine-0/block-1: node-3 node-4
spine-1/block-2: node-5 node-6
spine-1/block-3: node-7 node-8
spine-2/block-4: node-9 node-10 node-11
"""
"""The cluster of Koordinator's document: spines of 5, 4 and 3 nodes."""

NOW = "2026-01-01T00:00:00Z"


def label(level: str) -> str:
    """The node label of a level."""
    return f"example.com/{level}"


def topology(levels: Sequence[str] = LEVELS, name: str = "net") -> Manifest:
    """A Topology of ours."""
    spec = {"levels": [{"name": level, "nodeLabel": label(level)} for level in levels]}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


def nodes(
    drawing: str = SPINES, levels: Sequence[str] = LEVELS, allocatable: Mapping[str, Any] | None = None
) -> list[Manifest]:
    """Return the nodes of a drawing, with 8 cpu each if `allocatable` is None. Path "-": no labels of the levels."""
    found = []
    for line in filter(None, map(str.strip, drawing.splitlines())):
        path, _, names = line.partition(":")
        domains = {} if path == "-" else dict(zip(map(label, levels), path.split("/"), strict=True))
        found += [node(name, domains, allocatable) for name in names.split()]
    return found


def node(name: str, labels: Mapping[str, str] = {}, allocatable: Mapping[str, Any] | None = None) -> Manifest:
    """One node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": allocatable or {"cpu": "8"}},
    }


def pod(name: str, *, gang: str = "", cpu: str | int = 8, pod_set: str = "", **spec: Any) -> Manifest:
    """A pod that asks for cpu; `spec` takes any further field of its spec."""
    labels = {key: value for key, value in {"gang": gang, "pod-set": pod_set}.items() if value}
    containers = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {f"phalanx.dev/{key}": value for key, value in labels.items()},
        },
        "spec": {"containers": containers, **spec},
    }


def running(name: str, on: str, priority: int | None = 0, **more: Any) -> Manifest:
    """A pod that has its node."""
    return pod(name, nodeName=on, priority=priority, **more)


def gang(name: str = "llm", **spec: Any) -> Manifest:
    """A Gang of ours."""
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def members(count: int, of: str = "llm", priority: int = 0, **more: Any) -> list[Manifest]:
    """Pods of a gang, `llm-0` and so on."""
    return [pod(f"{of}-{i}", gang=of, priority=priority, **more) for i in range(count)]


def priority_class(name: str, value: int, **more: Any) -> Manifest:
    """A PriorityClass."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **more}


def budget(name: str, labels: Mapping[str, str], *, allowed: int | None = None, **spec: Any) -> Manifest:
    """A PodDisruptionBudget; `allowed` is what the disruption controller would have counted."""
    manifest: Manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
    }
    return manifest if allowed is None else {**manifest, "status": {"disruptionsAllowed": allowed}}


def labelled(manifest: Manifest, **labels: str) -> Manifest:
    """The object with more labels."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}


def solved(*parts: Manifest | Iterable[Manifest], **options: Any) -> DryRun:
    """The dry run of these manifests. Pods whose grace period ends at `NOW` count as gone."""
    with patch("planning.dry_run.SYSTEM_CLOCK", clock_at(NOW)):
        return dry_run(documents(*parts), **options)


def documents(*parts: Manifest | Iterable[Manifest]) -> list[Document]:
    """The manifests as documents of one file."""
    found: list[Document] = []
    for part in parts:
        found += [Document("test.yaml", part)] if isinstance(part, dict) else [Document("test.yaml", m) for m in part]
    return found


def picture(*parts: Manifest | Iterable[Manifest]) -> tuple[list[Gang], Snapshot, list[Topology]]:
    """Gangs, snapshot and topologies, for what is planned by hand."""
    objects = read_objects(documents(*parts))
    assert not objects.mistakes, objects.mistakes
    classes = {each.metadata.name: each for each in objects.priority_classes()}
    runtimes = {each.metadata.name: each for each in objects.runtime_classes()}
    pods = [admitted(each, classes, runtimes) for each in objects.pods()]
    snapshot = snapshot_of(
        objects.nodes(),
        pods,
        priority_classes=classes.values(),
        budgets=objects.budgets(),
        runtime_classes=runtimes.values(),
        device_classes=objects.device_classes(),
        protected=protected,
    )
    sources, faults = expanded(Sources(pods, objects.manifests))
    reading = read_all(sources)
    assert not (*faults, *reading.faults), reading.faults
    return list(reading.gangs), snapshot, topologies(sources)[0]
