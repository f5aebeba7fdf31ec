"""The input of all dialects (`Sources`): pods and objects, whether they come from a cluster or from files."""

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
"""The name for all namespaces, in the annotation `phalanx.dev/shares-groups-with` and as a key of `Sources.sharing`."""


class InputRecorder(Protocol):
    """A recorder of all look-ups while a gang is read (`gangs.incremental`).

    When the result of a recorded look-up changes, the gang is read again.
    """

    def at_object(self, key: ObjectKey) -> None:
        """Record that the reading has looked up one object, which need not exist."""

    def at_kind(self, group: str, kind: str) -> None:
        """Record that the reading has looked up all objects of a kind."""

    def whether(self, group: str, kind: str) -> None:
        """Record that the reading has asked whether any object of a kind exists."""

    def at_kinds(self) -> None:
        """Record that the reading has looked up which kinds have objects."""

    def at_sought(self, group: str, kind: str, by: Naming, value: Hashable) -> None:
        """Record that the reading has looked up the objects of a kind for which the index function `by` returns
        `value`.
        """

    def at_called(self, namespace: str, name: str) -> None:
        """Record that the reading has looked up the objects of every kind that have this namespace and name."""

    def at_labels(self, namespace: str) -> None:
        """Record that the reading has looked up a namespace's labels."""

    def at_sharing(self, namespace: str) -> None:
        """Record that the reading has looked up the annotation `phalanx.dev/shares-groups-with` of a namespace."""

    def at_scheduler(self, name: str) -> None:
        """Record that the reading has looked up when the scheduler of this name last tried to schedule a pod."""

    def at_pods_of_job(self, namespace: str, name: str) -> None:
        """Record that the reading has looked up the pods that a Job controls."""


class QueueNamed(NamedTuple):
    """The name of a queue on a pod. `field`: the path of the key that contains the name, for messages."""

    field: str
    queue: str


class Queues(Protocol):
    """The look-up of queues of other systems, such as Kueue. A Gang object can name such a queue.

    Phalanx has no queue objects of its own.
    """

    def charged(self, namespace: str, queue: str, pods: Iterable[Pod]) -> Charged:
        """Return the account whose quota a gang with these pods uses, by the name of a queue in its namespace."""

    def named_on(self, pod: Pod) -> QueueNamed | None:
        """Return the queue that the pod itself names.

        Return None if it names none, or if the queue belongs to a system that runs in the cluster and counts its quota.
        """


@dataclass(frozen=True, slots=True)
class Sources:
    """All pods and objects from which gangs are derived, at one instant.

    `pods`: the pods that may belong to gangs, and possibly others. `objects`: group objects, topologies and workloads
    by key. `namespaces`: labels by namespace name, for `phalanx.dev/automatic`. `found`: the topology from the nodes'
    labels (`cluster.topology.well_known_levels`), which is used if no object describes one. `tried`: by scheduler other
    than the stock one, the last time it is known to have tried a pod (RFC 3339; `cluster.schedulers`). `sharing`: by
    namespace, the annotation `phalanx.dev/shares-groups-with`. The key "*" has the value for namespaces without an
    entry. Without the key "*", such namespaces share nothing.
    """

    pods: Sequence[Pod] = ()
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    found: Topology | None = None
    tried: Mapping[str, str] = field(default_factory=dict)
    sharing: Mapping[str, str | None] = field(default_factory=dict)
    placeholders: bool = True
    """Whether capacity is reserved for expected pods, unless a workload opts out by annotation."""
    recorder: InputRecorder | None = field(default=None, repr=False, compare=False)
    """The recorder of look-ups; None: no recording. It does not record reads of the fields `pods` and `objects`."""
    queues: Queues | None = field(default=None, repr=False, compare=False)
    """The look-up of queues for the dialects that read these sources; None: there are no queues."""
    _made_by: dict[tuple[str, str], list[Pod]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By namespace and name of a Job: the pods that name it as their controller. Filled at the first use."""

    def __post_init__(self) -> None:
        """Index the objects, unless they are indexed, so that no look-up scans all objects."""
        object.__setattr__(self, "objects", cataloged(self.objects))

    @property
    def catalog(self) -> Catalog:
        """All objects of the sources, indexed by kind and namespace."""
        return cataloged(self.objects)

    def has(self, group: str, kind: str) -> bool:
        """Whether an object of this kind exists."""
        if self.recorder is not None:
            self.recorder.whether(group, kind)
        return self.catalog.has(group, kind)

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Return (API group, kind) of each kind that has objects."""
        if self.recorder is not None:
            self.recorder.at_kinds()
        return self.catalog.kinds()

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""
        if self.recorder is not None:
            self.recorder.at_labels(namespace)
        return self.namespaces.get(namespace, {})

    def shares(self, namespace: str, other: str) -> bool:
        """Whether gangs of the namespace `other` may be in one group with gangs of `namespace`.

        `namespace` must allow it by the annotation `phalanx.dev/shares-groups-with`.
        """
        if namespace == other:
            return True
        if self.recorder is not None:
            self.recorder.at_sharing(namespace)
        return _lets_in(self.sharing.get(namespace, self.sharing.get(EVERYBODY)), other)

    def lends(self, namespace: str, other: str) -> bool:
        """Whether objects in `namespace` may determine the placement of gangs in the namespace `other`.

        It is allowed unless `namespace` has the annotation `phalanx.dev/shares-groups-with` and `other` is not in it.
        The default is "allowed", because gangs of `namespace` itself are not affected.
        """
        if namespace == other:
            return True
        if self.recorder is not None:
            self.recorder.at_sharing(namespace)
        partners = self.sharing.get(namespace)
        return partners is None or _lets_in(partners, other)

    def last_try(self, scheduler: str) -> str:
        """Return the last time a scheduler is known to have tried a pod (RFC 3339); "" if it never has.

        The time is not recorded for the stock scheduler.
        """
        if self.recorder is not None:
            self.recorder.at_scheduler(scheduler)
        return self.tried.get(scheduler, "")

    def of_kind(self, group: str, kind: str, about: GangKey | None = None) -> Iterator[Manifest]:
        """Yield the objects of a kind, ordered by namespace and name.

        :param about: a gang; then only the object with the gang's namespace and name is yielded.
        """
        if about is None:
            if self.recorder is not None:
                self.recorder.at_kind(group, kind)
            yield from self.catalog.of_kind(group, kind)
        elif (found := self.get(group, kind, about.namespace, about.name)) is not None:
            yield found

    def sought(self, group: str, kind: str, by: Naming, value: Hashable) -> Sequence[Manifest]:
        """Return the objects of a kind for which the index function `by` returns `value`.

        They are ordered by namespace and name. `kube.catalog.Naming` describes index functions.
        """
        if self.recorder is not None:
            self.recorder.at_sought(group, kind, by, value)
        return self.catalog.sought(group, kind, by, value)

    def called(self, about: GangKey | None = None) -> Iterable[Manifest]:
        """Return the objects of any kind with the namespace and name of a gang; if `about` is None, all objects."""
        if self.recorder is not None and about is not None:
            self.recorder.at_called(about.namespace, about.name)
        return self.objects.values() if about is None else self.catalog.called(about.namespace, about.name)

    def having(self, manifest: Manifest) -> "Sources":
        """Return a copy of the sources with this object (not a pod) added or replaced."""
        return self.changed({key_of(manifest): manifest})

    def changed(self, changes: Mapping[ObjectKey, Manifest | None]) -> "Sources":
        """Return a copy of the sources with these objects added or replaced; None removes an object.

        Without changes, return the sources themselves. Use a copy for a short time only (`Catalog.changed`).
        """
        return replace(self, objects=self.catalog.changed(changes, briefly=True)) if changes else self

    def pods_of(self, job: Job) -> list[Pod]:
        """Return the pods that the Job controls, in the order of `pods`. The first call indexes all pods by Job."""
        if self.recorder is not None:
            self.recorder.at_pods_of_job(job.metadata.namespace, job.name)
        if self.pods and not self._made_by:
            object.__setattr__(self, "_made_by", _by_job(self.pods))
        return [pod for pod in self._made_by.get((job.metadata.namespace, job.name), ()) if owned_by(pod, job)]

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """Return one object; None if it does not exist."""
        if self.recorder is not None:
            self.recorder.at_object((group, kind, namespace, name))
        return self.catalog.find((group, kind, namespace, name))

    def find(self, key: ObjectKey) -> Manifest | None:
        """Return one object by its key; None if it does not exist."""
        return self.get(*key)


def _by_job(pods: Iterable[Pod]) -> dict[tuple[str, str], list[Pod]]:
    """Return the pods by namespace and name of the Job that controls them. Pods without a Job are under the name ""."""
    found: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        owner = job_owner(pod)
        name = owner.name if owner is not None else ""
        found[pod.metadata.namespace, name].append(pod)
    return dict(found)


@dataclass(frozen=True, slots=True)
class PodKeys:
    """The labels, annotations and scheduler names by which pods ask for gangs in one dialect.

    The webhook configuration's match conditions contain them, so that the API server sends only such pods.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    """Scheduler names in users' manifests that Phalanx replaces by the stock scheduler."""
    more_labels: tuple[str, ...] = ()
    """Labels that describe a pod's gang further. Alone they do not make the pod a member of a gang."""
    more_annotations: tuple[str, ...] = ()
    """Annotations that describe a pod's gang further. Alone they do not make the pod a member of a gang."""
    on_workloads: tuple[tuple[str, str], ...] = ()
    """The keys that the dialect reads, or refuses, on workloads themselves, as ("labels" or "annotations", key)."""
    on_jobs_of_gangs: tuple[tuple[str, str], ...] = ()
    """The keys that the dialect reads in a workload's Job templates if the whole workload is a gang.

    Each is ("labels" or "annotations", key).
    """
    fields: tuple[str, ...] = ()
    """Paths of the fields of a pod's spec that name its gang; empty for dialects with labels or annotations for
    this.
    """

    @property
    def all(self) -> frozenset[str]:
        """The keys of all labels and annotations that the dialect reads on pods."""
        return frozenset((*self.labels, *self.annotations, *self.more_labels, *self.more_annotations))

    def naming(self, pod: Pod, what: str) -> str:
        """Return the path of the pod's label or annotation that names an object, for messages.

        If none names it, return "metadata.name".

        :param what: the object, as `Kind name` or `Kind namespace/name`.
        """
        name, meta = what.rpartition(" ")[2].rpartition("/")[2], pod.metadata
        fields = [f"metadata.labels[{key}]" for key in self.labels if meta.labels.get(key) == name]
        fields += [f"metadata.annotations[{key}]" for key in self.annotations if meta.annotations.get(key) == name]
        return fields[0] if fields else NAME_FIELD


def _lets_in(partners: str | None, namespace: str) -> bool:
    """Whether `partners`, a comma-separated list of namespaces, contains `namespace` or "*"; None contains nothing."""
    return not {each.strip() for each in (partners or "").split(",")}.isdisjoint({namespace, EVERYBODY})
