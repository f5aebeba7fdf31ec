"""Phalanx's own dialect: the implementation of the protocols in `gangs.dialects.protocol`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from gangs import workload_kinds
from gangs.findings import Findings
from gangs.labelled_workloads import makers
from gangs.manifests import MalformedError, key_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.object_statuses import ObjectStatus, TopologyView
from gangs.phalanx import (
    NAME,
    annotated_workloads,
    child_workloads,
    gang_objects,
    status,
    topologies,
    undescribed,
)
from gangs.phalanx.gang_annotations import KNOWN, WISHES, opted_in
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, Sources
from gangs.workloads import user_defined_kinds
from gangs.workloads.kind_table import WATCHED, WITH_RULES, WORKLOADS
from kube import keys
from kube.catalog import ObjectKey
from kube.objects import Pod
from kube.topology import Topology

_ANNOTATED = {
    (each.group, each.kind): row
    for each in (*WITH_RULES, *WATCHED)
    if (row := WORKLOADS[each.group, each.kind]).by_annotation
}
"""By API group and kind: the kinds that Phalanx's annotations can make gangs."""


class PhalanxDialect:
    """Phalanx's own dialect: Gang objects, workloads with annotations, and automatic namespaces."""

    name = NAME
    pod_keys = PodKeys(
        labels=(keys.GANG, keys.WORKLOAD),
        more_labels=(keys.POD_SET, keys.INDEX),
        more_annotations=(keys.INDEX,),
        on_workloads=tuple(("annotations", key) for key in WISHES),
    )
    propagated = KNOWN
    group_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(keys.GROUP, (keys.VERSION,), gang_objects.KIND, "gangs"),
        *(each for each in (*WITH_RULES, *WATCHED) if (each.group, each.kind) in _ANNOTATED),
        user_defined_kinds.RESOURCE,
    )
    topology_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(
            keys.GROUP,
            (keys.VERSION,),
            topologies.KIND,
            topologies.PLURAL,
            namespaced=False,
            describes=topologies.KIND,
        ),
    )

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that the pod's workload is, if the pod has the label `phalanx.dev/workload`.

        Otherwise return the gang that the pod's label `phalanx.dev/gang` names; None if it has neither.
        """
        maker = makers.owner_of(pod)
        name = makers.gang_name(maker.name, makers.part_of(pod)) if maker else pod.metadata.labels.get(keys.GANG)
        return GangKey(NAME, pod.metadata.namespace, name) if name else None

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return the gangs of Gang objects, of workloads, and of pods whose Gang object or workload does not exist.

        A gang of the last sort waits for the object. Faults of workloads and of WorkloadKinds are included.
        """
        findings, gangs = Findings(), dict[GangKey, Gang]()
        labelled, made = _by_gang_named(sources.pods), makers.by_workload(sources.pods)
        for manifest in sources.of_kind(keys.GROUP, gang_objects.KIND, about):
            if not gang_objects.is_mirror(manifest):
                pods = labelled.pop(key_of(manifest), [])
                _keep(gang_objects.read_gang(manifest, pods, sources, topologies, findings), gangs, findings)
        named = {key_of(each)[:2] for each in sources.called(about)} if about is not None else set()
        for at, row in {**_ANNOTATED, **workload_kinds.user_defined_rows(sources)}.items():
            if about is not None and at not in named and not row.part_by:
                continue  # no workload of this kind has the name; a part of a workload may have another name
            for manifest in makers.of_kind(*at, row, sources, about):
                read = partial(annotated_workloads.read_parts, made.pop(key_of(manifest), []))
                for gang in _tried(read, manifest, sources, topologies, findings) or ():
                    _keep(gang if about in (None, gang.key) else None, gangs, findings)
        workload_kinds.check_all(sources, about, findings)
        for key, pods in sorted(self._by_gang(chain(*labelled.values(), *made.values())).items()):
            # Pods of a deleted workload are skipped if another gang has its name.
            if about in (None, key) and key not in gangs:
                ref = makers.owner_of(pods[0]) or gang_objects.ref_of_key(key)
                part = makers.part_of(pods[0])
                alone = gang_objects.orphans(key, ref, pods, findings, part)
                _keep(undescribed.as_mirrored(alone, pods, sources) if alone else None, gangs, findings)
        for manifest in sources.called(about):
            _check(manifest, sources, topologies, findings)
        return Reading(tuple(gangs.values()), findings.faults, findings.advice)

    def _by_gang(self, pods: Iterable[Pod]) -> dict[GangKey, list[Pod]]:
        found: defaultdict[GangKey, list[Pod]] = defaultdict(list)
        for pod in pods:
            if (key := self.gang_of(pod)) is not None:
                found[key].append(pod)
        return found

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return the topologies of valid `phalanx.dev` Topology objects. Faults of invalid ones go to `findings`."""
        found = (topologies.topology_of(each, findings) for each in sources.of_kind(keys.GROUP, topologies.KIND))
        return [each for each in found if each is not None]

    def asks(self, annotations: Mapping[str, str]) -> bool:
        """Whether the annotations of a workload ask for a gang. Called for a workload whose child workload is the gang,
        such as a TrainJob with its JobSet.
        """
        return opted_in(annotations)

    def topology_status(self, view: TopologyView) -> ObjectStatus:
        """Return the status of a `phalanx.dev` Topology object: its domains with their free capacity."""
        return status.topology_status(view)

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """Return the label `phalanx.dev/workload` for the pod templates of a workload that is a gang; else empty."""
        return annotated_workloads.template_labels(manifest, sources, claimed=claimed)


_Read = TypeVar("_Read")


def _tried(
    read: Callable[[Manifest, Sources, Sequence[Topology], Findings], _Read],
    manifest: Manifest,
    sources: Sources,
    topologies: Sequence[Topology],
    findings: Findings,
) -> _Read | None:
    try:
        return read(manifest, sources, topologies, findings)
    except MalformedError as error:
        findings.take([error.fault])
        return None


def _keep(gang: Gang | None, gangs: dict[GangKey, Gang], findings: Findings) -> None:
    """Add a gang to `gangs`. If another gang has the same key, report a fault instead. None is ignored."""
    if gang is not None and (other := gangs.setdefault(gang.key, gang)) is not gang:
        problem = f"{other.source}, which is a gang, has the same name"
        findings.fault(gang.source, "metadata.name", problem, "rename one of the two")


def _check(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> None:
    try:
        annotated_workloads.check_unsupported(manifest, sources, findings)
        child_workloads.check(manifest, sources, topologies, findings)
    except MalformedError as error:
        findings.take([error.fault])


def _by_gang_named(pods: Sequence[Pod]) -> dict[ObjectKey, list[Pod]]:
    """Return the pods that name a Gang object, by its key. Pods with the label `phalanx.dev/workload` are left out."""
    found: defaultdict[ObjectKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        if (name := pod.metadata.labels.get(keys.GANG)) and makers.owner_of(pod) is None:
            found[keys.GROUP, gang_objects.KIND, pod.metadata.namespace, name].append(pod)
    return dict(found)
