"""Koordinator's dialect: the implementation of the protocols in `gangs.dialects.protocol`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from gangs.findings import Findings
from gangs.koordinator import NAME, groups, keys, messages, status, topologies, units
from gangs.koordinator.agreement import agreed, parted
from gangs.koordinator.settings import Settings, settings_of
from gangs.manifests import MalformedError, key_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.no_room import NoRoom
from gangs.object_statuses import ObjectStatus, StatusView, TopologyView
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, Sources
from kube.objects import Pod
from kube.topology import Topology

_GROUP_KIND = keys.POD_GROUP_GROUP, keys.POD_GROUP_KIND


class KoordinatorDialect:
    """Koordinator's dialect: PodGroups, gangs that only labels or annotations name, GangGroups, and the topology."""

    name = NAME
    pod_keys = PodKeys(
        labels=(keys.POD_GROUP, keys.LIGHT_NAME),
        annotations=(keys.GANG_NAME,),
        scheduler_names=(keys.SCHEDULER,),
        more_labels=keys.LIGHT_LABELS,
        more_annotations=keys.ON_PODS,
    )
    group_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(keys.POD_GROUP_GROUP, (keys.VERSION,), keys.POD_GROUP_KIND, keys.POD_GROUPS),
    )
    topology_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(
            keys.TOPOLOGY_GROUP,
            (keys.VERSION,),
            keys.TOPOLOGY_KIND,
            keys.TOPOLOGIES,
            namespaced=False,
            describes=keys.TOPOLOGY_KIND,
        ),
        ResourceKind("", ("v1",), keys.CONFIG_KIND, "configmaps", only=(keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)),
    )

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that the pod names; None if it names none.

        If the gang is in a GangGroup, the result is the key of the pod's own PodGroup, not that of the whole gang.
        """
        return units.gang_of(pod)

    def protected(self, pod: Pod) -> str:
        """Return the label that exempts the pod from eviction, such as `disable-preemptible`; "" if it has none."""
        labels = pod.metadata.labels
        if labels.get(keys.DISABLE_PREEMPTIBLE) == "true":
            return f"label {keys.DISABLE_PREEMPTIBLE}=true"
        if labels.get(keys.QUOTA_PREEMPTIBLE) == "false":
            return f"label {keys.QUOTA_PREEMPTIBLE}=false"
        return ""

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return one gang for each GangGroup, and for each PodGroup or gang name that is in no GangGroup."""
        known, faulty = _units(sources, about)
        known = agreed(known, sources.shares)
        configured = settings_of(sources, Findings())
        findings, gangs = Findings(), list[Gang]()

        def read(group: Sequence[units.Unit]) -> tuple[Gang | None, Findings]:
            return _read(group, faulty, topologies, configured, sources.pods)

        for group in groups.groups_of(known):
            together = read(group)
            for part, (gang, own) in [(group, together)] if not together[1].faults else _apart(group, together, read):
                members = {unit.key for unit in part} | part[0].groups
                if about in (None, *members):
                    findings.take(own.faults, own.advice)
                    gangs += [] if gang is None else [gang]
        for key in faulty.keys() - known.keys():
            if about in (None, key):
                findings.take(faulty[key].faults, faulty[key].advice)
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return the topology of the ClusterNetworkTopology `default`, in a list; empty if it is missing or invalid.

        Faults of the object and of Koordinator's ConfigMap go to `findings`.
        """
        settings_of(sources, findings)
        written = sources.of_kind(keys.TOPOLOGY_GROUP, keys.TOPOLOGY_KIND)
        found = (topologies.topology_of(each, findings) for each in written)
        return [each for each in found if each is not None]

    def joined(self, pod: Pod) -> frozenset[GangKey]:
        """Return the gangs that the pod's annotation `gang.scheduling.koordinator.sh/groups` lists."""
        return units.listed(pod.metadata.annotations)

    def grouped(self, about: GangKey, linked: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
        """Return the keys of all units (PodGroups) in the GangGroup that contains `about`. The annotations of pods and
        of PodGroups list these units.
        """
        return _linked(about, linked, sources)

    def parts(self, gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
        """Return all `GangKey`s by which pods of a gang may name the gang: the keys of the units (PodGroups) in its
        GangGroup.

        Each unit is a pod set of the gang.
        """
        return {gang, *(groups.named_by_set(gang, each) for each in pod_sets if len(pod_sets) > 1)}

    def company(self, pod: Pod) -> Hashable | None:
        """Return namespace and value of the pod's topology selector; None if it has none.

        Pods with the same selector prefer to be near each other, although they are of different gangs.
        """
        return groups.selector_of(pod)

    def group_statuses(self, key: GangKey, view: StatusView) -> Iterator[ObjectStatus]:
        """Return the statuses that the gang's PodGroups should have."""
        return status.group_statuses(key, view)

    def topology_status(self, view: TopologyView) -> ObjectStatus:
        """Return the status that the ClusterNetworkTopology should have: its domains with their numbers of nodes."""
        return status.topology_status(view)

    def no_room_messages(self, no_room: NoRoom) -> Sequence[str]:
        """Return a message for each pod, in the wording of Koordinator's documents."""
        return messages.no_room_messages(no_room)

    def template_labels(  # noqa: D102 -- the protocol says it; Koordinator's workloads carry their keys themselves
        self, manifest: Manifest, sources: Sources, *, claimed: bool
    ) -> Mapping[str, str]:
        del manifest, sources, claimed
        return {}


_Outcome = tuple[Gang | None, Findings]


def _read(
    group: Sequence[units.Unit],
    faulty: Mapping[GangKey, Findings],
    topologies: Sequence[Topology],
    configured: Settings,
    pods: Sequence[Pod],
) -> _Outcome:
    """Return the gang that units (PodGroups) of one GangGroup form, and the findings; None as gang if there are faults.

    :param faulty: by unit, the findings on it so far.
    """
    findings = Findings()
    for unit in group:
        findings.take(faulty[unit.key].faults, faulty[unit.key].advice)
    gang = groups.read_group(group, topologies, findings, configured, pods)
    return (None if findings.faults else gang), findings


def _apart(
    group: Sequence[units.Unit], together: _Outcome, read: Callable[[Sequence[units.Unit]], _Outcome]
) -> Iterator[tuple[Sequence[units.Unit], _Outcome]]:
    """Divide the units (PodGroups) of a faulty GangGroup by namespace. Yield each part with its gang and its findings.

    A fault in one namespace then does not affect units of another one.

    :param together: the result for the whole group, which is yielded if all units are in one namespace.
    """
    parts = parted(group)
    if len(parts) == 1:
        yield group, together
    else:
        yield from ((part, read(part)) for part in parts)


def _units(sources: Sources, about: GangKey | None) -> tuple[dict[GangKey, units.Unit], dict[GangKey, Findings]]:
    """Return all units (PodGroups and gang names on pods), and the findings on each.

    A unit whose PodGroup is malformed has only findings.

    :param about: if given, only this unit and the units that are grouped with it are returned.
    """
    pods: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in sources.pods:
        if key := units.gang_of(pod):
            pods[key].append(pod)
    known: dict[GangKey, units.Unit] = {}
    found: dict[GangKey, Findings] = {}
    linked = None if about is None else _linked(about, _links(pods).__getitem__, sources)
    for manifest in _pod_groups(sources, linked):
        _, _, namespace, name = key_of(manifest)
        key = GangKey(NAME, namespace, name)
        found[key] = Findings()
        try:
            known[key] = units.unit_of_group(manifest, pods.pop(key, []), found[key])
        except MalformedError as error:
            found[key].take([error.fault])
    for key, named in sorted(pods.items()):
        if linked is None or key in linked:
            found[key] = Findings()
            unit = units.unit_of_pods(key, named, found[key])
            if unit is not None:
                known[key] = unit
    return known, found


def _pod_groups(sources: Sources, linked: Collection[GangKey] | None) -> Iterator[Manifest]:
    """Yield the PodGroups with these keys, ordered by namespace and name; all PodGroups if `linked` is None."""
    if linked is None:
        yield from sources.of_kind(*_GROUP_KIND)
        return
    for key in sorted(linked):
        if (manifest := sources.get(*_GROUP_KIND, key.namespace, key.name)) is not None:
            yield manifest


def _links(pods: Mapping[GangKey, Sequence[Pod]]) -> defaultdict[GangKey, set[GangKey]]:
    """Return, for each gang, the gangs that pods group with it by their lists.

    It computes the same as `gangs.incremental.pods.KeptPods.linked`, from these pods.
    """
    links: defaultdict[GangKey, set[GangKey]] = defaultdict(set)
    for key, named in pods.items():
        for other in (other for pod in named for other in units.listed(pod.metadata.annotations)):
            links[key].add(other)
            if other.namespace == key.namespace:
                links[other].add(key)
    return links


def _linked(about: GangKey, links: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
    """Return the gangs that may be grouped with `about`, itself included, directly or through other gangs.

    A gang of another namespace is included if it is listed. The search continues from it only if it lists the gang that
    lists it. Other users therefore cannot make the reading of a gang slow by their lists.

    :param links: a function from a gang to the gangs that pods group with it by their lists.
    """
    linked, todo, followed = {about}, [about], {about}
    while todo:
        key = todo.pop()
        near = _near(key, links, sources)
        linked |= near
        mutual = {each for each in near - followed if _follows(key, each, links, sources)}
        todo += mutual
        followed |= mutual
    return linked


def _near(key: GangKey, links: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
    """Return the gangs that the gang `key` lists, and the gangs of its namespace that list it.

    Both pods and PodGroups may have such lists.
    """
    near = set(links(key))
    group = sources.get(*_GROUP_KIND, key.namespace, key.name)
    near.update(() if group is None else _listed_in(group))
    for each in sources.sought(*_GROUP_KIND, _listed_beside, key):
        _, _, namespace, name = key_of(each)
        near.add(GangKey(NAME, namespace, name))
    return near


def _follows(key: GangKey, other: GangKey, links: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> bool:
    """Whether the search for grouped gangs continues from `other`, which `key` lists.

    It does if both are in one namespace, or if `other` lists `key`, too.
    """
    return other.namespace == key.namespace or key in _near(other, links, sources)


def _listed_in(group: Manifest) -> frozenset[GangKey]:
    """Return the gangs that a PodGroup's annotation `gang.scheduling.koordinator.sh/groups` lists; empty if it has
    none.
    """
    annotations = (group.get("metadata") or {}).get("annotations")
    return units.listed(annotations if isinstance(annotations, Mapping) else {})


def _listed_beside(group: Manifest) -> frozenset[GangKey]:
    """Return the gangs that a PodGroup lists and that are in its own namespace."""
    namespace = key_of(group)[2]
    return frozenset(each for each in _listed_in(group) if each.namespace == namespace)
