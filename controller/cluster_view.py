"""The cluster view: all gangs and the snapshot at one instant, for one reconcile of the controller.

The cost of a read is proportional to the changes since the last one. Gangs are cached, and a gang is read again only if
an object that it was read from has changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Entries, Journal
from cluster.devices.holdings import NO_DEVICES, DeviceView
from cluster.snapshot import Snapshot
from gangs.coexistence.ownership import NOTHING, CededToOthers
from gangs.dialects.table import DIALECTS
from gangs.incremental.gang_store import Changed, GangStore
from gangs.mirrors import mirrored_key
from gangs.model import Fault, Gang, GangKey, Reading
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS
from kube.catalog import ObjectKey
from kube.keys import GROUP, SYSTEM_NAMESPACE
from kube.objects import Pod
from kube.placeholders import HELD_FOR_GANG, is_placeholder, seat_of
from kube.topology import Topology


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The snapshot, the gangs and all other inputs that one reconcile reads. `live`: every pod that exists and has not
    finished, by UID.
    """

    sources: Sources
    reading: Reading
    topologies: Sequence[Topology]
    faults: Sequence[Fault]
    snapshot: Snapshot
    live: Mapping[str, Pod]
    terms: object = None
    """An object that is replaced when a started gang changes what it charges to its queue or which members it needs
    (`GangStore.terms`). Planning depends on both, although no pod or node may have changed.
    """
    unreadable: frozenset[GangKey] = frozenset()
    """Invalid gangs that unfinished pods name. They could not be read because of faults in objects or on the pods."""
    left: CededToOthers = NOTHING
    """The workloads that are ceded to other systems in the cluster."""
    ending: frozenset[str] = frozenset()
    """Namespaces that are being deleted. No object can be created there."""
    kept: GangStore = field(default_factory=lambda: GangStore(Sources()))
    """The cache of gangs from which `reading` is derived. The next call of `ClusterViewReader.read` changes it."""
    concerned: frozenset[GangKey] = frozenset()
    """Gangs that are new, gone or changed since the last read, including changes of their Gang objects."""
    objects: frozenset[ObjectKey] = frozenset()
    """Keys of the objects that are new, gone or changed since the last read. See `all_new`."""
    all_new: bool = False
    """Whether the whole cluster was read again, so that `objects` may lack some changes."""
    system: tuple[Pod, ...] = ()
    """The pods of Phalanx's own namespace that have not finished."""
    placeholders: Mapping[GangKey, Mapping[str, Pod]] = field(default_factory=dict)
    """The placeholders among `system`: by gang, then by the expected pod for which they reserve capacity."""
    ungated: bool = False
    """Whether placeholders reserve the capacity of all gated members (`next_step.Situation.ungated`)."""
    devices: DeviceView = NO_DEVICES
    """The claims of devices, and the DeviceTaintRules."""
    made_again: Mapping[GangKey, Gang] = field(default_factory=dict)
    """Gangs with lost members that are being recreated, each with a member for every lost pod. Quotas charge these
    members.
    """

    @property
    def charged(self) -> Iterator[Gang]:
        """All gangs, with a member for each lost pod that is being recreated, because quotas charge these, too."""
        with_lost = dict(self.made_again)
        for gang in self.reading.gangs:
            yield with_lost.pop(gang.key, gang)
        yield from with_lost.values()  # gangs without any pod now: parts of workloads, which `reading` then lacks

    def predecessors(self, gang: Gang) -> Mapping[str, Pod]:
        """Return the terminating pods with the names of expected pods of the gang, by the expected pod's identifier."""
        same_names = ((member, self.kept.pods.at(member.pod.key)) for member in gang.to_come)
        return {member.pod.metadata.uid: pod for member, pod in same_names if pod is not None and pod.terminating}


class ClusterViewReader:
    """Reads one cluster view after another from the watch caches. `journal` records the changes between two views."""

    def __init__(self, cache: ClusterCache, journal: Journal) -> None:
        """Prepare the reader, so that its first `read` reads the whole cluster."""
        journal.lose()
        self._cache = cache
        self.journal = journal
        self._kept = GangStore(Sources())
        self._sources = Sources()
        self._live: dict[str, Pod] = {}
        self._uids: dict[str, str] = {}
        self._system: dict[str, Pod] = {}
        self._placeholders: Mapping[GangKey, Mapping[str, Pod]] = {}
        self.version = -1
        """The version of the watch caches at the last view."""

    def read(self) -> ClusterView:
        """Read one consistent cluster view from the watch caches."""
        cache = self._cache
        with cache.still():
            entries, self.version = self.journal.take(), cache.version()
            all_pods = cache.pods() if entries.everything else _PodsNow(cache)
            sources = Sources(
                all_pods, cache.objects(), cache.namespaces(), cache.found(), cache.tried(), cache.sharing()
            )
            snapshot, ending, devices = cache.snapshot(), cache.ending(), cache.devices()
            # Sorted: some writes are sent in the order of the pods, and a simulation must be repeatable.
            pods = {f"{at[0]}/{at[1]}": cache.pod(*at) for at in sorted(entries.pods)}
        read = self._read_changes(sources, entries, pods)
        if read is None:
            self.journal.lose()
            view = self.read()
            return replace(view, objects=view.objects | entries.objects)  # `view` lists none after `lose`
        concerned, kept = read | self._held(), self._kept
        return ClusterView(
            sources=sources,
            reading=kept.reading(),
            topologies=kept.topologies,
            faults=kept.topology_faults,
            snapshot=snapshot,
            live=dict(self._live),
            terms=kept.terms,
            unreadable=kept.unreadable(),
            left=kept.left,
            ending=ending,
            kept=kept,
            concerned=concerned,
            objects=entries.objects,
            all_new=entries.everything,
            system=tuple(self._system.values()),
            placeholders=self._placeholders,
            devices=devices,
        )

    def _read_changes(
        self, sources: Sources, entries: Entries, pods: Mapping[str, Pod | None]
    ) -> frozenset[GangKey] | None:
        """Update the cached gangs to these changes. Return the affected gangs.

        None if the changes are not enough to do so, because everything must be read again.

        :param pods: the changed pods by `namespace/name`; None for a pod that is gone.
        """
        before, self._sources = self._sources, sources
        if entries.everything:
            gone = {gang.key for gang in self._kept.gangs()}
            self._kept = GangStore(sources)
            self._live = {pod.metadata.uid: pod for pod in sources.pods if not pod.finished}
            self._uids = {pod.key: pod.metadata.uid for pod in sources.pods if not pod.finished}
            self._system = {uid: pod for uid, pod in self._live.items() if pod.metadata.namespace == SYSTEM_NAMESPACE}
            mirrored = {mirrored_key(each) for each in sources.of_kind(GROUP, "Gang")}
            known = {gang.key for gang in self._kept.gangs()} | self._kept.unreadable()
            return frozenset(gone | known | {key for key in mirrored if key is not None})
        changed = self._kept.update(sources, pods, entries.objects)
        if changed is None:
            return None
        self._follow(pods)
        return self._concerned(changed, before, entries)

    def _held(self) -> frozenset[GangKey]:
        """Read the placeholders again. Return the gangs whose placeholders have changed."""
        before, self._placeholders = self._placeholders, _by_gang(self._system.values())
        return frozenset(
            key for key in before.keys() | self._placeholders.keys() if before.get(key) != self._placeholders.get(key)
        )

    def _follow(self, pods: Mapping[str, Pod | None]) -> None:
        for key, pod in pods.items():
            uid = self._uids.pop(key, "")
            self._live.pop(uid, None)
            self._system.pop(uid, None)
            if pod is not None and not pod.finished:
                self._live[pod.metadata.uid] = pod
                self._uids[key] = pod.metadata.uid
                if pod.metadata.namespace == SYSTEM_NAMESPACE:
                    self._system[pod.metadata.uid] = pod

    def _concerned(self, changed: Changed, before: Sources, entries: Entries) -> frozenset[GangKey]:
        """Return the gangs that are concerned by these changes (`ClusterView.concerned`).

        A workload in which only unread fields changed concerns no gang, such as a Job with more active pods. The
        controller writes the statuses of group objects, so any change of a group object concerns its gang.
        """
        objects = (key for key in entries.objects if key in changed.objects or key[:2] not in WORKLOADS)
        names = self._kept.pods.touched | set(_named_by(objects, before, self._sources))
        parts = {gang.key for name in names for gang in self._kept.read_as(name)}
        return changed.gangs | names | parts


class _PodsNow(Sequence[Pod]):
    """All pods in the cache, as a sequence that is built at the first access, because it is long and seldom needed."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    @cached_property
    def _all(self) -> Sequence[Pod]:
        return self._cache.pods()

    @overload
    def __getitem__(self, at: int) -> Pod: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Pod]: ...
    def __getitem__(self, at: int | slice) -> Pod | Sequence[Pod]:
        """Return the pod at an index, or the pods of a slice."""
        return self._all[at]

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._all)


def _by_gang(pods: Iterable[Pod]) -> Mapping[GangKey, Mapping[str, Pod]]:
    found: dict[GangKey, dict[str, Pod]] = {}
    for pod in pods:
        if is_placeholder(pod) and not pod.terminating:
            dialect, _, name = pod.metadata.annotations.get(HELD_FOR_GANG, "").partition("/")
            namespace, _, name = name.partition("/")
            found.setdefault(GangKey(dialect, namespace, name), {})[seat_of(pod)] = pod
    return found


def _named_by(objects: Iterable[ObjectKey], *sources: Sources) -> Iterator[GangKey]:
    """Yield the gangs to which changed objects may matter: gangs that the objects define, and gangs whose mirrors they
    are or were before the change.
    """
    for key in objects:
        group, kind, namespace, name = key
        for dialect in DIALECTS:
            if any((each.group, each.kind) == (group, kind) for each in dialect.group_kinds):
                yield GangKey(dialect.name, namespace, name)
        if (group, kind) == (GROUP, "Gang"):
            manifests = (each.objects.get(key) for each in sources)
            yield from (shown for each in manifests if each is not None and (shown := mirrored_key(each)) is not None)
