"""Turns documents into Kubernetes objects of known kinds, with the API server's defaults, and reports every mistake.

Defaults: namespace "default", and for a Pod without a name, a name made of its generateName. Objects of unknown kinds
are not read; `Objects.ignored` counts them by kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from cluster.classes import RuntimeClass
from cluster.devices.claims import DeviceObjects
from cluster.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from gangs.dialects.table import all_kinds
from gangs.dialects.unknown_kinds import asking_in_vain
from gangs.manifests import MalformedError, group_of, key_of, parted, shape_remedy
from gangs.model import Manifest
from gangs.sources import EVERYBODY, ObjectKey
from gangs.workloads.kind_table import WORKLOADS, KindRow, row_of
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.pod_templates import templates
from gangs.workloads.user_defined_kinds import RESOURCE, rows_of, with_row
from kube import compute_domains, devices
from kube.keys import SHARES_GROUPS_WITH
from kube.objects import (
    DisruptionBudgetStatus,
    LabelSelector,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
    Struct,
)
from kube.quantities import countable
from kube.requests import quantities
from planning.files.checks import asking_on, wrong_fields, wrong_kind
from planning.files.documents import Document, Mistake
from planning.files.valid_devices import wrong_devices
from planning.files.valid_metadata import wrong_names, wrong_times
from planning.messages.wording import listed
from solver.deadline import NO_DEADLINE, Deadline

DEFAULT_NAMESPACE = "default"

_GroupKind = tuple[str, str]
_NONE: Mapping[_GroupKind, KindRow] = {}
_WORKLOAD_KIND = (RESOURCE.group, RESOURCE.kind)

TYPED: Mapping[_GroupKind, type[Struct]] = {
    ("", "Node"): Node,
    ("", "Pod"): Pod,
    ("", "Namespace"): Namespace,
    ("", "PersistentVolume"): PersistentVolume,
    ("", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("storage.k8s.io", "StorageClass"): StorageClass,
    ("scheduling.k8s.io", "PriorityClass"): PriorityClass,
    ("policy", "PodDisruptionBudget"): PodDisruptionBudget,
    ("", "ResourceQuota"): ResourceQuota,
    ("node.k8s.io", "RuntimeClass"): RuntimeClass,
    (devices.GROUP, "DeviceClass"): devices.DeviceClass,
    (devices.GROUP, "ResourceSlice"): devices.ResourceSlice,
    (devices.GROUP, "ResourceClaim"): devices.ResourceClaim,
    (devices.GROUP, "ResourceClaimTemplate"): devices.ResourceClaimTemplate,
    (devices.GROUP, "DeviceTaintRule"): devices.DeviceTaintRule,
    (compute_domains.GROUP, compute_domains.KIND): compute_domains.ComputeDomain,
}
"""Kinds of the cluster itself, and the struct that each is read into."""

_SELECTOR = "spec.selector"
_OTHERS = {("", "Service")}
"""Core kinds that are ignored without a warning, although a kind of the same name in another group is read."""
_CLUSTER_SCOPED = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "PriorityClass",
    "RuntimeClass",
    "DeviceClass",
    "ResourceSlice",
    "DeviceTaintRule",
}


@dataclass(slots=True)
class Objects:
    """All objects that were read from the documents, and the mistakes in them.

    `typed`: objects of the cluster itself, such as nodes and pods. `manifests`: the objects that dialects read.
    `origins`: the file of every object. `generated`: by namespace and generateName, the next number for a name that the
    API server would generate. `doubtful`: warnings about objects that are ignored, probably against the user's intent:
    this kind is read in another group or spelling.
    """

    typed: dict[ObjectKey, Struct] = field(default_factory=dict)
    manifests: dict[ObjectKey, Manifest] = field(default_factory=dict)
    origins: dict[ObjectKey, str] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    mistakes: list[Mistake] = field(default_factory=list)
    doubtful: list[Mistake] = field(default_factory=list)
    generated: dict[tuple[str, str], int] = field(default_factory=dict)
    described: dict[_GroupKind, KindRow] = field(default_factory=dict)
    """The kinds that WorkloadKinds describe, including the WorkloadKinds of the documents, by group and kind."""

    def nodes(self) -> list[Node]:
        """Return the Nodes among the objects."""
        return [each for each in self.typed.values() if isinstance(each, Node)]

    def pods(self) -> list[Pod]:
        """Return the Pods among the objects, bound or not."""
        return [each for each in self.typed.values() if isinstance(each, Pod)]

    def priority_classes(self) -> list[PriorityClass]:
        """Return the PriorityClasses among the objects."""
        return [each for each in self.typed.values() if isinstance(each, PriorityClass)]

    def budgets(self) -> list[PodDisruptionBudget]:
        """Return the PodDisruptionBudgets among the objects."""
        return [each for each in self.typed.values() if isinstance(each, PodDisruptionBudget)]

    def quotas(self) -> list[ResourceQuota]:
        """Return the ResourceQuotas among the objects."""
        return [each for each in self.typed.values() if isinstance(each, ResourceQuota)]

    def claims(self) -> list[PersistentVolumeClaim]:
        """Return the PersistentVolumeClaims (volume claims) among the objects."""
        return [each for each in self.typed.values() if isinstance(each, PersistentVolumeClaim)]

    def volumes(self) -> list[PersistentVolume]:
        """Return the PersistentVolumes among the objects."""
        return [each for each in self.typed.values() if isinstance(each, PersistentVolume)]

    def storage_classes(self) -> list[StorageClass]:
        """Return the StorageClasses among the objects."""
        return [each for each in self.typed.values() if isinstance(each, StorageClass)]

    def runtime_classes(self) -> list[RuntimeClass]:
        """Return the RuntimeClasses among the objects."""
        return [each for each in self.typed.values() if isinstance(each, RuntimeClass)]

    def device_classes(self) -> list[devices.DeviceClass]:
        """Return the DeviceClasses among the objects."""
        return [each for each in self.typed.values() if isinstance(each, devices.DeviceClass)]

    def devices(self) -> DeviceObjects:
        """Return the objects about devices that were read from the documents, such as ResourceSlices and
        ResourceClaims.

        The templates that NVIDIA's driver creates for the ComputeDomains in the documents are added.
        """
        every = self.typed.values()
        templates = [each for each in every if isinstance(each, devices.ResourceClaimTemplate)]
        domains = (each for each in every if isinstance(each, compute_domains.ComputeDomain))
        known = {each.key for each in templates}
        templates += [each for each in map(compute_domains.template_of, domains) if each.key not in known]
        return DeviceObjects(
            slices=[each for each in every if isinstance(each, devices.ResourceSlice)],
            classes=self.device_classes(),
            claims=[each for each in every if isinstance(each, devices.ResourceClaim)],
            templates=templates,
            taint_rules=[each for each in every if isinstance(each, devices.DeviceTaintRule)],
        )

    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Return the labels of each Namespace among the objects, by the namespace's name."""
        found = (each for each in self.typed.values() if isinstance(each, Namespace))
        return {each.metadata.name: each.metadata.labels for each in found}

    def sharing(self) -> dict[str, str | None]:
        """By namespace, its annotation `phalanx.dev/shares-groups-with`; None if it has no such annotation. The
        annotation lists the namespaces whose gangs may be in one group (such as a GangGroup) with gangs of this
        namespace.

        The key "*" is for namespaces that no document describes. They share their groups with all namespaces.
        """
        found = (each.metadata for each in self.typed.values() if isinstance(each, Namespace))
        return {EVERYBODY: EVERYBODY, **{each.name: each.annotations.get(SHARES_GROUPS_WITH) for each in found}}


def read_objects(
    documents: Iterable[Document],
    deadline: Deadline = NO_DEADLINE,
    described: Mapping[_GroupKind, KindRow] = _NONE,
) -> Objects:
    """Read the documents into objects by their kind. Raises `OutOfTimeError` if the deadline passes before the end.

    :param described: rows of the user-defined kinds that the cluster's own WorkloadKinds describe.
    """
    objects, unknown = Objects(), list[Document]()
    for document in deadline.iterate(documents):
        problems = list(_problems(document.manifest)) or list(wrong_kind(document.manifest))
        if problems:
            objects.mistakes += [_mistake(document, *problem) for problem in problems]
        elif (kind := _kind(document)) in TYPED or kind in _dialect_kinds():
            _read(document, kind, objects)
        else:
            unknown.append(document)
    own = (each for at, each in objects.manifests.items() if at[:2] == _WORKLOAD_KIND)
    objects.described = {**described, **rows_of(own)}
    for document in deadline.iterate(unknown):
        _read_described(document, objects)
    return objects


def _kind(document: Document) -> _GroupKind:
    return group_of(document.manifest["apiVersion"]), document.manifest["kind"]


def _read_described(document: Document, objects: Objects) -> None:
    """Read an object of a user-defined kind. An object of an unknown kind is counted as ignored."""
    kind = _kind(document)
    if kind in objects.described:
        with_its_row = Document(document.origin, with_row(document.manifest, objects.described))
        _read(with_its_row, kind, objects)
        return
    objects.ignored[document.manifest["kind"]] += 1
    nearly = list(_nearly_read(document, kind))
    vain = asking_in_vain(document.manifest)
    if vain is not None and not nearly:
        objects.mistakes.append(_mistake(document, vain.field, vain.text))
    objects.doubtful += nearly


def _read(document: Document, group_kind: _GroupKind, objects: Objects) -> None:
    document = Document(document.origin, _defaulted(document.manifest, group_kind, objects))
    key = key_of(document.manifest)
    if key in objects.origins:
        objects.mistakes.append(_mistake(document, "", f"is given twice, first in {objects.origins[key]}"))
        return
    objects.origins[key] = document.origin
    objects.mistakes += [_mistake(document, path, problem) for path, problem in asking_on(document.manifest)]
    if group_kind not in TYPED:
        found = (*wrong_times(document.manifest), *_wrong_in_template(document.manifest))
        found = found or wrong_fields(document.manifest)
        wrong = [_mistake(document, path, problem) for path, problem in found]
        objects.mistakes += wrong
        if not wrong:
            objects.manifests[key] = document.manifest
        return
    try:
        value = msgspec.convert(document.manifest, TYPED[group_kind])
    except msgspec.ValidationError as error:
        objects.mistakes.append(_shape_mistake(document, str(error)))
        if TYPED[group_kind] is PodDisruptionBudget:
            named = ObjectMeta(name=key[3], namespace=key[2])
            objects.typed[key] = _allowing_nothing(PodDisruptionBudget(named), [_SELECTOR])
        return
    parsed = (*wrong_times(document.manifest), *_wrong_quantities(value), *wrong_devices(value))
    found = parsed or wrong_fields(document.manifest)
    wrong = [_mistake(document, path, problem) for path, problem in found]
    objects.mistakes += wrong
    if not wrong:
        objects.typed[key] = value
    elif isinstance(value, PodDisruptionBudget):
        objects.typed[key] = _allowing_nothing(value, [path for path, _ in found])


def _allowing_nothing(budget: PodDisruptionBudget, wrong: Iterable[str]) -> PodDisruptionBudget:
    """Return a disruption budget in place of a faulty one. It selects the same pods and allows no eviction.

    If the selector itself is faulty, the new budget covers all pods of its namespace. `wrong`: paths of faulty fields.
    """
    spec = budget.spec
    if any(path.startswith(_SELECTOR) for path in wrong):
        spec = msgspec.structs.replace(spec, selector=LabelSelector())
    return msgspec.structs.replace(budget, spec=spec, status=DisruptionBudgetStatus(disruptions_allowed=0))


def _nearly_read(document: Document, group_kind: _GroupKind) -> Iterator[Mistake]:
    """Yield a mistake about an ignored object if the same kind is read in another API group or in another spelling."""
    group, kind = group_kind
    if group_kind in _OTHERS:
        return
    known = [each for each in (*TYPED, *_dialect_kinds()) if each[1].casefold() == kind.casefold()]
    if any(each[0] == group for each in known):
        yield _mistake(document, "kind", f'"{kind}" is left out; write {known[0][1]}')
    elif known:
        where = listed(list(dict.fromkeys(_api_version(*each) for each in known)))
        yield _mistake(
            document, "apiVersion", f'"{document.manifest["apiVersion"]}" is left out: {known[0][1]} is read of {where}'
        )


def _api_version(group: str, kind: str) -> str:
    """Return the apiVersion in which objects of a kind are read; only the group if all its versions are read."""
    versions = (each.versions for each in all_kinds() if (each.group, each.kind) == (group, kind))
    version = next(versions, ("v1",) if (group, kind) in TYPED else ("",))[0]
    return "/".join(filter(None, (group, version)))


@cache
def _dialect_kinds() -> Mapping[_GroupKind, bool]:
    """Return the kinds that dialects read, and all workload kinds, each with whether it is namespaced.

    A workload kind that is not supported yet is included, so that its objects are rejected and not ignored.
    """
    workloads = dict.fromkeys(WORKLOADS, True)
    return workloads | {(kind.group, kind.kind): kind.namespaced for kind in all_kinds()}


def _problems(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the faults of apiVersion, kind and metadata, as (field, problem). All other checks need these fields."""
    for name in ("apiVersion", "kind"):
        value = manifest.get(name)
        if not isinstance(value, str) or not value:
            yield name, "is missing" if value is None else f"expected a text, got {_kind_of(value)}"
    metadata = manifest.get("metadata", {})
    if not isinstance(metadata, Mapping):
        yield "metadata", f"expected an object, got {_kind_of(metadata)}"
        return
    names = [metadata[name] for name in ("name", "generateName") if name in metadata]
    if not any(names):
        yield "metadata.name", "is missing"
    fields = ("name", "generateName", "namespace")
    unreadable = [each for each in fields if not isinstance(metadata.get(each, ""), str)]
    for each in unreadable:
        yield f"metadata.{each}", f"expected a text, got {_kind_of(metadata[each])}"
    if not unreadable:
        yield from wrong_names(metadata)


def _defaulted(manifest: Mapping[str, Any], group_kind: _GroupKind, objects: Objects) -> dict[str, Any]:
    metadata = dict(manifest.get("metadata", {}))
    namespaced = _dialect_kinds().get(group_kind, group_kind[1] not in _CLUSTER_SCOPED)
    if namespaced:
        metadata.setdefault("namespace", DEFAULT_NAMESPACE)
    else:
        metadata.pop("namespace", None)
    if group_kind == ("", "Pod") and not metadata.get("name"):
        metadata["name"] = _generated(metadata, objects)
    return {**manifest, "metadata": metadata}


def _generated(metadata: Mapping[str, Any], objects: Objects) -> str:
    """Return the name that a pod gets from its `generateName`: this prefix and a number, so every run gives the same
    names.
    """
    prefix, namespace = metadata["generateName"], metadata["namespace"]
    number = objects.generated.get((namespace, prefix), 0)
    while ("", "Pod", namespace, f"{prefix}{number}") in objects.origins:
        number += 1
    objects.generated[namespace, prefix] = number + 1
    return f"{prefix}{number}"


def _wrong_quantities(value: Struct) -> Iterator[tuple[str, str]]:
    """Yield the quantities of a node, a pod or a runtime class that cannot be parsed, as (field, problem)."""
    for path, resource, quantity in _quantities(value):
        try:
            countable(resource, quantity)
        except ValueError as error:
            yield f"{path}.{resource}", str(error)


def _wrong_in_template(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the quantities of a workload's pod templates that cannot be parsed, as (field, problem).
    A malformed template yields nothing: its dialect reports it later as a fault.
    """
    with suppress(MalformedError):
        for path, pod in _examples(manifest):
            for at, problem in _wrong_quantities(pod):
                yield f"{path}.{at}", problem


def _examples(manifest: Manifest) -> Iterator[tuple[str, Pod]]:
    """Yield the field path of each pod template of a workload, with a pod as the template creates it.

    Raises `MalformedError` for a malformed template.
    """
    if row_of(manifest) is not None:
        yield from zip((each.path for each in templates(manifest)), example_pods(manifest), strict=True)


def _quantities(value: Struct) -> Iterator[tuple[str, str, str | float]]:
    """Yield every quantity of a node, a pod or a runtime class, as (field path, resource, text)."""
    if isinstance(value, Pod):
        yield from quantities(value)
    if isinstance(value, Node):
        yield from (("status.allocatable", name, text) for name, text in value.status.allocatable.items())
    if isinstance(value, RuntimeClass):
        yield from (("overhead.podFixed", name, text) for name, text in value.overhead.pod_fixed.items())


def _shape_mistake(document: Document, message: str) -> Mistake:
    problem, where = parted(message, document.manifest)
    text = f"{problem[:1].lower()}{problem[1:].replace('`', '')}; {shape_remedy(problem)}"
    return _mistake(document, where.lstrip("."), text)


def _mistake(document: Document, path: str, problem: str) -> Mistake:
    return Mistake(document.origin, problem, str(document), path)


def _kind_of(value: Any) -> str:
    return {"dict": "an object", "list": "a list", "str": "a text", "bool": "true or false"}.get(
        type(value).__name__, "a number"
    )
