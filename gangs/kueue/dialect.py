"""Kueue's dialect: the implementation of the protocols in `gangs.dialects.protocol`."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from gangs.findings import Findings
from gangs.kueue import NAME, keys, marks, members_of_gangs, owned, queues, status, topologies, units
from gangs.labelled_workloads import makers
from gangs.manifests import MalformedError, key_of, metadata_of, pod_ref, ref_of
from gangs.mirrors import flavors_in_force, key_text, mirrored_key
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.object_statuses import ObjectStatus, QuotaUse, StatusView
from gangs.quota_model import Charged
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, QueueNamed, Sources
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND
from gangs.workloads.kind_table import READ, WITH_RULES, WORKLOADS, has_rules, row_of
from gangs.workloads.pod_templates import made_this, templates
from kube import keys as own
from kube.objects import Pod
from kube.topology import Topology

_QUEUE_VERSIONS = tuple(version for version in keys.VERSIONS if version != "v1alpha1")


class KueueDialect:
    """Kueue's dialect: workloads and pods that name a queue or a level, with Kueue's topologies, flavors and queues."""

    name = NAME
    pod_keys = PodKeys(
        labels=(keys.QUEUE_NAME, keys.POD_GROUP),
        annotations=keys.WISHES,
        more_labels=(keys.POD_INDEX,),
        more_annotations=(keys.POD_GROUP_TOTAL, keys.POD_INDEX_LABEL),
        on_workloads=tuple(
            (place, key) for place in ("labels", "annotations") for key in (keys.QUEUE_NAME, *keys.WISHES)
        ),
    )
    workload_labels: tuple[str, ...] = (keys.QUEUE_NAME,)
    queue_group = keys.GROUP
    group_kinds: tuple[ResourceKind, ...] = (*WITH_RULES, *marks.QUEUED)
    workload_kinds = READ
    topology_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(
            keys.GROUP,
            keys.VERSIONS,
            keys.TOPOLOGY,
            "topologies",
            namespaced=False,
            describes=keys.TOPOLOGY_KIND,
        ),
        ResourceKind(keys.GROUP, _QUEUE_VERSIONS, keys.FLAVOR, "resourceflavors", namespaced=False),
        ResourceKind(keys.GROUP, _QUEUE_VERSIONS, keys.CLUSTER_QUEUE, keys.CLUSTER_QUEUES, namespaced=False),
        ResourceKind(keys.GROUP, _QUEUE_VERSIONS, keys.LOCAL_QUEUE, keys.LOCAL_QUEUES),
        ResourceKind(keys.GROUP, _QUEUE_VERSIONS, keys.COHORT, "cohorts", namespaced=False),
        ResourceKind("", ("v1",), keys.CONFIG_KIND, "configmaps", only=(keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)),
    )

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang of the pod's group, else of the workload that controls it, else a gang of this pod alone.

        Return None if the pod names no group, no queue and no level of Kueue.
        """
        return units.gang_of(pod)

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return the gangs of workloads, of pod groups, and of single pods."""
        findings, gangs = Findings(), dict[GangKey, Gang]()
        around = units.Surroundings(sources, topologies, _used(sources, about))
        pods = _by_gang(sources.pods)
        for manifest in sources.of_kind(JOB_GROUP, JOB_KIND, about):
            _keep(_tried(_read_job, manifest, (), around, findings), gangs, findings)
        marked = makers.by_workload(sources.pods, NAME)
        for kind in marks.QUEUED:
            for manifest in makers.of_kind(kind.group, kind.kind, WORKLOADS[kind.group, kind.kind], sources, about):
                by_mark = marks.needs_mark(manifest)
                of_it = marked.get(key_of(manifest), ()) if by_mark else pods.get(_key(manifest), ())
                own_pods = [pod for pod in of_it if _made_by(pod, manifest, sources)]
                for each in _tried(owned.read_workload, manifest, own_pods, around, findings) or ():
                    if about in (None, each.key):
                        _keep(each, gangs, findings)
        for key, own_pods in sorted(pods.items()):
            if about in (None, key):
                gang = _rest(key, own_pods, gangs.get(key), around, findings)
                gangs |= {} if gang is None else {key: gang}
        for manifest in sources.called(about):
            if row_of(manifest) is not None and not has_rules(manifest):
                _check(manifest, sources, findings)
        return Reading(tuple(gangs.values()), findings.faults, findings.advice)

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return the topologies of valid Topology objects of Kueue. Faults of invalid ones go to `findings`."""
        found = (topologies.topology_of(each, findings) for each in sources.of_kind(keys.GROUP, keys.TOPOLOGY))
        return [each for each in found if each is not None]

    def review(self, sources: Sources, findings: Findings) -> None:
        """Check all ResourceFlavors, ClusterQueues, LocalQueues and Cohorts."""
        queues.review(sources, findings)

    def charged(self, namespace: str, queue: str, sources: Sources) -> Charged:
        """Return the account (ClusterQueue, flavors and cohort) whose quota a gang uses if it names this LocalQueue."""
        return queues.account_of(namespace, queue, sources)

    def queue_named(self, pod: Pod) -> QueueNamed | None:
        """Return the queue in the pod's label `kueue.x-k8s.io/queue-name`, or in the older annotation; None if it has
        neither.
        """
        return units.queue_named(pod.metadata)

    def queue_statuses(self, view: StatusView, used: Mapping[GangKey, QuotaUse]) -> Iterator[ObjectStatus]:
        """Return the statuses that all ClusterQueues and LocalQueues should have."""
        return status.queue_statuses(view, used)

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """Return the labels that admission adds to the pod templates of a workload that names a queue; else empty.

        They are the queue's name, and for some kinds the label `phalanx.dev/workload`.
        """
        del claimed
        return owned.template_labels(manifest, sources)

    def resumes(self, manifest: Manifest) -> bool:
        """Whether admission resumes the workload, because it is in a queue.

        Users of Kueue create such a workload suspended. In Phalanx the gates of its pods keep it from starting instead.
        """
        return owned.started(manifest)


def _key(manifest: Manifest) -> GangKey:
    _, _, namespace, name = key_of(manifest)
    return GangKey(NAME, namespace, name)


def _by_gang(pods: Sequence[Pod]) -> dict[GangKey, list[Pod]]:
    found: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        if key := units.gang_of(pod):
            found[key].append(pod)
    return dict(found)


_Found = TypeVar("_Found")
_Read = Callable[[Manifest, Sequence[Pod], units.Surroundings, Findings], _Found]


def _tried(
    read: _Read[_Found], manifest: Manifest, pods: Sequence[Pod], around: units.Surroundings, findings: Findings
) -> _Found | None:
    try:
        return read(manifest, pods, around, findings)
    except MalformedError as error:
        findings.take([error.fault])
        return None


def _read_job(manifest: Manifest, _pods: Sequence[Pod], around: units.Surroundings, findings: Findings) -> Gang | None:
    metadata = metadata_of(manifest)
    if any(map(marks.marked, templates(manifest))) and not units.queue_of(metadata.labels, metadata.annotations):
        return None  # its pods are members of the gang of the JobSet above it
    if any(members_of_gangs.in_a_gang(each) for each in templates(manifest)):
        members_of_gangs.check_queues(manifest, around.sources, findings)
        return None
    return units.read_job(manifest, around, findings)


def _keep(gang: Gang | None, gangs: dict[GangKey, Gang], findings: Findings) -> None:
    """Add a gang to `gangs`. If another gang has the same key, report a fault instead. None is ignored."""
    if gang is None:
        return
    if (other := gangs.setdefault(gang.key, gang)) is not gang:
        problem = f"{other.source}, which is a gang, has the same name"
        findings.fault(gang.source, "metadata.name", problem, "rename one of the two")


def _made_by(pod: Pod, manifest: Manifest, sources: Sources) -> bool:
    """Whether a pod belongs to the workload, and to no pod group (`kueue.x-k8s.io/pod-group-name`)."""
    if marks.needs_mark(manifest):
        return marks.made_by(pod, manifest, sources)
    return not pod.metadata.labels.get(keys.POD_GROUP) and made_this(pod, ref_of(manifest))


def _rest(
    key: GangKey,
    pods: Sequence[Pod],
    gang: Gang | None,
    around: units.Surroundings,
    findings: Findings,
) -> Gang | None:
    """Return the gang of pods that name `key`, if no workload is the gang with this key; else None.

    If there is such a workload, a pod group of the same name is a fault.

    :param gang: the gang of a workload with this key; None if there is none.
    """
    grouped = [pod for pod in pods if pod.metadata.labels.get(keys.POD_GROUP)]
    if gang is not None:
        for pod in grouped:
            problem = f"{gang.source}, which is a gang, has the same name"
            findings.fault(pod_ref(pod), f"metadata.labels[{keys.POD_GROUP}]", problem, "rename the group")
        return None
    if grouped:
        return units.read_pods(key, grouped, around, findings)
    return owned.read_pods(key, pods, around, findings)


def _used(sources: Sources, about: GangKey | None) -> units.Used:
    """Return, by gang of this dialect, the flavors that its plan in force uses, from the statuses of Gang objects.

    :param about: if given, only this gang is looked up.
    """
    if about is None:
        gangs = tuple(sources.of_kind(own.GROUP, "Gang"))
    else:
        gangs = tuple(sources.sought(own.GROUP, "Gang", _shown_in, key_text(about)))
    found: dict[str, tuple[str, ...]] = {}
    for gang in gangs:
        if flavors := flavors_in_force(gang):
            found |= dict.fromkeys(_shown_in(gang), flavors)
    return found


def _shown_in(gang: Manifest) -> tuple[str, ...]:
    """Return the gang of this dialect that a Gang object mirrors, as text in a tuple; empty if it mirrors none.

    It is the object's index value (`kube.catalog.Naming`), by which the mirror of a gang is found.
    """
    key = mirrored_key(gang)
    return (key_text(key),) if key is not None and key.dialect == NAME else ()


def _check(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    try:
        owned.check(manifest, sources, findings)
    except MalformedError as error:
        findings.take([error.fault])
