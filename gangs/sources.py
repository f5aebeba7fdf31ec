"""What dialects read from: the pods that name a gang and the group objects, wherever they came from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gangs.model import Advice, Fault, Gang, GangKey, Manifest
from kube.objects import Pod
from kube.topology import Topology


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kind of group object: `group` ("" = core), served `versions` newest first, `kind`, `plural`."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool = True


ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name)."""


@dataclass(frozen=True, slots=True)
class Sources:
    """A consistent view of what was asked for.

    `pods`: the pods that may belong to gangs (all pods is fine). `objects`: group objects, topologies and workloads
    by key. `namespaces`: labels by namespace name, for `phalanx.dev/automatic`.
    """

    pods: Sequence[Pod] = ()
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of_kind(self, group: str, kind: str) -> Iterator[Manifest]:
        """All objects of a kind, ordered by namespace and name."""
        for key in sorted(self.objects):
            if key[:2] == (group, kind):
                yield self.objects[key]

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        return self.objects.get((group, kind, namespace, name))


@dataclass(frozen=True, slots=True)
class PodKeys:
    """How the API server itself recognises a dialect's pods: for match conditions."""

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    """Names of schedulers that the dialect's users write and that stand for the stock one."""


class Dialect(Protocol):
    """One system's way of asking for gangs. One module and one line in `gangs.dialects.DIALECTS` each."""

    name: str
    pod_keys: PodKeys
    group_kinds: tuple[Kind, ...]
    """Objects that describe gangs; reviewed at admission and watched."""
    topology_kinds: tuple[Kind, ...]
    """Objects that describe topologies; reviewed at admission and watched."""

    def gang_of(self, pod: Pod) -> GangKey | None:
        """The gang that the pod names by its labels and annotations, None if it names none in this dialect."""

    def read(self, sources: Sources) -> tuple[Iterable[Gang], Iterable[Fault], Iterable[Advice]]:
        """Every gang of this dialect in `sources`, with what is wrong (an invalid gang appears only as faults)."""

    def review(self, manifest: Manifest, sources: Sources) -> tuple[Iterable[Fault], Iterable[Advice]]:
        """Check one object (group, topology, workload, or a pod as manifest) at admission, before it exists."""

    def topologies(self, sources: Sources) -> tuple[Iterable[Topology], Iterable[Fault]]:
        """The topologies that this dialect's objects describe."""
