"""KAI Scheduler's dialect: the implementation of the protocols in `gangs.dialects.protocol`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gangs.findings import Findings
from gangs.kai import NAME, groups, keys, members, owned, status
from gangs.kai.settings import Settings, settings_of
from gangs.kai.topologies import topology_of
from gangs.manifests import MalformedError, ref_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.object_statuses import ObjectStatus, StatusView
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, Sources
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND
from gangs.workloads.kind_table import READ, has_rules, row_of
from kube.objects import Pod
from kube.topology import Topology


class KaiDialect:
    """KAI Scheduler's dialect: PodGroups, pods that name a topology policy, and the ConfigMap of the policies."""

    name = NAME
    pod_keys = PodKeys(
        annotations=(keys.POD_GROUP, keys.POD_GROUP_NAME, keys.POLICY),
        scheduler_names=(keys.SCHEDULER,),
        more_labels=(keys.SUB_GROUP,),
        more_annotations=(keys.ROLE,),
    )
    group_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(keys.GROUP, keys.VERSIONS, keys.POD_GROUP_KIND, keys.POD_GROUPS),
        *READ,
    )
    workload_kinds = READ
    topology_kinds: tuple[ResourceKind, ...] = (
        ResourceKind("", ("v1",), keys.CONFIG_KIND, "configmaps", only=(keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)),
    )

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang of the pod's PodGroup; None if the pod names neither a PodGroup nor a topology policy.

        If the pod names only a policy, the result is the gang of the pod's workload, or a gang of this pod alone.
        """
        return members.gang_of(pod)

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return one gang for each PodGroup, and for each workload or single pod that only names a topology policy."""
        findings, gangs = Findings(), list[Gang]()
        settings = settings_of(sources, Findings())
        own = topology_of(settings)
        for unit, wrong in _units(sources, about):
            gang = groups.read_unit(unit, settings, own, topologies, wrong) if unit else None
            findings.take(wrong.faults, wrong.advice)
            if gang is not None and not wrong.faults:
                gangs.append(gang)
        _check_jobs(about, sources, settings, findings)
        _check_others(about, sources, findings)
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return KAI Scheduler's topology, if a PodGroup or a pod uses this dialect or the ConfigMap
        kai-scheduler-config exists.

        It has the levels that the ConfigMap lists, and default levels.
        """
        settings = settings_of(sources, findings)
        return (topology_of(settings),) if _used(sources) else ()

    def group_statuses(self, key: GangKey, view: StatusView) -> Iterator[ObjectStatus]:
        """Yield the status of the PodGroup with the gang's key, if it exists and has pods."""
        return status.group_statuses(key, view)

    def template_labels(  # noqa: D102 -- the protocol says it; workloads of this dialect carry their keys themselves
        self, manifest: Manifest, sources: Sources, *, claimed: bool
    ) -> Mapping[str, str]:
        del manifest, sources, claimed
        return {}


def _used(sources: Sources) -> bool:
    config = sources.get("", keys.CONFIG_KIND, keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)
    there = config is not None or sources.has(keys.GROUP, keys.POD_GROUP_KIND)
    return there or any(map(members.gang_of, sources.pods))


def _units(sources: Sources, about: GangKey | None) -> list[tuple[groups.Unit | None, Findings]]:
    """Return every gang as a `groups.Unit`, with its faults so far; None in place of a malformed or ended gang.

    :param about: if given, only the gang with this key is returned.
    """
    pods: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in sources.pods:
        if key := members.gang_of(pod):
            pods[key].append(pod)
    found: list[tuple[groups.Unit | None, Findings]] = []
    for manifest in sources.of_kind(keys.GROUP, keys.POD_GROUP_KIND, about):
        ref, wrong = ref_of(manifest), Findings()
        pods_of_group = pods.pop(GangKey(NAME, ref.namespace, ref.name), [])
        found.append((_group_unit(manifest, pods_of_group, sources, wrong), wrong))
    for key, pods_of_group in sorted(pods.items()):
        if about in (None, key):
            wrong = Findings()
            found.append((_loose_unit(key, pods_of_group, sources, wrong), wrong))
    return found


def _check_jobs(about: GangKey | None, sources: Sources, settings: Settings, findings: Findings) -> None:
    """Report annotations on Jobs that have no effect.

    If `about` is given, only the Job of its name is checked, and faults of its pod template are reported, too.
    """
    for manifest in sources.of_kind(JOB_GROUP, JOB_KIND, about):
        try:
            groups.check_placement(manifest, findings)
            if about is not None:
                groups.check_template(manifest, settings, findings)
        except MalformedError as error:
            findings.take([error.fault] if about is not None else [])


def _check_others(about: GangKey | None, sources: Sources, findings: Findings) -> None:
    """Report workloads other than Jobs whose pods name a topology policy but cannot be one gang."""
    for manifest in sources.called(about):
        if row_of(manifest) is not None and not has_rules(manifest):
            try:
                owned.check(manifest, sources.pods, findings)
            except MalformedError as error:
                findings.take([error.fault] if about is not None else [])


def _group_unit(manifest: Manifest, pods: Sequence[Pod], sources: Sources, wrong: Findings) -> groups.Unit | None:
    try:
        return groups.unit_of_group(manifest, pods, sources, wrong)
    except MalformedError as error:
        wrong.take([error.fault])
        return None


def _loose_unit(key: GangKey, pods: Sequence[Pod], sources: Sources, wrong: Findings) -> groups.Unit | None:
    try:
        unit = groups.unit_of_pods(key, pods, sources)
        alone = unit is not None and unit.ref.kind == "Pod" and not unit.waiting_for
        return owned.unit_of_workload(unit, unit.pods, sources, wrong) if unit is not None and alone else unit
    except MalformedError as error:
        wrong.take([error.fault])
        return None
