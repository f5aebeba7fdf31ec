"""Run:ai's dialect: the implementation of the protocols in `gangs.dialects.protocol`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from gangs.findings import Findings
from gangs.labelled_workloads import makers
from gangs.manifests import MalformedError, key_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.resource_kinds import ResourceKind
from gangs.runai import NAME, keys, other_workloads, owned_pods, topologies, wishes, workloads
from gangs.sources import PodKeys, Sources
from gangs.workloads.kind_table import READ, WATCHED, WITH_RULES, WORKLOADS
from kube.keys import WORKLOAD
from kube.objects import Pod
from kube.topology import Topology

_ANNOTATED = tuple(each for each in (*WITH_RULES, *WATCHED) if WORKLOADS[each.group, each.kind].by_annotation)
"""The kinds that Run:ai's annotations can make gangs."""


class RunaiDialect:
    """Run:ai's dialect: workloads and pods with `kai.scheduler/…` annotations, and kai.scheduler's Topology objects."""

    name = NAME
    pod_keys = PodKeys(
        labels=(WORKLOAD,),
        annotations=keys.WISHES,
        scheduler_names=keys.SCHEDULERS,
        on_workloads=tuple(("annotations", key) for key in keys.WISHES),
        on_jobs_of_gangs=tuple(("annotations", key) for key in keys.WISHES),
    )
    group_kinds: tuple[ResourceKind, ...] = _ANNOTATED
    workload_kinds = READ
    propagated = keys.PROPAGATED
    topology_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(
            keys.GROUP,
            keys.VERSIONS,
            keys.TOPOLOGY_OBJECT,
            "topologies",
            namespaced=False,
            describes=keys.TOPOLOGY_KIND,
        ),
    )

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that the pod's workload is, if the pod has the label `phalanx.dev/workload`.

        Otherwise, if the pod itself has Run:ai's annotations, return the gang of its controller, or of this pod alone.
        Return None for any other pod.
        """
        name = workloads.gang_of(pod) or owned_pods.owner_of(pod)
        return GangKey(NAME, pod.metadata.namespace, name) if name else None

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return one gang for each workload with Run:ai's annotations, and for each controller whose pods have them."""
        findings = Findings()
        gangs = self._read_workloads(sources, topologies, about, findings)
        for manifest in sources.called(about):
            _check(manifest, sources, topologies, findings)
        taken = {gang.key for gang in gangs}
        for key, pods in sorted(_pods_by_owner(sources.pods).items()):
            if about in (None, key):
                gang = owned_pods.read_pods(key.name, pods, sources, topologies, findings, taken=key in taken)
                gangs += [] if gang is None else [gang]
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def _read_workloads(
        self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None, findings: Findings
    ) -> list[Gang]:
        """Return the gangs of workloads with Run:ai's annotations, and of pods with the label `phalanx.dev/workload`
        whose workload does not exist.
        """
        made, gangs = makers.by_workload(sources.pods, NAME), list[Gang]()
        for kind in _ANNOTATED:
            at = kind.group, kind.kind
            for manifest in makers.of_kind(*at, WORKLOADS[at], sources, about):
                pods = made.pop(key_of(manifest), [])
                gangs += [
                    each
                    for each in _read_parts(pods, manifest, sources, topologies, findings)
                    if about in (None, each.key)
                ]
        lost = defaultdict[GangKey, list[Pod]](list)
        for pod in chain(*made.values()):
            if (key := self.gang_of(pod)) is not None and about in (None, key):
                lost[key].append(pod)
        waiting = (workloads.awaiting(key, pods, findings) for key, pods in sorted(lost.items()))
        return [*gangs, *(each for each in waiting if each is not None)]

    def asks(self, annotations: Mapping[str, str]) -> bool:
        """Whether the annotations of a workload ask for a gang. Called for a workload whose child workload is the gang,
        such as a TrainJob with its JobSet.
        """
        return wishes.opted_in(wishes.of(annotations))

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return the topologies of valid Topology objects of kai.scheduler. Faults of invalid ones go to `findings`."""
        written = sources.of_kind(keys.GROUP, keys.TOPOLOGY_OBJECT)
        found = (topologies.topology_of(each, findings) for each in written)
        return [each for each in found if each is not None]

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """Return the label `phalanx.dev/workload` for the pod templates of a workload that is a gang; else empty."""
        del claimed
        return workloads.template_labels(manifest, sources)


def _read_parts(
    pods: Sequence[Pod], manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings
) -> list[Gang]:
    try:
        return workloads.read_parts(pods, manifest, sources, topologies, findings)
    except MalformedError as error:
        findings.take([error.fault])
        return []


def _pods_by_owner(pods: Sequence[Pod]) -> dict[GangKey, list[Pod]]:
    """Return, by gang, the pods that have Run:ai's annotations themselves, and whose workload is not one gang as a
    whole.
    """
    found: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        name = owned_pods.owner_of(pod)
        if name is not None and workloads.gang_of(pod) is None:
            found[GangKey(NAME, pod.metadata.namespace, name)].append(pod)
    return dict(found)


def _check(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> None:
    try:
        other_workloads.check(manifest, sources, topologies, findings)
    except MalformedError as error:
        findings.take([error.fault])
