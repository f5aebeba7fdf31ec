"""One look at the cluster: what is asked for and what there is, at one instant, for one round of the controller.

A look costs in proportion to what has changed since the last one: gangs are kept as they were read, and only those read
again that looked at something else then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Entries, Journal
from cluster.snapshot import Snapshot
from gangs.coexistence.ownership import NOTHING, Left
from gangs.dialects.table import DIALECTS
from gangs.incremental.readings import Changed, KeptReadings
from gangs.mirrors import mirrored_key
from gangs.model import Fault, Gang, GangKey, Reading
from gangs.sources import Sources
from kube.catalog import ObjectKey
from kube.keys import GROUP, SYSTEM_NAMESPACE
from kube.objects import Pod
from kube.placeholders import HELD_FOR_GANG, is_placeholder, seat_of
from kube.topology import Topology


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything a round decides on. `live`: every pod that exists and has not finished, by uid."""

    sources: Sources
    reading: Reading
    topologies: Sequence[Topology]
    faults: Sequence[Fault]
    snapshot: Snapshot
    live: Mapping[str, Pod]
    unreadable: frozenset[GangKey] = frozenset()
    """Gangs that pods name but that contradict themselves, so that they could not be read."""
    left: Left = NOTHING
    """What is left to other systems that run in the cluster."""
    ending: frozenset[str] = frozenset()
    """Namespaces that are being deleted: nothing can be made there any more."""
    kept: KeptReadings = field(default_factory=lambda: KeptReadings(Sources()))
    """What the reading is made of. It changes with the next look."""
    concerned: frozenset[GangKey] = frozenset()
    """Gangs that are new, gone, or have changed since the last look, themselves or what is shown of them."""
    objects: frozenset[ObjectKey] = frozenset()
    """Keys of the objects that are, unless everything is new."""
    all_new: bool = False
    """Whether everything was read anew, and not all that has changed is named."""
    system: tuple[Pod, ...] = ()
    """The pods of Phalanx's own namespace that have not finished."""
    placeholders: Mapping[GangKey, Mapping[str, Pod]] = field(default_factory=dict)
    """The placeholders among them: by gang, and by the seats that they are for."""
    made_again: Mapping[GangKey, Gang] = field(default_factory=dict)
    """Gangs that are charged for lost members that are made again, with a member for each of these."""

    @property
    def charged(self) -> Iterator[Gang]:
        """All gangs as the quotas of their queues are charged for them."""
        with_lost = dict(self.made_again)
        for gang in self.reading.gangs:
            yield with_lost.pop(gang.key, gang)
        yield from with_lost.values()  # parts of workloads, which nobody reads while they have no pods


class Looker:
    """Takes one picture after another; `journal` tells what has changed between them."""

    def __init__(self, cache: ClusterCache, journal: Journal) -> None:
        """The first picture is taken as if everything had changed."""
        journal.lose()
        self._cache = cache
        self.journal = journal
        self._kept = KeptReadings(Sources())
        self._sources = Sources()
        self._live: dict[str, Pod] = {}
        self._uids: dict[str, str] = {}
        self._system: dict[str, Pod] = {}
        self._placeholders: Mapping[GangKey, Mapping[str, Pod]] = {}
        self.version = -1
        """The cache's, when the last picture was taken."""

    def look(self) -> ClusterView:
        """Take one consistent picture from the watch caches."""
        cache = self._cache
        with cache.still():
            entries, self.version = self.journal.take(), cache.version()
            all_pods = cache.pods() if entries.everything else _PodsNow(cache)
            sources = Sources(
                all_pods, cache.objects(), cache.namespaces(), cache.found(), cache.tried(), cache.sharing()
            )
            snapshot, ending = cache.snapshot(), cache.ending()
            pods = {f"{at[0]}/{at[1]}": cache.pod(*at) for at in entries.pods}
        read = self._read(sources, entries, pods)
        if read is None:
            self.journal.lose()
            view = self.look()
            return replace(view, objects=view.objects | entries.objects)  # what came between the two looks is not named
        concerned, kept = read | self._held(), self._kept
        return ClusterView(
            sources=sources,
            reading=kept.reading(),
            topologies=kept.topologies,
            faults=kept.topology_faults,
            snapshot=snapshot,
            live=dict(self._live),
            unreadable=kept.unreadable(),
            left=kept.left,
            ending=ending,
            kept=kept,
            concerned=concerned,
            objects=entries.objects,
            all_new=entries.everything,
            system=tuple(self._system.values()),
            placeholders=self._placeholders,
        )

    def _read(self, sources: Sources, entries: Entries, pods: Mapping[str, Pod | None]) -> frozenset[GangKey] | None:
        """The gangs that are concerned; None where everything has to be read anew, which `sources` are not for."""
        before, self._sources = self._sources, sources
        if entries.everything:
            gone = {gang.key for gang in self._kept.gangs()}
            self._kept = KeptReadings(sources)
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
        """Look at the placeholders again; the gangs of those that have changed."""
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
        names = self._kept.pods.touched | set(_named_by(entries.objects, before, self._sources))
        parts = {gang.key for name in names for gang in self._kept.read_as(name)}
        return changed.gangs | names | parts


class _PodsNow(Sequence[Pod]):
    """All pods, put together when somebody asks for them: nearly nobody does, and there are very many."""

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
        """As of the first time that anything was asked."""
        return self._all[at]

    def __len__(self) -> int:
        """Likewise."""
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
    """The gangs that changed objects go by, or show, now or before."""
    for key in objects:
        group, kind, namespace, name = key
        for dialect in DIALECTS:
            if any((each.group, each.kind) == (group, kind) for each in dialect.group_kinds):
                yield GangKey(dialect.name, namespace, name)
        if (group, kind) == (GROUP, "Gang"):
            manifests = (each.objects.get(key) for each in sources)
            yield from (shown for each in manifests if each is not None and (shown := mirrored_key(each)) is not None)
