"""The Run:ai dialect as the table of dialects knows it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import MalformedError
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.resource_kinds import ResourceKind
from gangs.runai import NAME, jobs, keys, other_workloads, owned_pods, topologies
from gangs.sources import PodKeys, Sources
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, is_job
from kube.keys import WORKLOAD
from kube.objects import Pod
from kube.topology import Topology


class RunaiDialect:
    """Jobs with annotations of kai.scheduler, and its Topology objects."""

    name = NAME
    pod_keys = PodKeys(
        labels=(WORKLOAD,),
        annotations=keys.WISHES,
        scheduler_names=keys.SCHEDULERS,
        on_workloads=tuple(("annotations", key) for key in keys.WISHES),
    )
    group_kinds: tuple[ResourceKind, ...] = (ResourceKind(JOB_GROUP, ("v1",), JOB_KIND, "jobs"),)
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
        """By the Job that controls the pod, where its template says so; else by any other controller, or by itself."""
        name = jobs.owner_of(pod) or owned_pods.owner_of(pod)
        return GangKey(NAME, pod.metadata.namespace, name) if name else None

    def protected(self, pod: Pod) -> str:  # noqa: ARG002 -- the protocol's signature
        """Run:ai protects no pod: priority classes say who may be a victim."""
        return ""

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """One gang to each Job that asks for it, and one to each other controller whose pods do."""
        findings, gangs = Findings(), list[Gang]()
        for manifest in sources.of_kind(JOB_GROUP, JOB_KIND, about):
            gang = _read_job(manifest, sources, topologies, findings)
            gangs += [] if gang is None else [gang]
        for manifest in sources.called(about):
            _check(manifest, sources, findings)
        taken = {gang.key for gang in gangs}
        for key, pods in sorted(_pods_by_owner(sources.pods).items()):
            if about in (None, key):
                gang = owned_pods.read_pods(key.name, pods, topologies, findings, taken=key in taken)
                gangs += [] if gang is None else [gang]
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """The Topology objects of kai.scheduler."""
        written = sources.of_kind(keys.GROUP, keys.TOPOLOGY_OBJECT)
        found = (topologies.topology_of(each, findings) for each in written)
        return [each for each in found if each is not None]

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """The label by which the pods of a Job that is a gang are known."""
        del sources, claimed
        return jobs.template_labels(manifest) if is_job(manifest) else {}


def _pods_by_owner(pods: Sequence[Pod]) -> dict[GangKey, list[Pod]]:
    """The pods that ask for themselves, by their gang."""
    found: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        name = owned_pods.owner_of(pod)
        if name is not None and jobs.owner_of(pod) is None:
            found[GangKey(NAME, pod.metadata.namespace, name)].append(pod)
    return dict(found)


def _check(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    try:
        other_workloads.check(manifest, sources, findings)
    except MalformedError as error:
        findings.take([error.fault])


def _read_job(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    try:
        return jobs.read_job(manifest, sources, topologies, findings)
    except MalformedError as error:
        findings.take([error.fault])
        return None
