"""A fixed cluster view made of plain objects."""

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import msgspec

from cluster.caches.sinks import Pods
from cluster.capturing import Capture, snapshot_of
from cluster.devices.claims import DeviceObjects
from cluster.devices.holdings import DeviceView
from cluster.schedulers import tried_of
from cluster.snapshot import Snapshot
from gangs.dialects.concerned import examples_of, places_of, pods_about
from gangs.dialects.reading import read_all
from gangs.dialects.topologies import topologies
from gangs.incremental.dependencies import KIND, OBJECT, ReadInput
from gangs.manifests import key_of
from gangs.model import GangKey
from gangs.sources import Sources
from kube.devices import DeviceClass
from kube.objects import Node, Pod
from webhook.awaited_objects import objects_in
from webhook.following import Observation

Manifest = dict[str, Any]
EVIDENCE = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
"""Resources that show which other systems run."""
SCHEDULERS = (*EVIDENCE, "configmaps", "pods")
"""Resources that show which schedulers run."""


class Unheard:
    """A cache, as its sinks see it, that no thread waits for or reads."""

    def changing(self, *, captured: bool) -> AbstractContextManager[None]:
        """Do nothing: there is no reader to notify."""
        del captured
        return nullcontext()

    def still(self) -> AbstractContextManager[None]:
        """Do nothing: no other thread reads."""
        return nullcontext()


class StillPicture:
    """A `webhook.picture.Picture` of the given objects."""

    def __init__(
        self,
        objects: Iterable[Manifest] = (),
        *,
        nodes: Sequence[Manifest] = (),
        pods: Sequence[Manifest] = (),
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        synced: bool = True,
        listed: Container[str] = (),
        now: Iterable[Manifest] = (),
        placeholders: bool = True,
        device_classes: Sequence[Manifest] | None = None,
    ) -> None:
        """Build the cluster view.

        :param device_classes: None: no devices are planned.
        :param now: objects with a current state that the view has not read yet.
        :param placeholders: whether the controller reserves capacity for expected pods.
        """
        self._now = {key_of(each): each for each in now}
        self._synced = synced
        self._listed = listed
        decoded = [msgspec.convert(each, Pod) for each in pods]
        self._pods = Pods(Unheard(), Capture(), places_of)
        self._pods.replace(decoded, "v1")
        keyed = {key_of(each): each for each in objects}
        self._sources = Sources(decoded, keyed, namespaces or {}, tried=tried_of(decoded), placeholders=placeholders)
        classes = [msgspec.convert(each, DeviceClass) for each in device_classes or ()]
        devices = None if device_classes is None else DeviceObjects(classes=classes)
        there = [msgspec.convert(each, Node) for each in nodes]
        self._snapshot = snapshot_of(there, decoded, device_classes=classes, devices=devices)

    def synced(self) -> bool:
        """As it was made."""
        return self._synced

    def listed(self, plural: str) -> bool:
        """Return whether the resource is listed: all resources are, or only those that the test names."""
        return self._synced or plural in self._listed

    def sources(self) -> Sources:
        """Return all given objects."""
        return self._sources

    def sources_of(self, *names: GangKey) -> Sources:
        """With one pod of each kind of the gang's only."""
        return replace(self._sources, pods=[pod for name in names for pod in self._pods.one_of_each(name)])

    def all_of(self, *names: GangKey) -> Sources:
        """With the gang's pods only."""
        return replace(self._sources, pods=[pod for name in names for pod in self._pods.of(name)])

    def alike(self, name: GangKey, pod: Pod) -> int:
        """Return the number of pods in the gang that are of this pod's kind."""
        return self._pods.alike(name, pod.key)

    def sources_about(self, *manifests: Mapping[str, Any]) -> Sources:
        """With the pods that have to do with these objects."""
        found = examples_of(self._pods.one_of)
        for manifest in manifests:
            found += pods_about(manifest, self._sources, self._pods.of)
        pods = {each.key: each for each in found}
        return replace(self._sources, pods=[pods[key] for key in sorted(pods)])

    def reread(self, sources: Sources, inputs: Iterable[ReadInput]) -> Sources:
        """Return the sources with the read objects in their current state."""
        keys: set[Any] = {arguments[0] for sort, *arguments in inputs if sort == OBJECT}
        kinds: list[Any] = [arguments for sort, *arguments in inputs if sort == KIND]  # as `ReadSet` makes them
        keys |= {key_of(manifest) for kind in kinds for manifest in sources.of_kind(*kind)}
        return sources.changed({key: manifest for key, manifest in self._now.items() if key in keys})

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """With the objects that are awaited, and there by now."""
        keys = {each.key for text in awaited for each in objects_in(text)}
        there = {key: each for key, each in self._now.items() if key in keys}
        return sources.changed(there) if there else sources

    def comes(self, awaited: Iterable[str]) -> bool:
        """Return whether an awaited object exists by now. From then on the view contains it."""
        keys = {each.key for text in awaited for each in objects_in(text)}
        there = {key: each for key, each in self._now.items() if key in keys}
        self._sources = self._sources.changed(there)
        return bool(there)

    def describing(self, group: str, kind: str) -> Manifest | None:
        """Return the WorkloadKind that describes the kind; None if there is none."""
        wanted = group, kind
        specs = ((each, each.get("spec") or {}) for each in self._now.values() if each["kind"] == "WorkloadKind")
        return next((each for each, spec in specs if (spec.get("group"), spec.get("kind")) == wanted), None)

    def node(self, name: str) -> Node | None:
        """Return the node of this name; None if there is none."""
        return next((state.node for state in self._snapshot.nodes if state.name == name), None)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the nodes and their pods."""
        return self._snapshot

    def devices(self) -> DeviceView:
        """Return the given DeviceClasses, without claims."""
        found = self._snapshot.devices
        return DeviceView(classes={} if found is None else found.classes, known=found is not None)

    def age(self) -> float:
        """Just now."""
        return 0.0

    @contextmanager
    def following(self) -> Iterator["StillPicture"]:
        """Follow no changes: the view is always the same."""
        yield self

    def look(self) -> Observation:
        """Return an observation of all given objects."""
        sources = self._sources
        return Observation(1, sources, read_all(sources).gangs, topologies(sources)[0], self._snapshot)


def pod(
    name: str = "p0",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Manifest:
    """A Pod as the API server sends it; `labels` None: the field is absent."""
    metadata: Manifest = {"name": name, "namespace": namespace}
    if labels is not None:
        metadata["labels"] = dict(labels)
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "4"}}}
    whole = {"containers": [container], "schedulerName": "default-scheduler", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def node(name: str, **labels: str) -> Manifest:
    """A node of 8 cpu; keyword names become labels `example.com/<name>`."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {f"example.com/{key}": value for key, value in labels.items()}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


def job(name: str = "train", *, pods: int = 4, annotations: Mapping[str, str] | None = None) -> Manifest:
    """A Job that runs `pods` pods of 4 cpu at a time."""
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations or {})},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template},
    }


def pod_group(name: str = "llm", minimum: int = 4, **annotations: str) -> Manifest:
    """A Koordinator PodGroup; keyword names are annotations without their prefix, `_` standing for `-`."""
    prefix = "gang.scheduling.koordinator.sh/"
    written = {prefix + key.replace("_", "-"): value for key, value in annotations.items()}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": written},
        "spec": {"minMember": minimum},
    }


def topology(*levels: str) -> Manifest:
    """A Topology of these levels over the labels `example.com/<level>`."""
    written = [{"name": each, "nodeLabel": f"example.com/{each}"} for each in levels]
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "datacenter"},
        "spec": {"levels": written},
    }


def slowness() -> float:
    """By how much this machine is slower than an idle one: programs that wait for each processor, and some leeway."""
    return 2 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
