"""The protocols of a dialect: `Dialect`, which each dialect implements, and optional ones (all the others).

The rest of Phalanx uses only the members in these protocols. docs/decisions/0018 has a table of them, and the steps to
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
    """One system's way to ask for gangs. Each is one package and one line in `gangs.dialects.table.DIALECTS`.

    Dialects do not know each other. An argument `topologies` therefore holds the topologies of all dialects.
    """

    name: str
    pod_keys: PodKeys
    group_kinds: tuple[ResourceKind, ...]
    """Objects that describe gangs; reviewed at admission and watched."""
    topology_kinds: tuple[ResourceKind, ...]
    """Objects that describe topologies; reviewed at admission and watched."""

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that the pod names by its labels and annotations; None if it names none in this dialect."""

    def protected(self, pod: Pod) -> str:
        """Return why this dialect never lets the pod be a victim; "" if it may be one."""

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return every gang of this dialect, with faults and advice. An invalid gang appears only as faults.

        `sources.pods` holds only pods that this dialect claims, or that no dialect claims. With `about`, the result is
        limited to the gang of this name, and to gangs in which a group object of this name takes part.
        """

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """Return the topologies that this dialect's objects describe. An invalid one is only a fault in `findings`."""

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """Return the labels that a workload's pod template gets at admission to identify its pods as a gang's.

        `claimed`: the pods of the template name a gang already, in any dialect.
        """


@runtime_checkable
class Grouping(Protocol):
    """A dialect whose gangs may consist of several names, or depend on pods of other gangs."""

    def joined(self, pod: Pod) -> frozenset[GangKey]:
        """Return the names that, by the pod's metadata, belong together with its own."""

    def grouped(self, about: GangKey, linked: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
        """Return all names that belong together with this one, which is included.

        `linked`: a function that returns the names that pods link directly to a name.
        """

    def parts(self, gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
        """Return the names by which pods join a gang, its own included, as far as its pod sets' names show them."""

    def company(self, pod: Pod) -> Hashable | None:
        """Return a value shared by pods of different gangs whose reading depends on each other; None for other pods."""


@runtime_checkable
class ByWorkload(Protocol):
    """A dialect whose pods need not name a gang. The pods of one workload are then a gang, by the workload's kind
    (docs/decisions/0011).
    """

    name: str
    workload_kinds: tuple[ResourceKind, ...]
    """Kinds whose number of pods the dialect reads. A workload whose gang has an unreadable number of pods is refused.
    """


@runtime_checkable
class Propagating(Protocol):
    """A dialect whose annotations have an effect on workloads whose child workload is the gang."""

    propagated: tuple[str, ...]
    """Annotations that such a workload propagates to its child."""

    def asks(self, annotations: Mapping[str, str]) -> bool:
        """Whether a workload with these annotations asks for a gang."""


@runtime_checkable
class Foreseeing(Protocol):
    """A dialect whose group objects a controller of the cluster creates for workloads that ask for them."""

    def with_group(self, workload: Manifest) -> tuple[Manifest, Manifest] | None:
        """Return the workload as its pods will name the group object, and this object; None if there is none.

        Raises `MalformedError`.
        """


@runtime_checkable
class Queueing(Protocol):
    """A dialect whose workloads ask by labels on the workload itself, such as a queue's name."""

    workload_labels: tuple[str, ...]
    """Labels that identify such workloads, for the match conditions of the webhook configuration."""


@runtime_checkable
class Charging(Protocol):
    """A dialect with queues that gangs of Gang objects may be charged to, too (docs/decisions/0032)."""

    name: str

    def charged(self, namespace: str, queue: str, sources: Sources) -> Charged:
        """Return what a gang of this namespace is charged to by the name of a queue."""

    def queue_named(self, pod: Pod) -> QueueNamed | None:
        """Return the queue that a pod names by this dialect's keys; None if it names none."""


@runtime_checkable
class Reviewing(Protocol):
    """A dialect with objects besides its topologies, such as queues, that must be checked, too."""

    def review(self, sources: Sources, findings: Findings) -> None:
        """Check all these objects. Faults, and advice on settings without effect, go to `findings`."""


@runtime_checkable
class Resuming(Protocol):
    """A dialect whose workloads are created suspended, so that their queue resumes them."""

    def resumes(self, manifest: Manifest) -> bool:
        """Whether admission resumes this workload. Raises `MalformedError`."""


@runtime_checkable
class ShowsGroups(Protocol):
    """A dialect that reports the state of gangs in the status of the objects that ask for them."""

    name: str

    def group_statuses(self, key: GangKey, view: StatusView) -> Iterable[ObjectStatus]:
        """Return the statuses of one gang's objects. Called when a gang or object of that name changes or is gone."""


@runtime_checkable
class ShowsQueues(Protocol):
    """A dialect that reports in the status of its queues how many gangs wait and what the gangs use."""

    name: str
    queue_group: str
    """The API group of the queues, and of all objects that their statuses depend on."""

    def queue_statuses(self, view: StatusView, used: Mapping[GangKey, QuotaUse]) -> Iterable[ObjectStatus]:
        """Return the statuses of all queues.

        `used`: for each gang in a queue of this dialect, what its members hold, nominated members included.
        """


@runtime_checkable
class ShowsTopologies(Protocol):
    """A dialect that reports in the status of its topologies which nodes are in them."""

    name: str
    topology_kinds: tuple[ResourceKind, ...]

    def topology_status(self, view: TopologyView) -> ObjectStatus:
        """Return the status of the object that describes this topology."""


@runtime_checkable
class Wording(Protocol):
    """A dialect that reports a lack of capacity on waiting members in its system's words (`Gang.messages`)."""

    name: str

    def no_room_messages(self, no_room: NoRoom) -> Sequence[str] | None:
        """Return one message for each pod, in order; None if the system's documents define no message for this case."""
