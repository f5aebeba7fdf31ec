"""An index of pods by the gang that they name, by the gangs that they list as grouped with it, and by their Job."""

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace

from gangs.coexistence.ownership import NOTHING, CededToOthers, admitted_by_us
from gangs.dialects.claims import claimed, gangs_named
from gangs.dialects.table import DIALECTS, GROUPING
from gangs.incremental.dependencies import ReadInput, pods_equal_as_read, pods_of_job
from gangs.model import GangKey
from gangs.workloads.jobs import job_owner, succeeded_uncounted
from kube.objects import Pod

_PODS, _COMPANY = "pods", "company"
_NAMES = tuple(dialect.name for dialect in DIALECTS)


@dataclass(frozen=True, slots=True)
class _Known:
    """A pod with the gangs that its labels and annotations name.

    `named`: by dialect, the gang that the pod names. `claim`: its gang in the dialect that claims it; None if it has
    none or if the gang is ceded. `ceded`: its gang if the gang is ceded; else None. `joined`: the gangs that the pod
    lists as grouped with its own. `job`: namespace and name of the Job that controls it. `company`: see
    `Grouping.company`.
    """

    pod: Pod
    claim: GangKey | None
    named: Mapping[str, GangKey]
    joined: frozenset[GangKey] = frozenset()
    job: tuple[str, str] | None = None
    company: Hashable = None
    ceded: GangKey | None = None

    @property
    def key(self) -> GangKey | None:
        """The pod's gang, ceded or not; None if it names none."""
        return self.claim or self.ceded


@dataclass(frozen=True, slots=True)
class ChangedPods:
    """The effects of changed pods on the readings of gangs.

    `inputs`: the inputs of readings that have changed. `named`: the gangs that the pods with these changes name or
    named. `alike`: by `namespace/name`, the pods of which only fields changed that no dialect reads.
    `alike_inputs`: the inputs of the readings whose gangs may have these pods as members.
    """

    inputs: set[ReadInput]
    named: set[GangKey]
    alike: dict[str, Pod]
    alike_inputs: set[ReadInput]


class _Index(dict[Hashable, dict[str, Pod]]):
    """By an index value: the pods with this value, by `namespace/name`. A value without pods is removed."""

    def add(self, value: Hashable, pod: Pod) -> None:
        self.setdefault(value, {})[pod.key] = pod

    def discard(self, value: Hashable, key: str) -> None:
        there = self.get(value)
        if there is not None:
            there.pop(key, None)
            if not there:
                del self[value]

    def of(self, value: Hashable) -> Sequence[Pod]:
        there = self.get(value, {})
        return [there[key] for key in sorted(there)]


class KeptPods:
    """The pods that name a gang or belong to a Job, with indexes that are updated with each change."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._named = _Index()
        self._ceded = _Index()
        self._made = _Index()
        self._companies = _Index()
        self._in_dialect: dict[str, dict[str, Pod]] = {dialect.name: {} for dialect in DIALECTS}
        self._lists: defaultdict[GangKey, Counter[GangKey]] = defaultdict(Counter)
        """By gang and other gang: how many pods of the gang list the other one as grouped with it.

        If both gangs are in one namespace, the pods of the other gang that list this one are counted, too.
        """
        self._unfinished: Counter[GangKey] = Counter()
        self._succeeded: Counter[GangKey] = Counter()
        self._admitted: defaultdict[str, dict[str, GangKey]] = defaultdict(dict)
        """By dialect and `namespace/name` of a live pod that Phalanx's webhook admitted: the pod's gang."""
        self.live: dict[str, tuple[Pod, GangKey]] = {}
        """By `namespace/name`: each pod that names a gang, without finished, terminating and ceded pods."""
        self.touched: set[GangKey] = set()
        """The gangs that the pods changed by the last update named before or after it."""

    @staticmethod
    def input_of(key: GangKey) -> ReadInput:
        """Return the recorded input (`ReadInput`) "the pods of this gang"."""
        return _PODS, key

    @staticmethod
    def input_of_company(dialect: str, company: Hashable) -> ReadInput:
        """Return the recorded input (`ReadInput`) "the pods for which `Grouping.company` returns this value"."""
        return _COMPANY, dialect, company

    def update(self, pods: Mapping[str, Pod | None], left: CededToOthers) -> ChangedPods:
        """Update the indexes of pods. Return the effects on the readings of gangs.

        :param pods: by `namespace/name`, the pods that are new, changed or gone; None for a pod that is gone.
        """
        changed = ChangedPods(set(), set(), {}, set())
        self.touched = set()
        for key, pod in pods.items():
            old = self._known.pop(key, None)
            if old is not None:
                self._drop(key, old)
            if old is not None and pod is not None and pods_equal_as_read(old.pod, pod):
                self._put(key, replace(old, pod=pod))
                changed.alike[key] = pod
                changed.alike_inputs.update(_inputs(old))
                self.touched.update(() if old.key is None else (old.key,))
                continue
            new = None if pod is None else _known(pod, left)
            if new is not None and (new.named or new.job is not None):
                self._put(key, new)
            for each in (old, new):
                if each is not None:
                    changed.inputs.update(_inputs(each))
                    changed.named.update(() if each.key is None else (each.key,))
        self.touched |= changed.named
        return changed

    def named(self, key: GangKey) -> Sequence[Pod]:
        """Return the pods that name this gang, finished ones included, ordered by name; empty if the gang is ceded."""
        return self._named.of(key)

    def ceded(self, key: GangKey) -> Sequence[Pod]:
        """Return the pods that name this gang if it is ceded to another system; else empty."""
        return self._ceded.of(key)

    def finished(self, key: GangKey) -> list[Pod]:
        """Return the pods that name this gang, have finished and still exist."""
        return [pod for pod in self.named(key) if pod.finished and not pod.terminating]

    def made_by(self, key: GangKey) -> Sequence[Pod]:
        """Return the pods of the Job with the namespace and name of this gang."""
        return self._made.of((key.namespace, key.name))

    def company(self, dialect: str, company: Hashable) -> Sequence[Pod]:
        """Return the pods of a dialect that must be read together although they name different gangs: those for which
        `Grouping.company` returns this value.
        """
        return self._companies.of((dialect, company))

    def linked(self, key: GangKey) -> Iterable[GangKey]:
        """Return the gangs that are grouped with the gang `key` by its pods, or by pods of its namespace.

        A pod groups gangs by listing them in an annotation, such as Koordinator's `groups`. The result has the gangs
        that pods of `key` list, and the gangs of the same namespace whose pods list `key`. A pod of another namespace
        cannot add its gang to the group in this way (docs/decisions/0013).
        """
        return self._lists.get(key, Counter()).keys()

    def at(self, key: str) -> Pod | None:
        """Return the pod with this `namespace/name`; None if it names no gang and belongs to no Job."""
        known = self._known.get(key)
        return None if known is None else known.pod

    def claim(self, key: str) -> GangKey | None:
        """Return the gang of the pod with this `namespace/name`; None if it has none or if the gang is ceded."""
        known = self._known.get(key)
        return None if known is None else known.claim

    def ceded_gang(self, key: str) -> GangKey | None:
        """Return the gang of the pod with this `namespace/name` if the gang is ceded to another system; else None."""
        known = self._known.get(key)
        return None if known is None else known.ceded

    @property
    def waited_for(self) -> KeysView[GangKey]:
        """The gangs that unfinished pods name. Ceded gangs are left out."""
        return self._unfinished.keys()

    def succeeded(self, key: GangKey) -> int:
        """Return the number of succeeded pods that name the gang, without pods that their Job has counted."""
        return self._succeeded[key]

    def carried(self, to: Container[str]) -> frozenset[GangKey]:
        """Return the gangs of ceded dialects that have a live pod that Phalanx's webhook admitted.

        :param to: the names of the ceded dialects.
        """
        return frozenset(key for name, keys in self._admitted.items() if name in to for key in keys.values())

    def dialects(self) -> frozenset[str]:
        """Return the names of the dialects in which any pod names a gang."""
        return frozenset(name for name, pods in self._in_dialect.items() if pods)

    def examples(self) -> list[Pod]:
        """Return, for each dialect in which any pod names a gang, one such pod."""
        return [next(iter(pods.values())) for pods in self._in_dialect.values() if pods]

    def _put(self, key: str, known: _Known) -> None:
        self._known[key] = known
        for name in known.named:
            self._in_dialect[name][key] = known.pod
        if known.job is not None:
            self._made.add(known.job, known.pod)
        if (admitted := admitted_by_us(known.pod)) in known.named:
            self._admitted[admitted][key] = known.named[admitted]
        if known.claim is not None:
            self._named.add(known.claim, known.pod)
            if not known.pod.finished and not known.pod.terminating:
                self.live[key] = known.pod, known.claim
        if known.ceded is not None:
            self._ceded.add(known.ceded, known.pod)
        if known.key is not None:
            self._count(known, known.key, 1)
            if known.company is not None:
                self._companies.add((known.key.dialect, known.company), known.pod)

    def _drop(self, key: str, known: _Known) -> None:
        for name in known.named:
            self._in_dialect[name].pop(key, None)
        if known.job is not None:
            self._made.discard(known.job, key)
        for admitted in self._admitted.values():
            admitted.pop(key, None)
        self.live.pop(key, None)
        self._named.discard(known.claim, key)
        self._ceded.discard(known.ceded, key)
        if known.key is not None:
            self._count(known, known.key, -1)
            self._companies.discard((known.key.dialect, known.company), key)

    def _count(self, known: _Known, key: GangKey, by: int) -> None:
        pod = known.pod
        if not pod.finished and known.claim is not None:
            _add(self._unfinished, key, by)
        if known.claim is not None and succeeded_uncounted(pod):
            _add(self._succeeded, key, by)
        for other in known.joined:
            there_and_back = ((key, other), (other, key))
            for one, another in there_and_back if other.namespace == key.namespace else there_and_back[:1]:
                _add(self._lists[one], another, by)
                if not self._lists[one]:
                    del self._lists[one]


def _known(pod: Pod, left: CededToOthers) -> _Known:
    owner = job_owner(pod)
    job = (pod.metadata.namespace, owner.name) if owner is not None else None
    named = {dialect.name: key for dialect, key in gangs_named(pod)}
    ours = claimed(pod, named, left) if named else None
    found = ours or (claimed(pod, named, NOTHING) if named and left.to else None)
    if found is None:
        return _Known(pod, None, named, job=job)
    dialect, key = found
    claim, ceded = (key, None) if ours is not None else (None, key)
    if dialect.name not in GROUPING:
        return _Known(pod, claim, named, job=job, ceded=ceded)
    grouping = GROUPING[dialect.name]
    return _Known(pod, claim, named, grouping.joined(pod), job, grouping.company(pod), ceded)


def _inputs(known: _Known) -> Iterable[ReadInput]:
    if known.job is not None:
        dialects = _NAMES if known.claim is None else (known.claim.dialect,)
        yield from (pods_of_job(dialect, *known.job) for dialect in dialects)
    if known.key is not None:
        yield KeptPods.input_of(known.key)
        yield from (KeptPods.input_of(each) for each in known.joined if each.namespace == known.key.namespace)
        if known.company is not None:
            yield KeptPods.input_of_company(known.key.dialect, known.company)


def _add(counter: Counter[GangKey], key: GangKey, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]
