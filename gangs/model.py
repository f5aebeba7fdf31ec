"""The data model of a gang in any dialect, and of the faults and advice that users get about its objects."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from gangs.quota_model import Account, Charge
from kube.node_rules import NodeRule
from kube.objects import NodeAffinity, Pod, PreferredSchedulingTerm
from kube.placeholders import to_come
from kube.text import one_line

WAIT, RESTART = "Wait", "Restart"
"""Values of `Gang.on_failure`: what happens if a lost member has no place in the domain that the gang requires.

Wait: the replacement waits for capacity. Restart: Phalanx evicts the whole gang and plans it anew.
"""


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """A reference to one Kubernetes object. `namespace` is "" for cluster-scoped kinds, and `uid` if it is unknown."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = field(default="", compare=False)

    def __str__(self) -> str:
        """`Kind namespace/name`, for messages; `Kind name` for an object without a namespace."""
        return one_line(f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}")


class GangKey(NamedTuple):
    """The identity of a gang. It includes the dialect, so gangs of two dialects may have the same name.

    It is a tuple because a tuple hashes fast, and thousands of keys are hashed in each reconcile.
    """

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`namespace/name`."""
        return one_line(f"{self.namespace}/{self.name}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake in a user's object, such as a level that the topology lacks: field, problem and remedy.

    Admission refuses an object with a fault. An existing gang with a fault has the phase Invalid and is not planned.
    """

    object: ObjectRef
    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        """Return one line with object, field, problem and remedy."""
        return one_line(f"{self.object}: {self.field}: {self.problem}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class Advice:
    """A warning to the user about an object, which blocks nothing: a missing object, a key without effect."""

    object: ObjectRef
    field: str
    text: str
    awaited: str = ""
    """The entry of `Gang.waiting_for` that the advice reports; "" if the advice is not about a waiting gang."""

    def __str__(self) -> str:
        """Return one line with object, field and text."""
        return one_line(f"{self.object}: {self.field}: {self.text}")


@dataclass(frozen=True, slots=True)
class Misplaced(Advice):
    """Advice on a key in a place where Phalanx does not read it, such as a pod annotation on a workload.

    Admission only warns of it. `phalanx solve` reports it as a mistake in the file.
    """


@dataclass(frozen=True, slots=True)
class SliceRule:
    """The constraint that every `size` members with consecutive ranks share one domain of `level`."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class MultipleRule:
    """The constraint that the number of members in each domain of `level` is a multiple of `of`, or 0."""

    level: str
    of: int


@dataclass(frozen=True, slots=True)
class CapRule:
    """The constraint that each domain of `level` has at most `count` members."""

    level: str
    count: int


@dataclass(frozen=True, slots=True)
class TogetherRule:
    """The constraint that all members of these pod sets are in one domain of `level`."""

    pod_sets: tuple[str, ...]
    level: str


@dataclass(frozen=True, slots=True)
class PodSet:
    """The members of one role, such as `worker`, with a minimum and with constraints of their own.

    Levels are named as the user wrote them: by a level's name or a node label.
    """

    name: str
    count: int
    """The number of members that there should be."""
    min_count: int
    required: str | None = None
    preferred: str | None = None
    slices: tuple[SliceRule, ...] = ()
    multiples: tuple[MultipleRule, ...] = ()
    max_per_domain: tuple[CapRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a gang: an existing pod, or an expected pod (`kube.placeholders`)."""

    pod: Pod
    pod_set: str
    index: int | None
    """The member's rank in its pod set, given by a key or by the workload's index label.

    None: the natural order of the names decides (`kube.names`).
    """
    charge: Charge | None = None
    """The quotas that the member uses in its queue, if devices are counted; None: the requests of the pod."""


class Unwanted(NamedTuple):
    """Why no capacity is reserved for expected pods. `by`: the reason. `instead`: what the user can do to have capacity
    reserved.
    """

    by: str
    instead: str


class CreationDelay(Enum):
    """Why the Job controller does not create the missing pods of a Job at once."""

    TERMINATING = "terminating"
    """It waits until terminating pods of the Job have ended (`podReplacementPolicy: Failed`)."""
    BACK_OFF = "back-off"
    """Pods of the Job failed or were evicted, so it waits before it creates the next ones."""


@dataclass(frozen=True, slots=True)
class Later:
    """Information about the pods that a workload creates only after other pods of it run (docs/decisions/0022).

    Example: a StatefulSet with `podManagementPolicy: OrderedReady`. `at_once`: the remedy that makes the workload
    create all pods at once; "" if there is none. `unwanted`: why no capacity is reserved for the later pods; None: it
    is reserved.
    """

    at_once: str
    unwanted: Unwanted | None = None


@dataclass(frozen=True, slots=True)
class NodeWish:
    """A weighted preference for nodes. It applies only to gangs whose minimum fits on one empty node, or only to gangs
    whose minimum does not.
    """

    term: PreferredSchedulingTerm
    several_nodes: bool
    """True: the preference applies if the gang's minimum fits on no single empty node. False: if it fits on one."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A user's request for a gang: topology, levels, constraints, queue and options.

    A dialect derives it from its keys and objects. `gangs.assembling` joins it with the members to a `Gang`.
    """

    topology: str | None = None
    """Name of the topology; None: the only one that exists. If none exists, the levels come from the nodes' labels."""
    topology_kind: str | None = None
    """Kind of the topology's object ("Topology", "ClusterNetworkTopology"); None: any."""
    required: str | None = None
    """A level of nodes: all members share one domain of it. A level below the node: see `device_level`."""
    preferred: str | None = None
    device_level: str | None = None
    """A level below the node: the devices that one member's ResourceClaims get are in one domain of it.

    A dialect sets it if its request also requires a level of nodes. Otherwise `required` may name such a level.
    """
    together: tuple[TogetherRule, ...] = ()
    multiples: tuple[MultipleRule, ...] = ()
    """Constraints on the members of all pod sets together. A `PodSet` has those on its own members."""
    schedule_timeout_seconds: int | None = None
    on_failure: str = WAIT
    max_restarts: int = 0
    """How often the gang may be restarted as a whole, if `on_failure` is RESTART."""
    queue: str | None = None
    queue_dialect: str = ""
    """The name of the dialect whose object `queue` is; "" if no object has this name, so that it is only a label."""
    account: Account | None = None
    """The queue whose quota the gang's requests use, with the queues that it shares quota with; None: no quota."""
    near: tuple[str, ...] = ()
    """Names of nodes near which the members prefer to be, one name for each running pod that the gang wants to be near.

    This preference precedes the preferences of `node_affinity`.
    """
    node_affinity: NodeAffinity | None = None
    node_rules: tuple[NodeRule, ...] = ()
    """The required terms of `node_affinity` that do not come from a Gang's spec, with messages that explain them."""
    node_wishes: tuple[NodeWish, ...] = ()
    """Preferences for nodes that depend on the gang's size. They add to those of `node_affinity`."""
    preempts: bool = True
    """Whether pods of lower priority may be evicted for the gang, if its members' preemption policies allow it."""
    all_or_none: bool = True
    """Whether all-or-none is guaranteed: no member runs unless the minimum runs (docs/decisions/0015)."""
    messages: str = ""
    """The dialect in whose words the members' conditions report a lack of capacity (`gangs.dialects.table.WORDS`).

    "": in Phalanx's own words.
    """
    ignores_claims: bool = False
    """Whether the gang is released although its plan does not consider the ResourceClaims of its pods.

    The annotation `phalanx.dev/ignore-resource-claims` asks for this (`gangs.labelled_workloads.ignored_claims`).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang(PlacementRequest):
    """One gang: its identity, its placement request, and its observed state. `gangs.assembling` constructs it.

    `members`: the live pods, which are neither terminating nor finished, and the expected pods, ordered by pod set and
    rank. `expected`: the number of pods that there should be, by the workload or the group object.
    """

    key: GangKey
    source: ObjectRef
    """The object that asks for the gang, such as a PodGroup, Gang or Job. If only pods ask, it is the first pod."""
    members: tuple[Member, ...]
    pod_sets: tuple[PodSet, ...]
    expected: int
    min_member: int
    created: str = ""
    """Creation time of `source` (RFC 3339). It is the gang's age, which orders gangs of equal priority."""
    waiting_for: tuple[str, ...] = ()
    """The events for which the gang waits before it can be planned, for messages.

    Most entries are missing objects, as `Kind namespace/name`.
    """
    part: str = ""
    """The part of `source` that is this gang, such as one replica of a LeaderWorkerSet; "" if the whole source is."""
    groups: tuple[ObjectRef, ...] = ()
    """The group objects that make up this gang, its source first. Koordinator's GangGroups have several."""
    exact_nodes: bool = False
    """Whether the release must pin each member to its exact node, because the members have ranks."""
    succeeded: int = 0
    """The number of the gang's succeeded pods that still exist. They count towards the minimum, because they need no
    node any more.
    """
    delay: CreationDelay | None = None
    """Why the gang's Job does not create missing pods at once; None if its status shows no reason."""
    later: Later | None = None
    """Information about pods that the workload creates only after others run; None if there are no such pods."""
    made_again: frozenset[str] = frozenset()
    """Identifiers of the members that are expected pods in place of lost pods (docs/decisions/0034).

    The workload recreates lost pods.
    """
    there_again: frozenset[str] = frozenset()
    """The identifiers in `made_again` for which the recreated pod exists already.

    The recreated pods replace these expected pods as soon as the gang's minimum of pods exists.
    """

    @property
    def names(self) -> frozenset[GangKey]:
        """Every `GangKey` by which pods may name this gang: its own, and those of its group objects."""
        groups = (GangKey(self.key.dialect, ref.namespace, ref.name) for ref in self.groups)
        return frozenset((self.key, *groups))

    @property
    def shown_as(self) -> str:
        """The gang's name in messages: the name of its source.

        If only pods ask for the gang, or the source asks for several gangs, it is the gang's own name.
        """
        return self.key.name if self.part or self.source.kind == "Pod" else self.source.name

    @property
    def still_needed(self) -> int:
        """The gang's minimum without the members that have succeeded; at least 0."""
        return max(0, self.min_member - self.succeeded)

    def suffice(self, members: Iterable[Member]) -> bool:
        """Whether these members, with the succeeded ones, reach the minimum of the gang and of each pod set.

        If pods have succeeded, only the minimum of the gang is checked, because the pod sets of succeeded pods are
        unknown.
        """
        counts = Counter(member.pod_set for member in members)
        if self.succeeded:
            return counts.total() >= self.still_needed
        sets = all(counts[pod_set.name] >= pod_set.min_count for pod_set in self.pod_sets)
        return sets and counts.total() >= max(self.min_member, 1)

    @property
    def to_come(self) -> tuple[Member, ...]:
        """The members that are expected pods, without those whose recreated pods exist (docs/decisions/0022)."""
        there = self.there_again
        return tuple(each for each in self.members if to_come(each.pod) and each.pod.metadata.uid not in there)

    @property
    def counted(self) -> tuple[Member, ...]:
        """The members that are planned.

        These are all members or, if no capacity is reserved for expected pods, only the existing pods.
        """
        unwanted = self.later is not None and self.later.unwanted is not None
        return tuple(each for each in self.members if not to_come(each.pod)) if unwanted else self.members

    @property
    def not_lost(self) -> tuple[Member, ...]:
        """The members, without expected pods in place of lost pods."""
        return tuple(each for each in self.members if each.pod.metadata.uid not in self.made_again)

    @property
    def priority(self) -> int:
        """The priority of the gang: the lowest of its members'; 0 without members. Members should have the same one."""
        return min((m.pod.spec.priority or 0 for m in self.members), default=0)


Manifest = Mapping[str, Any]
"""A Kubernetes object as a plain dict."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The gangs, faults and advice that dialects derive from pods and objects (`gangs.sources.Sources`)."""

    gangs: tuple[Gang, ...] = ()
    faults: tuple[Fault, ...] = ()
    advice: tuple[Advice, ...] = ()
    neighbours: tuple[Gang, ...] = ()
    """Gangs that are ceded to other systems. Phalanx does not plan them, but considers their minimum when it evicts."""
    astray: tuple[tuple[Pod, GangKey], ...] = ()
    """Live pods that are members of no gang, each with the gang that it names: this gang is invalid or excludes it."""
