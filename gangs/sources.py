"""The inputs of dialects: the pods that name a gang and the group objects, independent of their origin."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from gangs.manifests import key_of
from gangs.model import GangKey, Manifest
from gangs.quota_model import Charged
from gangs.workloads.jobs import Job, job_owner, owned_by
from kube.catalog import Catalog, Naming, ObjectKey, cataloged
from kube.objects import Pod
from kube.topology import Topology

__all__ = [
    "NAME_FIELD",
    "InputRecorder",
    "ObjectKey",
    "PodKeys",
    "QueueNamed",
    "Queues",
    "Sources",
]

NAME_FIELD = "metadata.name"
EVERYBODY = "*"
"""The key for all namespaces, in place of a namespace's name."""


class InputRecorder(Protocol):
    """A recorder of the inputs of a reading (`gangs.incremental`). The reading is repeated when an input changes."""

    def at_object(self, key: ObjectKey) -> None:
        """Record a look-up of one object, even if it does not exist."""

    def at_kind(self, group: str, kind: str) -> None:
        """Record a look-up of all objects of a kind."""

    def whether(self, group: str, kind: str) -> None:
        """Record the question whether there is an object of a kind."""

    def at_kinds(self) -> None:
        """Record the question which kinds have objects."""

    def at_sought(self, group: str, kind: str, by: Naming, value: Hashable) -> None:
        """Record a look-up of the objects of a kind that the function `by` maps to a value."""

    def at_called(self, namespace: str, name: str) -> None:
        """Record a look-up of the objects of every kind that have this name."""

    def at_labels(self, namespace: str) -> None:
        """Record a look-up of a namespace's labels."""

    def at_sharing(self, namespace: str) -> None:
        """Record the question with which namespaces a namespace shares its groups."""

    def at_scheduler(self, name: str) -> None:
        """Record the question when a scheduler last tried a pod."""


class QueueNamed(NamedTuple):
    """The name of a queue on a pod, and the field that holds it."""

    field: str
    queue: str


class Queues(Protocol):
    """Looks up queues of other systems, such as Kueue, for Gang objects. Phalanx has no queue objects of its own."""

    def charged(self, namespace: str, queue: str, pods: Iterable[Pod]) -> Charged:
        """Return what a queue's name charges a gang with these pods to."""

    def named_on(self, pod: Pod) -> QueueNamed | None:
        """Return the queue that the pod names itself; None if it names none, or if another system counts it."""


@dataclass(frozen=True, slots=True)
class Sources:
    """A consistent view of the pods and objects that ask for gangs.

    `pods`: the pods that may belong to gangs; other pods may be among them. `objects`: group objects, topologies and
    workloads by key. `namespaces`: labels by namespace name, for `phalanx.dev/automatic`. `found`: the topology from
    the nodes' labels (`cluster.topology.well_known_levels`), which is used if no object describes one. `tried`: by
    scheduler other than the stock one, the time of its last seen try of a pod (RFC 3339; `cluster.schedulers`).
    `sharing`: by namespace, the annotation that lists the namespaces with which it shares its groups. The key "*" holds
    the value for all namespaces that are not listed (absent: they share nothing).
    """

    pods: Sequence[Pod] = ()
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    found: Topology | None = None
    tried: Mapping[str, str] = field(default_factory=dict)
    sharing: Mapping[str, str | None] = field(default_factory=dict)
    placeholders: bool = True
    """Whether capacity is reserved for later pods of workloads that do not opt out by annotation."""
    recorder: InputRecorder | None = field(default=None, repr=False, compare=False)
    """The recorder of look-ups; None: no recording. Reads of `pods` and direct reads of `objects` are not recorded."""
    queues: Queues | None = field(default=None, repr=False, compare=False)
    """The look-up of queues for the dialects that read these sources; None: there are no queues."""
    _made_by: dict[tuple[str, str], list[Pod]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By namespace and name of a Job: the pods that name it as their controller. Filled at the first use."""

    def __post_init__(self) -> None:
        """Index the objects, unless they are indexed: the reading of one gang must not scan all objects."""
        object.__setattr__(self, "objects", cataloged(self.objects))

    @property
    def catalog(self) -> Catalog:
        """The objects, by kind and namespace."""
        return cataloged(self.objects)

    def has(self, group: str, kind: str) -> bool:
        """Whether there is an object of this kind."""
        if self.recorder is not None:
            self.recorder.whether(group, kind)
        return self.catalog.has(group, kind)

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Return API group and kind of all objects."""
        if self.recorder is not None:
            self.recorder.at_kinds()
        return self.catalog.kinds()

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""
        if self.recorder is not None:
            self.recorder.at_labels(namespace)
        return self.namespaces.get(namespace, {})

    def shares(self, namespace: str, other: str) -> bool:
        """Whether this namespace lets gangs of the `other` namespace join groups with its own gangs."""
        if namespace == other:
            return True
        if self.recorder is not None:
            self.recorder.at_sharing(namespace)
        return _lets_in(self.sharing.get(namespace, self.sharing.get(EVERYBODY)), other)

    def lends(self, namespace: str, other: str) -> bool:
        """Whether gangs of the `other` namespace may be placed by objects of this one.

        This has no effect on gangs of this namespace. It is therefore allowed unless this namespace lists the
        namespaces with which it shares its groups and the other one is not among them.
        """
        if namespace == other:
            return True
        if self.recorder is not None:
            self.recorder.at_sharing(namespace)
        partners = self.sharing.get(namespace)
        return partners is None or _lets_in(partners, other)

    def last_try(self, scheduler: str) -> str:
        """Return when a scheduler other than the stock one was last seen to try a pod (RFC 3339); "" if never."""
        if self.recorder is not None:
            self.recorder.at_scheduler(scheduler)
        return self.tried.get(scheduler, "")

    def of_kind(self, group: str, kind: str, about: GangKey | None = None) -> Iterator[Manifest]:
        """Yield the objects of a kind, ordered by namespace and name; with `about`, only the object of its name."""
        if about is None:
            if self.recorder is not None:
                self.recorder.at_kind(group, kind)
            yield from self.catalog.of_kind(group, kind)
        elif (found := self.get(group, kind, about.namespace, about.name)) is not None:
            yield found

    def sought(self, group: str, kind: str, by: Naming, value: Hashable) -> Sequence[Manifest]:
        """Return the objects of a kind that the function `by` maps to this value, ordered by namespace and name."""
        if self.recorder is not None:
            self.recorder.at_sought(group, kind, by, value)
        return self.catalog.sought(group, kind, by, value)

    def called(self, about: GangKey | None = None) -> Iterable[Manifest]:
        """Return the objects of every kind that have the gang's namespace and name; None: all objects."""
        if self.recorder is not None and about is not None:
            self.recorder.at_called(about.namespace, about.name)
        return self.objects.values() if about is None else self.catalog.called(about.namespace, about.name)

    def having(self, manifest: Manifest) -> "Sources":
        """Return a copy of the sources with this object (not a pod) added or replaced."""
        return self.changed({key_of(manifest): manifest})

    def changed(self, changes: Mapping[ObjectKey, Manifest | None]) -> "Sources":
        """Return a copy of the sources with these objects added or replaced; None removes an object."""
        return replace(self, objects=self.catalog.changed(changes))

    def pods_of(self, job: Job) -> list[Pod]:
        """Return the pods that the Job controls, in their order. Each pod is indexed only once for all Jobs."""
        if self.pods and not self._made_by:
            object.__setattr__(self, "_made_by", _by_job(self.pods))
        return [pod for pod in self._made_by.get((job.metadata.namespace, job.name), ()) if owned_by(pod, job)]

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        if self.recorder is not None:
            self.recorder.at_object((group, kind, namespace, name))
        return self.objects.get((group, kind, namespace, name))

    def find(self, key: ObjectKey) -> Manifest | None:
        """One object by its key, or None."""
        return self.get(*key)


def _by_job(pods: Iterable[Pod]) -> dict[tuple[str, str], list[Pod]]:
    """Return the pods by the Job that controls them. Pods without a Job are under the empty name, which no Job has."""
    found: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        owner = job_owner(pod)
        name = owner.name if owner is not None else ""
        found[pod.metadata.namespace, name].append(pod)
    return dict(found)


@dataclass(frozen=True, slots=True)
class PodKeys:
    """The keys of a dialect's pods, by which the API server recognises them in match conditions."""

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    """Scheduler names that the dialect's users write, and that Phalanx replaces by the stock scheduler."""
    more_labels: tuple[str, ...] = ()
    """Labels by which pods describe their gang further, without asking for one."""
    more_annotations: tuple[str, ...] = ()
    on_workloads: tuple[tuple[str, str], ...] = ()
    """Place ("labels" or "annotations") and key of the keys that the dialect reads on workloads, or refuses there."""
    on_jobs_of_gangs: tuple[tuple[str, str], ...] = ()
    """Place and key of the keys that the dialect reads in the Job templates of a workload that is a gang."""
    fields: tuple[str, ...] = ()
    """Fields of a pod's spec that name its gang, for a dialect without labels and annotations of its own."""

    @property
    def all(self) -> frozenset[str]:
        """Every label and annotation."""
        return frozenset((*self.labels, *self.annotations, *self.more_labels, *self.more_annotations))

    def naming(self, pod: Pod, what: str) -> str:
        """Return the field in which a pod names an object (`Kind name` or `Kind namespace/name`).

        If the pod does not name the object, return the field of the pod's own name.
        """
        name, meta = what.rpartition(" ")[2].rpartition("/")[2], pod.metadata
        fields = [f"metadata.labels[{key}]" for key in self.labels if meta.labels.get(key) == name]
        fields += [f"metadata.annotations[{key}]" for key in self.annotations if meta.annotations.get(key) == name]
        return fields[0] if fields else NAME_FIELD


def _lets_in(partners: str | None, namespace: str) -> bool:
    """Whether a list of namespaces has this one."""
    return not {each.strip() for each in (partners or "").split(",")}.isdisjoint({namespace, EVERYBODY})
