"""What dialects read from: the pods that name a gang and the group objects, wherever they came from."""

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
    "Looked",
    "ObjectKey",
    "PodKeys",
    "QueueNamed",
    "Queues",
    "Sources",
]

NAME_FIELD = "metadata.name"
EVERYBODY = "*"
"""In the place of a namespace: all of them."""


class Looked(Protocol):
    """Is told what is looked at, so that who looked can look again when that changes (`gangs.incremental.readings`)."""

    def at_object(self, key: ObjectKey) -> None:
        """One object, whether or not it is there."""

    def at_kind(self, group: str, kind: str) -> None:
        """All objects of a kind."""

    def whether(self, group: str, kind: str) -> None:
        """Whether there is an object of a kind."""

    def at_kinds(self) -> None:
        """Of which kinds there are objects."""

    def at_sought(self, group: str, kind: str, by: Naming, value: Hashable) -> None:
        """The objects of a kind that are to be found by a value."""

    def at_called(self, namespace: str, name: str) -> None:
        """The objects of every kind that have this name."""

    def at_labels(self, namespace: str) -> None:
        """The labels of a namespace."""

    def at_sharing(self, namespace: str) -> None:
        """With whom a namespace shares its groups."""

    def at_scheduler(self, name: str) -> None:
        """When a scheduler last tried a pod."""


class QueueNamed(NamedTuple):
    """The name of a queue that stands on a pod, and the field in which it does."""

    field: str
    queue: str


class Queues(Protocol):
    """The queues of all dialects, for a dialect without queues of its own."""

    def charged(self, namespace: str, queue: str, pods: Iterable[Pod]) -> Charged:
        """What a queue's name comes to that a gang of these pods names."""

    def named_on(self, pod: Pod) -> QueueNamed | None:
        """The queue that the pod names itself, where that counts here."""


@dataclass(frozen=True, slots=True)
class Sources:
    """A consistent view of what was asked for.

    `pods`: the pods that may belong to gangs (all pods is fine). `objects`: group objects, topologies and workloads
    by key. `namespaces`: labels by namespace name, for `phalanx.dev/automatic`. `found`: the topology that the nodes'
    labels show (`cluster.topology.well_known_levels`); it counts where no object describes one.
    `tried`: by scheduler other than the stock one, when it was last seen to try a pod (RFC 3339; `cluster.schedulers`).
    `sharing`: by namespace, the annotation that says with whom it shares its groups; under "*" what those say that are
    not in it (absent: nothing).
    """

    pods: Sequence[Pod] = ()
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    found: Topology | None = None
    tried: Mapping[str, str] = field(default_factory=dict)
    sharing: Mapping[str, str | None] = field(default_factory=dict)
    placeholders: bool = True
    """Whether room is held for pods that workloads make later, where these do not say that they want none."""
    looked: Looked | None = field(default=None, repr=False, compare=False)
    """Who is told what is looked at; pods, and what is taken from `objects` directly, are not told."""
    queues: Queues | None = field(default=None, repr=False, compare=False)
    """Where queues are looked up, for the dialects that read from here; None: there are none."""
    _made_by: dict[tuple[str, str], list[Pod]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By namespace and name of a Job: the pods that name it as their controller. Empty until it is asked for."""

    def __post_init__(self) -> None:
        """Put the objects in order, unless they are: whoever asks about one gang must not have to look at all."""
        object.__setattr__(self, "objects", cataloged(self.objects))

    @property
    def catalog(self) -> Catalog:
        """The objects, by kind and namespace."""
        return cataloged(self.objects)

    def has(self, group: str, kind: str) -> bool:
        """Whether there is an object of this kind."""
        if self.looked is not None:
            self.looked.whether(group, kind)
        return self.catalog.has(group, kind)

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Group and kind of all objects there are."""
        if self.looked is not None:
            self.looked.at_kinds()
        return self.catalog.kinds()

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none where it is not known."""
        if self.looked is not None:
            self.looked.at_labels(namespace)
        return self.namespaces.get(namespace, {})

    def shares(self, namespace: str, other: str) -> bool:
        """Whether gangs of the `other` namespace may join groups with those of this one, as this one says itself."""
        if namespace == other:
            return True
        if self.looked is not None:
            self.looked.at_sharing(namespace)
        return _lets_in(self.sharing.get(namespace, self.sharing.get(EVERYBODY)), other)

    def lends(self, namespace: str, other: str) -> bool:
        """Whether gangs of the `other` namespace may be placed by what is written in this one. That binds nobody here,
        so it is so unless this one says whom it lets in, and the other is not among them.
        """
        if namespace == other:
            return True
        if self.looked is not None:
            self.looked.at_sharing(namespace)
        partners = self.sharing.get(namespace)
        return partners is None or _lets_in(partners, other)

    def last_try(self, scheduler: str) -> str:
        """When a scheduler other than the stock one was last seen to try a pod (RFC 3339), "" where it never was."""
        if self.looked is not None:
            self.looked.at_scheduler(scheduler)
        return self.tried.get(scheduler, "")

    def of_kind(self, group: str, kind: str, about: GangKey | None = None) -> Iterator[Manifest]:
        """The objects of a kind, ordered by namespace and name; with `about`, only the one that has its name."""
        if about is None:
            if self.looked is not None:
                self.looked.at_kind(group, kind)
            yield from self.catalog.of_kind(group, kind)
        elif (found := self.get(group, kind, about.namespace, about.name)) is not None:
            yield found

    def sought(self, group: str, kind: str, by: Naming, value: Hashable) -> Sequence[Manifest]:
        """The objects of a kind that `by` says are to be found by this value, ordered by namespace and name."""
        if self.looked is not None:
            self.looked.at_sought(group, kind, by, value)
        return self.catalog.sought(group, kind, by, value)

    def called(self, about: GangKey | None = None) -> Iterable[Manifest]:
        """The objects of every kind that have the gang's namespace and name; None: all objects."""
        if self.looked is not None and about is not None:
            self.looked.at_called(about.namespace, about.name)
        return self.objects.values() if about is None else self.catalog.called(about.namespace, about.name)

    def having(self, manifest: Manifest) -> "Sources":
        """The same sources with this object (not a pod) in place."""
        return self.changed({key_of(manifest): manifest})

    def changed(self, changes: Mapping[ObjectKey, Manifest | None]) -> "Sources":
        """The same sources with these objects in place; None takes one out."""
        return replace(self, objects=self.catalog.changed(changes))

    def pods_of(self, job: Job) -> list[Pod]:
        """The pods that the Job controls, in their order. All Jobs together cost one look at each pod."""
        if self.pods and not self._made_by:
            object.__setattr__(self, "_made_by", _by_job(self.pods))
        return [pod for pod in self._made_by.get((job.metadata.namespace, job.name), ()) if owned_by(pod, job)]

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        if self.looked is not None:
            self.looked.at_object((group, kind, namespace, name))
        return self.objects.get((group, kind, namespace, name))

    def find(self, key: ObjectKey) -> Manifest | None:
        """One object by its key, or None."""
        return self.get(*key)


def _by_job(pods: Iterable[Pod]) -> dict[tuple[str, str], list[Pod]]:
    """The pods by the Job that each names as its controller; those of no Job under a name that no Job has."""
    found: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        owner = job_owner(pod)
        name = owner.name if owner is not None else ""
        found[pod.metadata.namespace, name].append(pod)
    return dict(found)


@dataclass(frozen=True, slots=True)
class PodKeys:
    """How the API server itself recognises a dialect's pods: for match conditions."""

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    """Names of schedulers that the dialect's users write and that stand for the stock one."""
    more_labels: tuple[str, ...] = ()
    """Those by which pods say more about their gang, without asking for one."""
    more_annotations: tuple[str, ...] = ()
    on_workloads: tuple[tuple[str, str], ...] = ()
    """("labels" or "annotations", key) that the dialect itself reads on workloads, or refuses there."""
    on_jobs_of_gangs: tuple[tuple[str, str], ...] = ()
    """Likewise, that it reads where a workload that is a gang has the metadata of its Jobs."""

    @property
    def all(self) -> frozenset[str]:
        """Every label and annotation."""
        return frozenset((*self.labels, *self.annotations, *self.more_labels, *self.more_annotations))

    def naming(self, pod: Pod, what: str) -> str:
        """The field in which a pod names an object, `Kind name` or `Kind namespace/name`; else that of its own name."""
        name, meta = what.rpartition(" ")[2].rpartition("/")[2], pod.metadata
        fields = [f"metadata.labels[{key}]" for key in self.labels if meta.labels.get(key) == name]
        fields += [f"metadata.annotations[{key}]" for key in self.annotations if meta.annotations.get(key) == name]
        return fields[0] if fields else NAME_FIELD


def _lets_in(partners: str | None, namespace: str) -> bool:
    """Whether a list of namespaces has this one."""
    return not {each.strip() for each in (partners or "").split(",")}.isdisjoint({namespace, EVERYBODY})
