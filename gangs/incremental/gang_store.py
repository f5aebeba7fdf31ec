"""The store of all gangs, with their faults and advice. A gang is read again only when one of its inputs changes.

At any moment the content equals the result of `read_all`; the tests compare the two. A gang is read by its key
(`about`), from its own pods and all objects. All look-ups during the reading are recorded. When the result of one of
them changes, the gang is read again. If only fields of its pods change that no dialect reads, such as conditions, the
gang gets the new pods without a reading.
"""

import logging
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from gangs.coexistence.ownership import CededToOthers, systems_ceded_to
from gangs.dialects.claims import ceded_to_others
from gangs.dialects.protocol import Dialect
from gangs.dialects.reading import read_by
from gangs.dialects.table import DIALECTS, GROUPING
from gangs.dialects.topologies import described_topologies
from gangs.incremental.dependencies import (
    LABELS,
    SCHEDULER,
    SHARING,
    ReadInput,
    ReadSet,
    ReadSetIndex,
    changed_inputs,
    equal_as_read,
)
from gangs.incremental.pods import KeptPods
from gangs.manifests import key_of
from gangs.model import Advice, Fault, Gang, GangKey, Manifest, ObjectRef, Reading
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS, row_of
from kube.catalog import ObjectKey
from kube.keys import GATE
from kube.objects import Pod
from kube.topology import Topology

LOG = logging.getLogger(__name__)

_ORDER = {dialect.name: position for position, dialect in enumerate(DIALECTS)}
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_OF_WORKLOADS = tuple(_ORDER)
_UNREAD = Reading()
_Sorted = tuple[int, str, str]
"""A gang's sort key among all gangs: (position of its dialect in `DIALECTS`, namespace, name)."""


def _roots_by_kind() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return, by API group and kind, the dialects (by name) in which an object of the kind may be, or describe, a gang.

    The gang then has the namespace and name of the object.
    """
    found = {kind: tuple(_ORDER) for kind in WORKLOADS}
    for dialect in DIALECTS:
        for each in dialect.group_kinds:
            found.setdefault((each.group, each.kind), ())
            if dialect.name not in found[each.group, each.kind]:
                found[each.group, each.kind] += (dialect.name,)
    return found


_ROOTS = _roots_by_kind()


def _roots(key: ObjectKey, manifest: Manifest | None) -> tuple[str, ...]:
    """Return the names of the dialects in which this object may be, or describe, a gang with its namespace and name."""
    return _ROOTS.get(key[:2]) or (_OF_WORKLOADS if manifest is not None and row_of(manifest) is not None else ())


@dataclass(frozen=True, slots=True)
class Changed:
    """The result of an update of the store. `gangs`: the gangs that are new, changed or gone.

    `objects`: the objects that are new, gone or changed in a field that dialects read. `topologies`: whether a topology
    changed. `faults`: whether faults or advice changed.
    """

    gangs: frozenset[GangKey] = frozenset()
    objects: frozenset[ObjectKey] = frozenset()
    topologies: bool = False
    faults: bool = False


class GangStore:
    """All gangs and topologies of a cluster, updated with each change. It is not thread-safe.

    The values that it returns are immutable.

    :param sources: the initial pods and objects.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._pods = KeptPods()
        self._left = ceded_to_others(sources)
        self._topologies: list[Topology] = []
        """All topologies, the invalid ones too (`gangs.dialects.topologies.described_topologies`)."""
        self._topology_faults: list[Fault] = []
        self._topology_inputs: set[ReadInput] = set()
        self._topologies_by: tuple[frozenset[str], Topology | None] = (frozenset(), None)
        self._readings: dict[GangKey, Reading] = {}
        """By the key that was read (`about`): the result, even if no gang with this key exists."""
        self._faulty: set[GangKey] = set()
        self._noted: set[GangKey] = set()
        """The keys of `_readings` with faults, advice or neighbours."""
        self._read_sets = ReadSetIndex()
        self._gangs: dict[GangKey, Gang] = {}
        self._readers: defaultdict[GangKey, set[GangKey]] = defaultdict(set)
        """By gang: the keys whose reading contains the gang. A group of PodGroups has several."""
        self._names: Counter[GangKey] = Counter()
        """By key: the number of gangs that have this key among their names (`Gang.names`)."""
        self._members: Counter[str] = Counter()
        """By a pod's `namespace/name`: the number of gangs of which it is a member."""
        self._order: list[_Sorted] = []
        self._merged: Reading | None = None
        self._unreadable: frozenset[GangKey] | None = None
        self._terms = object()
        self._pods.update({pod.key: pod for pod in sources.pods}, self._left)
        self._read_topologies(None)
        self._read_all(self._roots_of(sources.objects) | self._pods.touched)

    @property
    def left(self) -> CededToOthers:
        """The dialects and gangs that are ceded to other systems."""
        return self._left

    @property
    def topologies(self) -> Sequence[Topology]:
        """All valid topologies that objects of any dialect describe."""
        return [each for each in self._topologies if not each.refused]

    @property
    def topology_faults(self) -> Sequence[Fault]:
        """The faults of the invalid topologies."""
        return self._topology_faults

    @property
    def terms(self) -> object:
        """An object that is replaced when a started gang changes in a way that decides which members may be evicted.

        These are its account, its minimum, its pod sets and its succeeded pods. They can change without any change of a
        pod or a node. A caller that caches evictable pods compares this object by identity.
        """
        return self._terms

    @property
    def pods(self) -> KeptPods:
        """The pods, indexed by the gangs and Jobs that they name."""
        return self._pods

    def gang(self, key: GangKey) -> Gang | None:
        """Return the gang with this key; None if there is none."""
        return self._gangs.get(key)

    def gangs(self) -> tuple[Gang, ...]:
        """Return all gangs, ordered by dialect, namespace and name."""
        names = tuple(_ORDER)
        return tuple(self._gangs[GangKey(names[at], namespace, name)] for at, namespace, name in self._order)

    def read_as(self, name: GangKey) -> tuple[Gang, ...]:
        """Return the gangs to which pods or objects with the namespace and name of this `GangKey` belong.

        A gang that consists of several group objects is returned for the key of each of them.
        """
        return self._readings.get(name, _UNREAD).gangs

    def faults_of(self, name: GangKey) -> tuple[Fault, ...]:
        """Return the faults that were found when the gang with this `GangKey` was read.

        They are faults of the gang's pods and of all its objects. The result is empty if no pod or object has this
        name.
        """
        return self._readings.get(name, _UNREAD).faults

    def faulty(self) -> Collection[GangKey]:
        """Return the `GangKey`s for which `faults_of` returns faults."""
        return self._faulty

    def reading(self) -> Reading:
        """Return all gangs, faults and advice of the store, which equal the result of `read_all` on its objects."""
        if self._merged is None:
            self._merged = self._put_together()
        return self._merged

    def _put_together(self) -> Reading:
        faults: dict[Fault, None] = dict.fromkeys(self._topology_faults)
        advice: dict[Advice, None] = {}
        noted = [reading for about, reading in self._readings.items() if about in self._noted]
        for each in noted:
            faults.update(dict.fromkeys(each.faults))
            advice.update(dict.fromkeys(each.advice))
        theirs = {gang.key: gang for each in noted for gang in each.neighbours}
        astray = sorted(self._pods.live.keys() - self._members.keys())
        return Reading(
            self.gangs(),
            tuple(faults),
            tuple(advice),
            tuple(theirs[key] for key in sorted(theirs, key=_place)),
            tuple(self._pods.live[key] for key in astray),
        )

    def unreadable(self) -> frozenset[GangKey]:
        """Return the `GangKey`s that unfinished pods name but that belong to no gang, because the gang is invalid."""
        if self._unreadable is None:
            self._unreadable = frozenset(name for name in self._pods.waited_for if name not in self._names)
        return self._unreadable

    def update(
        self, sources: Sources, pods: Mapping[str, Pod | None], objects: Collection[ObjectKey]
    ) -> Changed | None:
        """Update the gangs after changes of pods and objects. Return the gangs that changed.

        Return None if the ceded dialects have changed. All gangs may then be different, so the caller must construct a
        new `GangStore`.

        :param sources: all pods and objects after the change.
        :param pods: by `namespace/name`, the pods that are new, changed or gone; None for a pod that is gone.
        :param objects: keys of objects that are new, changed or gone.
        """
        if pods:
            self._unreadable = None
        before, self._sources = self._sources, sources
        objects = frozenset(key for key in objects if not self._is_equal_as_read(key, before))
        changed = self._changed_objects(before, objects) | self._changed_labels(before)
        changed |= self._changed_sharing(before) | self._changed_schedulers(before)
        changed_pods = self._pods.update(pods, self._left)
        changed |= changed_pods.inputs
        if self._left_now() != self._left:
            return None
        known = self._read_topologies(changed)
        asked = set(self._readings) if known else self._read_sets.readers_of(changed)
        asked |= self._roots_of(objects) | changed_pods.named
        alike = self._read_sets.readers_of(changed_pods.alike_inputs) - asked
        read = self._read_all(asked, {about: self._with_pods(about, changed_pods.alike) for about in alike})
        return replace(read, objects=objects, topologies=known)

    def _left_now(self) -> CededToOthers:
        """Return the dialects that are ceded by the present objects, and the gangs of these dialects that are not
        ceded.
        """
        to = systems_ceded_to(self._sources)
        return CededToOthers(to, self._pods.carried(to)) if to else CededToOthers()

    def _is_equal_as_read(self, key: ObjectKey, before: Sources) -> bool:
        return equal_as_read(key[:2], before.objects.get(key), self._sources.objects.get(key))

    def _changed_objects(self, before: Sources, objects: Iterable[ObjectKey]) -> set[ReadInput]:
        found: set[ReadInput] = set()
        for key in objects:
            old, new = before.objects.get(key), self._sources.objects.get(key)
            found.update(changed_inputs(key, old, new, self._read_sets.sought_by))
        return found

    def _changed_labels(self, before: Sources) -> set[ReadInput]:
        old, new = before.namespaces, self._sources.namespaces
        if old is new:
            return set()
        return {(LABELS, each) for each in old.keys() | new.keys() if old.get(each) != new.get(each)}

    def _changed_sharing(self, before: Sources) -> set[ReadInput]:
        old, new = before.sharing, self._sources.sharing
        if old is new:
            return set()
        return {(SHARING, each) for each in old.keys() | new.keys() if old.get(each) != new.get(each)}

    def _changed_schedulers(self, before: Sources) -> set[ReadInput]:
        old, new = before.tried, self._sources.tried
        if old is new:
            return set()
        return {(SCHEDULER, each) for each in old.keys() | new.keys() if old.get(each) != new.get(each)}

    def _roots_of(self, objects: Iterable[ObjectKey]) -> set[GangKey]:
        """Return the `GangKey`s of the gangs that these objects may describe, if the store has not read these gangs
        yet.
        """
        found = set()
        for key in objects:
            for dialect in _roots(key, self._sources.objects.get(key)):
                found.add(GangKey(dialect, *key[2:]))
        return {name for name in found if name not in self._readings}

    def _read_topologies(self, changed: Collection[ReadInput] | None) -> bool:
        """Read the topologies again if an input has changed. Return whether the topologies or their faults changed."""
        by = self._pods.dialects(), self._sources.found
        if changed is not None and by == self._topologies_by and self._topology_inputs.isdisjoint(changed):
            return False
        inputs = ReadSet()
        sources = replace(self._sources, pods=self._pods.examples(), recorder=inputs)
        found, faults = described_topologies(sources)
        self._topologies_by, self._topology_inputs = by, inputs.all
        self._read_sets.note_sought(inputs.all)
        if (found, faults) == (self._topologies, self._topology_faults):
            return False
        self._topologies, self._topology_faults, self._merged = found, faults, None
        return True

    def _with_pods(self, about: GangKey, pods: Mapping[str, Pod]) -> Reading:
        """Return the reading of a `GangKey`, in which these pods replace the earlier versions of the same pods.

        :param pods: by `namespace/name`. They differ from the earlier versions in fields only that no dialect reads.
        """
        reading = self._readings[about]
        gangs, neighbours = (
            tuple(_with_pods(each, pods) for each in gangs) for gangs in (reading.gangs, reading.neighbours)
        )
        return replace(reading, gangs=gangs, neighbours=neighbours)

    def _read_all(self, asked: Iterable[GangKey], known: Mapping[GangKey, Reading] = MappingProxyType({})) -> Changed:
        """Read these keys and replace their readings.

        :param known: by key, further readings that have changed, and that need no reading by a dialect.
        """
        were: dict[GangKey, Gang | None] = {}
        faults = False
        for about in (*asked, *known):
            before = self._readings.get(about, _UNREAD)
            reading = known.get(about) or (self._read(about) if self._asks(about) else None)
            after = reading or _UNREAD
            for gang in (*before.gangs, *after.gangs):
                were.setdefault(gang.key, self._gangs.get(gang.key))
            self._take(about, reading)
            faults |= (before.faults, before.advice) != (after.faults, after.advice)
        changed = frozenset(key for key, was in were.items() if self._gangs.get(key) != was)
        if changed or faults or asked or known:
            self._merged = None
        return Changed(changed, faults=faults)

    def _asks(self, about: GangKey) -> bool:
        """Whether a gang with this `GangKey` may exist, so that it must be read.

        It may if a pod names it, or if an object of a kind that its dialect reads has its namespace and name.
        """
        if self._pods.named(about) or self._pods.ceded(about):
            return True
        called = self._sources.catalog.called(about.namespace, about.name)
        return any(about.dialect in _roots(key_of(each), each) for each in called)

    def _read(self, about: GangKey) -> Reading:
        dialect, inputs = _BY_NAME[about.dialect], ReadSet(about.dialect)
        try:
            reading = self._read_by(dialect, about, inputs)
        except Exception:
            # An internal error on one tenant's object must not stop the gangs of other tenants.
            LOG.exception("gang %s cannot be read", about)
            reading = Reading(faults=(_our_error(about),))
        self._read_sets.put(about, inputs.all)
        return reading

    def _read_by(self, dialect: Dialect, about: GangKey, inputs: ReadSet) -> Reading:
        pods, theirs = self._pods_for(dialect, about, inputs)
        sources = replace(self._sources, pods=pods, recorder=inputs)
        reading = read_by(dialect, sources, self._topologies, about)
        if reading.gangs:
            reading = replace(reading, gangs=tuple(self._counted(gang, inputs.all) for gang in reading.gangs))
        if dialect.name not in self._left.to:
            return reading
        left = dialect.read(replace(sources, pods=theirs), self._topologies, about).gangs
        return replace(
            self._left.carries(reading), neighbours=tuple(gang for gang in left if self._left.leaves(gang.key))
        )

    def _pods_for(self, dialect: Dialect, about: GangKey, inputs: ReadSet) -> tuple[list[Pod], list[Pod]]:
        """Return the pods that the reading of a `GangKey` needs: those that the dialect may read, and those that are
        ceded.

        They are the pods of the gang, of gangs that are grouped with it, and pods with an equal `Grouping.company`. For
        a dialect without groups, they include the pods of the Job with the gang's name. A dialect finds these by
        `Sources.pods_of`, which records the look-up. So a Job that is no gang is not read again for its pods.
        """
        keys, grouping = {about}, GROUPING.get(dialect.name)
        if grouping is not None:
            keys = grouping.grouped(about, self._pods.linked, replace(self._sources, pods=(), recorder=inputs))
        found = {pod.key: pod for key in keys for pod in (*self._pods.named(key), *self._pods.ceded(key))}
        inputs.all.update(KeptPods.input_of(key) for key in keys)
        if grouping is not None:
            for company in {grouping.company(pod) for pod in found.values()} - {None}:
                found |= {pod.key: pod for pod in self._pods.company(dialect.name, company)}
                inputs.all.add(KeptPods.input_of_company(dialect.name, company))
        else:
            found |= {pod.key: pod for pod in self._pods.made_by(about)}
        pods = [found[key] for key in sorted(found)]
        theirs = [pod for pod in pods if self._is_theirs(dialect, pod)] if dialect.name in self._left.to else []
        return [pod for pod in pods if self._seen_by(dialect, pod)], theirs

    def _is_theirs(self, dialect: Dialect, pod: Pod) -> bool:
        key = self._pods.ceded_gang(pod.key)
        return key is not None and key.dialect == dialect.name

    def _seen_by(self, dialect: Dialect, pod: Pod) -> bool:
        """Whether a dialect may read a pod: the dialect claims the pod, or no dialect claims it and the dialect is not
        ceded.
        """
        claim = self._pods.claim(pod.key)
        return claim.dialect == dialect.name if claim is not None else dialect.name not in self._left.to

    def _counted(self, gang: Gang, inputs: set[ReadInput]) -> Gang:
        names = gang.names
        inputs.update(map(KeptPods.input_of, names))
        succeeded = sum(self._pods.succeeded(name) for name in names)
        return replace(gang, succeeded=succeeded) if succeeded != gang.succeeded else gang

    def _take(self, about: GangKey, reading: Reading | None) -> None:
        """Replace the gangs, faults and advice that were read for a `GangKey`. None: no pod or object has this name any
        more.
        """
        old, new = self._readings.get(about, _UNREAD), reading or _UNREAD
        after = {gang.key: gang for gang in new.gangs}
        for key in {gang.key for gang in old.gangs} - after.keys():
            self._leave(about, key)
        for key, gang in after.items():
            self._readers[key].add(about)
            if self._gangs.get(key) != gang:
                self._note_terms(self._gangs.get(key), gang)
                self._put(gang)
        if _all_terms(old.neighbours) != _all_terms(new.neighbours):
            self._terms = object()
        if reading is None:
            self._readings.pop(about, None)
            self._faulty.discard(about)
            self._noted.discard(about)
            self._read_sets.put(about, set())
        else:
            (self._faulty.add if reading.faults else self._faulty.discard)(about)
            noted = reading.faults or reading.advice or reading.neighbours
            (self._noted.add if noted else self._noted.discard)(about)
            # Equal gangs stay the same objects, because callers compare gangs by identity.
            kept = tuple(self._gangs[key] for key in after)
            self._readings[about] = replace(reading, gangs=kept) if kept else reading

    def _note_terms(self, old: Gang | None, new: Gang | None) -> None:
        if _terms(old) != _terms(new):
            self._terms = object()

    def _put(self, gang: Gang) -> None:
        old = self._gangs.get(gang.key)
        if old is None:
            insort(self._order, _place(gang.key))
        else:
            self._unname(old)
        self._gangs[gang.key] = gang
        self._names.update(gang.names)
        self._unreadable = None
        self._members.update(member.pod.key for member in gang.members)

    def _leave(self, about: GangKey, key: GangKey) -> None:
        """Remove a gang from the reading of the `GangKey` `about`. Delete the gang if no other key's reading contains
        it.
        """
        readers = self._readers[key]
        readers.discard(about)
        if not readers:
            del self._readers[key]
            self._note_terms(self._gangs[key], None)
            self._unname(self._gangs.pop(key))
            del self._order[bisect_left(self._order, _place(key))]

    def _unname(self, gang: Gang) -> None:
        _subtract(self._names, gang.names)
        self._unreadable = None
        _subtract(self._members, [member.pod.key for member in gang.members])


def _terms(gang: Gang | None) -> object:
    """Return the values of a gang, besides its pods, that decide which members may be evicted (`GangStore.terms`).

    Return None for a gang that has not started, and for no gang.
    """
    if gang is None or all(member.pod.gated_by(GATE) for member in gang.members):
        return None
    return gang.account, gang.min_member, gang.succeeded, gang.pod_sets


def _with_pods(gang: Gang, pods: Mapping[str, Pod]) -> Gang:
    """Return the gang, in which these pods, by `namespace/name`, replace the earlier versions of the same pods."""
    members = []
    for member in gang.members:
        pod = pods.get(member.pod.key, member.pod)
        # An expected pod may have the name of an existing pod, but has another UID.
        same = pod.metadata.uid == member.pod.metadata.uid
        members.append(replace(member, pod=pod) if same and pod is not member.pod else member)
    return replace(gang, members=tuple(members))


def _all_terms(gangs: Iterable[Gang]) -> Mapping[GangKey, object]:
    return {gang.key: _terms(gang) for gang in gangs}


_Counted = TypeVar("_Counted")


def _subtract(counter: Counter[_Counted], values: Collection[_Counted]) -> None:
    """Decrement the count of each value, and remove values whose count is 0."""
    counter.subtract(values)
    for value in values:
        if not counter[value]:
            del counter[value]


def _place(key: GangKey) -> _Sorted:
    return _ORDER[key.dialect], key.namespace, key.name


def _our_error(about: GangKey) -> Fault:
    problem = "could not be read: an error of Phalanx itself, told in the controller's log"
    return Fault(ObjectRef("", "Gang", about.namespace, about.name), "metadata.name", problem, "report it")
