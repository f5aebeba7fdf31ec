"""What a dialect has to bring (`Dialect`), and what it may bring besides (all the others).

Nothing but the members that are named here is ever asked of one. docs/decisions/0018 has them in a table, and the steps
to add a dialect.
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
    """One system's way of asking for gangs. One package and one line in `gangs.dialects.table.DIALECTS` each.

    Dialects do not know each other: `topologies`, where it is an argument, holds the topologies of all of them.
    """

    name: str
    pod_keys: PodKeys
    group_kinds: tuple[ResourceKind, ...]
    """Objects that describe gangs; reviewed at admission and watched."""
    topology_kinds: tuple[ResourceKind, ...]
    """Objects that describe topologies; reviewed at admission and watched."""

    def gang_of(self, pod: Pod) -> GangKey | None:
        """The gang that the pod names by its labels and annotations, None if it names none in this dialect."""

    def protected(self, pod: Pod) -> str:
        """Why this dialect never lets the pod be a victim, "" where it may be one."""

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Every gang of this dialect, with what is wrong (an invalid gang appears only as faults).

        `sources.pods` holds only pods that this dialect claims, or that none does. With `about`, only the gang that
        goes by this name, or that a group object of this name takes part in.
        """

    def topologies(self, sources: Sources, findings: Findings) -> Sequence[Topology]:
        """The topologies that this dialect's objects describe; a wrong one is left out and noted in `findings`."""

    def template_labels(self, manifest: Manifest, sources: Sources, *, claimed: bool) -> Mapping[str, str]:
        """Labels that a workload's pod template gets at its admission, so that its pods are known as a gang's.

        `claimed`: the pods of the template name a gang already, in any dialect.
        """


@runtime_checkable
class Grouping(Protocol):
    """A dialect whose gangs may be made of several names, or look at pods of others."""

    def joined(self, pod: Pod) -> frozenset[GangKey]:
        """The names that a pod says belong together with its own."""

    def grouped(self, about: GangKey, linked: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
        """All names that belong together with this one, itself among them. `linked`: those next to one by its pods."""

    def parts(self, gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
        """The names by which pods join a gang, itself among them, as far as those of its pod sets tell."""

    def company(self, pod: Pod) -> Hashable | None:
        """What pods have in common that look at each other across gangs; None for one that does not."""


@runtime_checkable
class ByWorkload(Protocol):
    """A dialect whose pods may name no gang: those of one workload are one then, by its kind (docs/decisions/0011)."""

    name: str
    workload_kinds: tuple[ResourceKind, ...]
    """Those of which it reads how many pods they make. One that makes a gang of pods nobody can count is refused."""


@runtime_checkable
class HandingDown(Protocol):
    """A dialect whose annotations count on workloads of which another object is made that is the gang."""

    handed: tuple[str, ...]
    """Annotations that such a workload hands down to that object."""

    def asks(self, annotations: Mapping[str, str]) -> bool:
        """Whether a workload with these annotations asks for a gang."""


@runtime_checkable
class Queueing(Protocol):
    """A dialect whose workloads ask by labels of their own, such as a queue's name."""

    workload_labels: tuple[str, ...]
    """Labels by which the API server recognises such workloads: for match conditions."""


@runtime_checkable
class Charging(Protocol):
    """A dialect with queues that gangs of Gang objects may be charged to, too (docs/decisions/0032)."""

    name: str

    def charged(self, namespace: str, queue: str, sources: Sources) -> Charged:
        """What the name of a queue comes to that a gang of this namespace names."""

    def queue_named(self, pod: Pod) -> QueueNamed | None:
        """The queue that a pod names itself, in this dialect's own way."""


@runtime_checkable
class Reviewing(Protocol):
    """A dialect with objects beside its topologies, such as queues, that have to be checked, too."""

    def review(self, sources: Sources, findings: Findings) -> None:
        """Check them all; what is wrong, and what has no effect, goes to `findings`."""


@runtime_checkable
class Resuming(Protocol):
    """A dialect whose workloads are written suspended, for their queue to start them."""

    def resumes(self, manifest: Manifest) -> bool:
        """Whether this workload is started at its admission. Raises `MalformedError`."""


@runtime_checkable
class ShowsGroups(Protocol):
    """A dialect that shows on the objects that ask for gangs what has become of these."""

    name: str

    def group_statuses(self, key: GangKey, view: StatusView) -> Iterable[ObjectStatus]:
        """Of the objects of one gang. Asked whenever a gang or an object of that name has changed, or has gone."""


@runtime_checkable
class ShowsQueues(Protocol):
    """A dialect that shows on its queues how many gangs wait there and what they use."""

    name: str
    queue_group: str
    """API group of the queues, and of all objects that their statuses tell of."""

    def queue_statuses(self, view: StatusView, used: Mapping[GangKey, QuotaUse]) -> Iterable[ObjectStatus]:
        """Of all queues. `used`: by gang in a queue of this dialect, what its members hold, nominated ones too."""


@runtime_checkable
class ShowsTopologies(Protocol):
    """A dialect that shows on its topologies which nodes are in them."""

    name: str
    topology_kinds: tuple[ResourceKind, ...]

    def topology_status(self, view: TopologyView) -> ObjectStatus:
        """Of the object that describes this topology."""


@runtime_checkable
class Wording(Protocol):
    """A dialect whose gangs' waiting members say in its system's words that there is no room (`Gang.messages`)."""

    name: str

    def no_room_messages(self, no_room: NoRoom) -> Sequence[str] | None:
        """One message for each of the pods, in their order; None where the system's documents have no words for it."""
