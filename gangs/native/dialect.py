"""Kubernetes' own dialect (PodGroups of scheduling.k8s.io): the implementation of the protocols in
`gangs.dialects.protocol`.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import MalformedError, key_of
from gangs.model import Gang, GangKey, Manifest, ObjectRef, Reading
from gangs.native import NAME, groups, job_groups, keys, units
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, Sources
from kube.objects import Pod
from kube.topology import Topology


class NativeDialect:
    """Pods that name a PodGroup of scheduling.k8s.io, and CompositePodGroups above it."""

    name = NAME
    pod_keys = PodKeys(fields=(keys.POD_FIELD,))
    group_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(keys.GROUP, keys.POD_GROUP_VERSIONS, keys.POD_GROUP_KIND, keys.POD_GROUPS),
        ResourceKind(keys.GROUP, keys.COMPOSITE_VERSIONS, keys.COMPOSITE_KIND, keys.COMPOSITES),
    )
    topology_kinds: tuple[ResourceKind, ...] = ()

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the key of the PodGroup that the pod names; None if it names none, or one that Phalanx created."""
        return units.gang_of(pod)

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return one gang for each PodGroup, or for all PodGroups below one CompositePodGroup."""
        findings, gangs = Findings(), list[Gang]()
        units.faulty_composites(sources, about, findings)
        together: defaultdict[ObjectRef, list[units.Unit]] = defaultdict(list)
        for unit in _units(sources, about, findings):
            together[unit.root].append(unit)
        for of_gang in together.values():
            gang = groups.read_group(sorted(of_gang, key=lambda unit: unit.key), topologies, findings)
            gangs += [] if gang is None else [gang]
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def topologies(  # noqa: D102 -- the protocol says it; the API has no topology objects, only node labels
        self, sources: Sources, findings: Findings
    ) -> Sequence[Topology]:
        del sources, findings
        return ()

    def joined(self, pod: Pod) -> frozenset[GangKey]:  # noqa: ARG002 -- the protocol's signature
        """Return an empty set: a pod of this dialect names only its own PodGroup."""
        return frozenset()

    def grouped(self, about: GangKey, linked: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
        """Return the keys of the PodGroups that are planned together with `about`, below the same CompositePodGroup."""
        del linked
        return units.grouped(about, sources)

    def parts(self, gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
        """Return all `GangKey`s by which pods of a gang may name the gang: the keys of its PodGroups, each of which is
        a pod set of the gang.
        """
        return {gang, *(gang._replace(name=each) for each in pod_sets if len(pod_sets) > 1)}

    def company(self, pod: Pod) -> Hashable | None:  # noqa: ARG002 -- the protocol's signature
        """Return None: pods outside the pod's gang have no effect on how the gang is read."""
        return None

    def with_group(self, workload: Manifest) -> tuple[Manifest, Manifest] | None:
        """Return a Job with `spec.scheduling` whose pods name a PodGroup, and this PodGroup; None for any other
        workload.
        """
        return job_groups.with_group(workload)

    def template_labels(  # noqa: D102 -- the protocol says it; a template has the field of the pods itself
        self, manifest: Manifest, sources: Sources, *, claimed: bool
    ) -> Mapping[str, str]:
        del manifest, sources, claimed
        return {}


def _units(sources: Sources, about: GangKey | None, findings: Findings) -> list[units.Unit]:
    """Return the PodGroups without faults, each with its pods.

    Pods whose PodGroup does not exist are included. The faults go to `findings`.

    :param about: only the PodGroups that are planned together with this one are returned; None: all.
    """
    pods: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in sources.pods:
        if key := units.gang_of(pod):
            pods[key].append(pod)
    names = None if about is None else units.grouped(about, sources)
    found = list[units.Unit]()
    for manifest in units.group_manifests(sources, names):
        _, _, namespace, name = key_of(manifest)
        own = Findings()
        of_group = pods.pop(GangKey(NAME, namespace, name), [])
        try:
            unit = units.unit_of_group(manifest, of_group, sources, own)
        except MalformedError as error:
            own.take([error.fault])
        else:
            found += [] if own.faults else [unit]
        findings.take(own.faults, own.advice)
    for key, of_gang in sorted(pods.items()):
        if names is None or key in names:
            loose = units.unit_of_pods(key, of_gang)
            found += [] if loose is None else [loose]
    return found
