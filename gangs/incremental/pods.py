"""Pods indexed by the gang that they name, the gangs that they list, their Job, and their company (`Grouping`)."""

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass

from gangs.coexistence.ownership import CededToOthers, admitted_by_us
from gangs.dialects.claims import dialect_of, names_nothing
from gangs.dialects.protocol import Grouping
from gangs.dialects.table import DIALECTS
from gangs.incremental.dependencies import ReadInput
from gangs.model import GangKey
from gangs.workloads.jobs import counted_by_job, job_owner
from kube.objects import Pod

_PODS, _MADE, _COMPANY = "pods", "made", "company"
_GROUPING = {dialect.name: dialect for dialect in DIALECTS if isinstance(dialect, Grouping)}


@dataclass(frozen=True, slots=True)
class _Known:
    """A pod with the names in its metadata.

    `claim`: its gang; None if it has none or if the gang is ceded. `theirs`: its gang if that is ceded to another
    system. `joined`: the other gangs that it lists. `job`: namespace and name of the Job that controls it. `company`:
    the value that it shares with pods of other gangs (`Grouping`). `named`: the gang that it names, by dialect.
    """

    pod: Pod
    claim: GangKey | None
    named: Mapping[str, GangKey]
    joined: frozenset[GangKey] = frozenset()
    job: tuple[str, str] | None = None
    company: Hashable = None
    theirs: GangKey | None = None

    @property
    def key(self) -> GangKey | None:
        """Its gang, ceded or not; None if it names none."""
        return self.claim or self.theirs


class _Index(dict[Hashable, dict[str, Pod]]):
    """Pods by a value, and below by `namespace/name`. Values without pods are removed."""

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
    """The pods that may have to do with gangs, kept up to date."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._named = _Index()
        self._theirs = _Index()
        self._made = _Index()
        self._companies = _Index()
        self._in_dialect: dict[str, dict[str, Pod]] = {dialect.name: {} for dialect in DIALECTS}
        self._lists: defaultdict[GangKey, Counter[GangKey]] = defaultdict(Counter)
        """By gang and other gang: how many pods list the other one. Within a namespace, both directions are counted."""
        self._unfinished: Counter[GangKey] = Counter()
        self._succeeded: Counter[GangKey] = Counter()
        self._admitted: defaultdict[str, dict[str, GangKey]] = defaultdict(dict)
        """By dialect and pod: the gangs of live pods that Phalanx's webhook admitted."""
        self.live: dict[str, tuple[Pod, GangKey]] = {}
        """Pods that name a gang that is not ceded, and are neither finished nor terminating, by `namespace/name`."""
        self.touched: set[GangKey] = set()
        """Gangs, before or after the last update, of the pods that the update changed."""

    @staticmethod
    def input_of(key: GangKey) -> ReadInput:
        """Return the input that is the pods of a gang."""
        return _PODS, key

    @staticmethod
    def input_of_made(key: GangKey) -> ReadInput:
        """Return the input that is the pods of the Job of that name."""
        return _MADE, key.namespace, key.name

    @staticmethod
    def input_of_company(dialect: str, company: Hashable) -> ReadInput:
        """Return the input that is the pods of one company (`Grouping.company`)."""
        return _COMPANY, dialect, company

    def update(self, pods: Mapping[str, Pod | None], left: CededToOthers) -> set[ReadInput]:
        """Take over pods that are new, changed or (None) gone. Return the inputs of readings that change by this."""
        changed: set[ReadInput] = set()
        self.touched = set()
        for key, pod in pods.items():
            old, new = self._known.pop(key, None), None if pod is None else _known(pod, left)
            if old is not None:
                self._drop(key, old)
            if new is not None and (new.named or new.job is not None):
                self._put(key, new)
            for each in (old, new):
                if each is not None:
                    changed.update(_inputs(each))
                    self.touched.update(() if each.key is None else (each.key,))
        return changed

    def named(self, key: GangKey) -> Sequence[Pod]:
        """Return the pods that name a gang that is not ceded, finished pods included, ordered by name."""
        return self._named.of(key)

    def theirs(self, key: GangKey) -> Sequence[Pod]:
        """Return the pods that name a gang that is ceded to another system."""
        return self._theirs.of(key)

    def finished(self, key: GangKey) -> list[Pod]:
        """Return the pods that name this gang, have finished and still exist."""
        return [pod for pod in self.named(key) if pod.finished and not pod.terminating]

    def made_by(self, key: GangKey) -> Sequence[Pod]:
        """Return the pods of the Job of that name."""
        return self._made.of((key.namespace, key.name))

    def company(self, dialect: str, company: Hashable) -> Sequence[Pod]:
        """Return the pods of a dialect that share this `company` value."""
        return self._companies.of((dialect, company))

    def linked(self, key: GangKey) -> Iterable[GangKey]:
        """Return the gangs that pods link to a gang: the gangs that it lists, and gangs of its namespace that list it.

        Lists in pods of another namespace have no effect on a gang (docs/decisions/0013).
        """
        return self._lists.get(key, Counter()).keys()

    def at(self, key: str) -> Pod | None:
        """The pod of that `namespace/name`, if it may have to do with gangs."""
        known = self._known.get(key)
        return None if known is None else known.pod

    def claim(self, key: str) -> GangKey | None:
        """The gang of the pod of that `namespace/name`."""
        known = self._known.get(key)
        return None if known is None else known.claim

    def left_key(self, key: str) -> GangKey | None:
        """Return the gang of that pod if it is ceded to another system; else None."""
        known = self._known.get(key)
        return None if known is None else known.theirs

    @property
    def waited_for(self) -> KeysView[GangKey]:
        """Gangs with unfinished pods."""
        return self._unfinished.keys()

    def succeeded(self, key: GangKey) -> int:
        """Return how many pods that name the gang have succeeded. Pods that a Job counts are left out."""
        return self._succeeded[key]

    def carried(self, to: Container[str]) -> frozenset[GangKey]:
        """Return the gangs, in ceded dialects, with a live pod that Phalanx's webhook admitted."""
        return frozenset(key for name, keys in self._admitted.items() if name in to for key in keys.values())

    def dialects(self) -> frozenset[str]:
        """Return the dialects in which some pod names a gang."""
        return frozenset(name for name, pods in self._in_dialect.items() if pods)

    def examples(self) -> list[Pod]:
        """Return one pod of each dialect in which some pod names a gang."""
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
        if known.theirs is not None:
            self._theirs.add(known.theirs, known.pod)
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
        self._theirs.discard(known.theirs, key)
        if known.key is not None:
            self._count(known, known.key, -1)
            self._companies.discard((known.key.dialect, known.company), key)

    def _count(self, known: _Known, key: GangKey, by: int) -> None:
        pod = known.pod
        if not pod.finished and known.claim is not None:
            _add(self._unfinished, key, by)
        if known.claim is not None and _ended_well(pod):
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
    if names_nothing(pod):
        return _Known(pod, None, {}, job=job)
    named = {dialect.name: key for dialect in DIALECTS if (key := dialect.gang_of(pod)) is not None}
    ours = dialect_of(pod, left) if named else None
    found = ours or (dialect_of(pod) if named and left.to else None)
    if found is None:
        return _Known(pod, None, named, job=job)
    dialect, key = found
    claim, theirs = (key, None) if ours is not None else (None, key)
    if dialect.name not in _GROUPING:
        return _Known(pod, claim, named, job=job, theirs=theirs)
    grouping = _GROUPING[dialect.name]
    return _Known(pod, claim, named, grouping.joined(pod), job, grouping.company(pod), theirs)


def _ended_well(pod: Pod) -> bool:
    """Whether the pod has succeeded and is not counted by a Job, so that its gang needs one member less."""
    return pod.status.phase == "Succeeded" and not pod.terminating and not counted_by_job(pod)


def _inputs(known: _Known) -> Iterable[ReadInput]:
    if known.job is not None:
        yield (_MADE, *known.job)
    if known.key is not None:
        yield KeptPods.input_of(known.key)
        yield from (KeptPods.input_of(each) for each in known.joined if each.namespace == known.key.namespace)
        if known.company is not None:
            yield KeptPods.input_of_company(known.key.dialect, known.company)


def _add(counter: Counter[GangKey], key: GangKey, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]
