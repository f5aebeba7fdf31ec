"""The own dialect as the table of dialects knows it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import MalformedError, key_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.object_statuses import ObjectStatus, TopologyView
from gangs.phalanx import NAME, gang_objects, jobs, status, topologies
from gangs.sources import Kind, PodKeys, Sources
from gangs.workloads import JOB_GROUP, JOB_KIND
from kube import keys
from kube.objects import Pod
from kube.topology import Topology


class PhalanxDialect:
    """Gang objects, Jobs with annotations, and automatic namespaces."""

    name = NAME
    pod_keys = PodKeys(
        labels=(keys.GANG, keys.WORKLOAD),
        more_labels=(keys.POD_SET, keys.INDEX),
        more_annotations=(keys.INDEX,),
        on_workloads=tuple(("annotations", key) for key in jobs.WISHES),
    )
    group_kinds: tuple[Kind, ...] = (
        Kind(keys.GROUP, (keys.VERSION,), gang_objects.KIND, "gangs"),
        Kind(JOB_GROUP, ("v1",), JOB_KIND, "jobs"),
    )
    topology_kinds: tuple[Kind, ...] = (
        Kind(
            keys.GROUP,
            (keys.VERSION,),
            topologies.KIND,
            topologies.PLURAL,
            namespaced=False,
            describes=topologies.KIND,
        ),
    )

    def gang_of(self, pod: Pod) -> GangKey | None:
        """By the Job that controls the pod, where its template says so; else by the label."""
        name = jobs.owner_of(pod) or pod.metadata.labels.get(keys.GANG)
        return GangKey(NAME, pod.metadata.namespace, name) if name else None

    def protected(self, pod: Pod) -> str:  # noqa: ARG002 -- the protocol's signature
        """Our own dialect protects no pod."""
        return ""

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Gangs of Gang objects and of Jobs; pods that name a missing one wait for it."""
        findings, gangs = Findings(), list[Gang]()
        labelled, owned = _by_name(sources.pods)
        for manifest in sources.of_kind(keys.GROUP, gang_objects.KIND, about):
            if not gang_objects.is_mirror(manifest):
                pods = labelled.pop(_key(manifest), [])
                gangs += _one(gang_objects.read_gang(manifest, pods, sources, topologies, findings))
        for manifest in sources.of_kind(JOB_GROUP, JOB_KIND, about):
            owned.pop(_key(manifest), None)
            gangs += _one(_read_job(manifest, sources, topologies, findings))
        taken = {gang.key for gang in gangs}
        for rest, ref_of in ((labelled, gang_objects.ref_of_key), (owned, jobs.ref_of_owner)):
            for key, pods in sorted(rest.items()):
                if about in (None, key) and key not in taken:  # pods of a Job that is gone, and a Gang of its name
                    gangs += _one(gang_objects.orphans(key, ref_of(key), pods, findings))
        for manifest in sources.called(about):
            _check(manifest, sources, findings)
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Our own Topology objects."""
        found = (topologies.topology_of(each, findings) for each in sources.of_kind(keys.GROUP, topologies.KIND))
        return [each for each in found if each is not None]

    def topology_status(self, view: TopologyView) -> ObjectStatus:
        """Of a Topology object."""
        return status.topology_status(view)

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """The label by which the pods of a Job that is a gang are known."""
        return jobs.template_labels(manifest, sources, claimed=claimed)


def _key(manifest: Manifest) -> GangKey:
    _, _, namespace, name = key_of(manifest)
    return GangKey(NAME, namespace, name)


def _one(gang: Gang | None) -> list[Gang]:
    return [] if gang is None else [gang]


def _read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    try:
        return jobs.read_job(manifest, sources, topologies, findings)
    except MalformedError as error:
        findings.take([error.fault])
        return None


def _check(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    try:
        jobs.check_unsupported(manifest, sources, findings)
    except MalformedError as error:
        findings.take([error.fault])


def _by_name(pods: Sequence[Pod]) -> tuple[dict[GangKey, list[Pod]], dict[GangKey, list[Pod]]]:
    """Pods by the Gang that they name, and pods by the Job that made them."""
    labelled: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    owned: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        if job := jobs.owner_of(pod):
            owned[GangKey(NAME, pod.metadata.namespace, job)].append(pod)
        elif name := pod.metadata.labels.get(keys.GANG):
            labelled[GangKey(NAME, pod.metadata.namespace, name)].append(pod)
    return dict(labelled), dict(owned)
