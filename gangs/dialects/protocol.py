"""The interfaces of dialects: `Dialect`, which each dialect implements, and optional protocols (all the others).

The rest of Phalanx uses only the members of these protocols. docs/decisions/0018 has a table of them, and the steps to
add a dialect.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from gangs.findings import Findings
from gangs.model import GangKey, Manifest, Reading
from gangs.no_room import NoRoom
from gangs.object_statuses import ObjectStatus, QuotaUse, StatusView, TopologyView
from gangs.quota_model import Charged
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, QueueNamed, Sources
from kube.objects import Pod
from kube.topology import Topology


class Dialect(Protocol):
    """The keys and objects by which users of one system ask for gangs, such as Kueue's.

    Each dialect is one package in `gangs` and one line in `gangs.dialects.table.DIALECTS`. Dialects do not import each
    other. The parameter `topologies` of a method has the topologies of all dialects.
    """

    name: str
    pod_keys: PodKeys
    group_kinds: tuple[ResourceKind, ...]
    """Kinds of objects that describe gangs, such as PodGroup. The webhook reviews and the controller watches them."""
    topology_kinds: tuple[ResourceKind, ...]
    """Kinds of objects that describe topologies. The webhook reviews and the controller watches them."""

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that the pod names by its labels and annotations; None if it names none in this dialect."""

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return the gangs of this dialect, with faults and advice. An invalid gang appears only as faults.

        :param sources: its pods are those that this dialect claims, and those that no dialect claims.
        :param topologies: the topologies of all dialects.
        :param about: if given, only the gang with this key is returned, and gangs in which a group object with its
            namespace and name takes part.
        """

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return the valid topologies that objects of this dialect describe. Faults of invalid ones go to
        `findings`.
        """

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """Return the labels that admission adds to the pod templates of a workload that asks for a gang; else empty.

        By these labels the pods name their gang.

        :param claimed: whether the pods of the templates name a gang already, in any dialect. If not, the workload may
            still be a gang because of its namespace (`phalanx.dev/automatic`).
        """


@runtime_checkable
class Grouping(Protocol):
    """A dialect in which pods of one gang may name different `GangKey`s, or in which a gang depends on pods of another
    gang.

    Example: Koordinator's annotation `groups` joins several PodGroups into one gang. Pods name each PodGroup by its own
    `GangKey`.
    """

    def joined(self, pod: Pod) -> frozenset[GangKey]:
        """Return the keys of further group objects that are one gang with the pod's own group object, because the pod's
        labels or annotations list them.
        """

    def grouped(self, about: GangKey, linked: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
        """Return all `GangKey`s that form one gang with `about`, including `about` itself.

        :param linked: a function from a `GangKey` to those that pods directly join with it (`joined`).
        """

    def parts(self, gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
        """Return all `GangKey`s by which pods of a gang may name the gang: its own key, and the keys of the group
        objects that are its pod sets.

        For example, a GangGroup of Koordinator has one pod set for each of its PodGroups.

        :param pod_sets: the names of the gang's pod sets.
        """

    def company(self, pod: Pod) -> Hashable | None:
        """Return a value that is equal for pods that must be read together although they name different gangs.

        Return None if the pod can be read with the pods of its own gang alone.
        """


@runtime_checkable
class Exempting(Protocol):
    """A dialect in which users exempt pods from eviction by a label."""

    def protected(self, pod: Pod) -> str:
        """Return the label that exempts the pod from eviction; "" if it has none. The pod may belong to no gang."""


@runtime_checkable
class ByWorkload(Protocol):
    """A dialect in which the pods of one workload are a gang although they do not name one (docs/decisions/0011).

    The kind of the workload decides whether its pods are a gang.
    """

    name: str
    workload_kinds: tuple[ResourceKind, ...]
    """Kinds of which the dialect can count the pods. A workload of another kind that would be a gang is refused."""


@runtime_checkable
class Propagating(Protocol):
    """A dialect in which the annotations of a workload may ask for a gang of its child workload's pods. For example,
    the workload is a TrainJob and its child is a JobSet.
    """

    propagated: tuple[str, ...]
    """Keys of the annotations that are copied from a workload to its child workload."""

    def asks(self, annotations: Mapping[str, str]) -> bool:
        """Whether the annotations of a workload ask for a gang. The gang is then the child workload."""


@runtime_checkable
class Foreseeing(Protocol):
    """A dialect in which a controller of the cluster creates a group object for each workload that asks for one.
    Example: the Job controller creates the PodGroup of a Job with `spec.scheduling`.
    """

    def with_group(self, workload: Manifest) -> tuple[Manifest, Manifest] | None:
        """Return the workload with a pod template that names the group object, and the group object.

        None if no group object is created for the workload.

        Raises `MalformedError`.
        """


@runtime_checkable
class Queueing(Protocol):
    """A dialect in which a label on the workload itself asks for a gang, such as Kueue's queue name."""

    workload_labels: tuple[str, ...]
    """Keys of the labels on workloads that ask for a gang. The webhook configuration's match conditions contain them.
    """


@runtime_checkable
class Charging(Protocol):
    """A dialect with queues. Gang objects may name these queues, too, so that gangs use the queues' quota
    (docs/decisions/0032).
    """

    name: str

    def charged(self, namespace: str, queue: str, sources: Sources) -> Charged:
        """Return the account whose quota a gang of this namespace uses, by the name of a queue."""

    def queue_named(self, pod: Pod) -> QueueNamed | None:
        """Return the queue that a pod names by a key of this dialect; None if it names none."""


@runtime_checkable
class Reviewing(Protocol):
    """A dialect that also checks objects which are neither group objects nor topologies, such as queues."""

    def review(self, sources: Sources, findings: Findings) -> None:
        """Check the dialect's objects in `sources` that are neither group objects nor topologies, such as queues.
        Faults, and advice on settings without effect, go to `findings`.
        """


@runtime_checkable
class Resuming(Protocol):
    """A dialect whose users create workloads suspended, because in their system a queue resumes them. In Phalanx,
    admission resumes such a workload, and the scheduling gates hold its pods back.
    """

    def resumes(self, manifest: Manifest) -> bool:
        """Whether admission resumes this workload, because it is in a queue. Raises `MalformedError`."""


@runtime_checkable
class ShowsGroups(Protocol):
    """A dialect that reports the state of a gang in the status of its group object, such as a PodGroup."""

    name: str

    def group_statuses(self, key: GangKey, view: StatusView) -> Iterable[ObjectStatus]:
        """Return the statuses of the group objects of one gang.

        The controller calls this when the gang, or an object of its name, changes or is deleted.
        """


@runtime_checkable
class ShowsQueues(Protocol):
    """A dialect that reports in the status of its queues how many gangs wait and what the gangs use."""

    name: str
    queue_group: str
    """The API group of the queues, and of all objects on which their statuses depend."""

    def queue_statuses(self, view: StatusView, used: Mapping[GangKey, QuotaUse]) -> Iterable[ObjectStatus]:
        """Return the statuses of all queues.

        :param used: for each gang in a queue of this dialect, the quota that its bound and nominated members use.
        """


@runtime_checkable
class ShowsTopologies(Protocol):
    """A dialect that reports in the status of its topologies which nodes are in them."""

    name: str
    topology_kinds: tuple[ResourceKind, ...]

    def topology_status(self, view: TopologyView) -> ObjectStatus:
        """Return the status of the object that describes the topology of the view."""


@runtime_checkable
class Wording(Protocol):
    """A dialect with its own messages about a lack of capacity, which users know from its system (`Gang.messages`)."""

    name: str

    def no_room_messages(self, no_room: NoRoom) -> Sequence[str] | None:
        """Return one message for each of `no_room.pods`; None if the system documents no message for this case."""
