"""The model of a gang, independent of dialects, and the faults and advice of its request."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gangs.quota_model import Account
from kube.node_rules import NodeRule
from kube.objects import NodeAffinity, Pod, PreferredSchedulingTerm
from kube.placeholders import to_come
from kube.text import one_line

WAIT, RESTART = "Wait", "Restart"
"""Values of `Gang.on_failure`: what the gang does if a member cannot be replaced where it must be."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """Names one Kubernetes object. `namespace` is empty for cluster-scoped kinds, `uid` where it is not known yet."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = field(default="", compare=False)

    def __str__(self) -> str:
        """`Kind namespace/name`, as people write it."""
        return one_line(f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}")


class GangKey(NamedTuple):
    """Identity of a gang. One dialect's names never clash with another's. A tuple, because it is hashed in every look
    at thousands of gangs.
    """

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`namespace/name`."""
        return one_line(f"{self.namespace}/{self.name}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that contradicts itself or its topology: refused at admission, Invalid in a report."""

    object: ObjectRef
    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        """Return one line with object, field, problem and remedy."""
        return one_line(f"{self.object}: {self.field}: {self.problem}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class Advice:
    """Something worth an admission warning that stops nothing: a missing object, an ignored key."""

    object: ObjectRef
    field: str
    text: str
    awaited: str = ""
    """The object that the gang waits for, if the advice reports such a wait (`Gang.waiting_for`); "" otherwise."""

    def __str__(self) -> str:
        """One line for a warning."""
        return one_line(f"{self.object}: {self.field}: {self.text}")


@dataclass(frozen=True, slots=True)
class Misplaced(Advice):
    """Advice on a key on an object, or in a place of it, where it is not read. In files it is a mistake."""


@dataclass(frozen=True, slots=True)
class SliceRule:
    """Every `size` consecutive members in one domain of `level` (a level's name or label)."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class MultipleRule:
    """Members in each used domain of `level` are a multiple of `of`."""

    level: str
    of: int


@dataclass(frozen=True, slots=True)
class CapRule:
    """At most `count` members in each domain of `level`."""

    level: str
    count: int


@dataclass(frozen=True, slots=True)
class TogetherRule:
    """These sets share one domain of `level`."""

    pod_sets: tuple[str, ...]
    level: str


@dataclass(frozen=True, slots=True)
class PodSet:
    """Members of one role. Levels are named as the user wrote them: a level's name or a node label."""

    name: str
    count: int
    """Members expected."""
    min_count: int
    required: str | None = None
    preferred: str | None = None
    slices: tuple[SliceRule, ...] = ()
    multiples: tuple[MultipleRule, ...] = ()
    max_per_domain: tuple[CapRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of the gang that exists (or, in a file, that its workload's controller would make)."""

    pod: Pod
    pod_set: str
    index: int | None
    """Its rank as its dialect or workload gives it; None: by its name, numbers read as numbers."""


class Unwanted(NamedTuple):
    """The reason why no capacity is reserved for expected pods, and the remedy that makes Phalanx reserve it."""

    by: str
    instead: str


@dataclass(frozen=True, slots=True)
class Later:
    """The state of the pods that a workload creates only when others of it run (docs/decisions/0022).

    `at_once`: the remedy that makes the workload create all pods at once; "" if there is none. `unwanted`: why no
    capacity is reserved for the later pods; None: it is reserved.
    """

    at_once: str
    unwanted: Unwanted | None = None


@dataclass(frozen=True, slots=True)
class NodeWish:
    """A weighted preference for nodes that only gangs of a certain size have."""

    term: PreferredSchedulingTerm
    several_nodes: bool
    """True: the preference applies if no empty node could hold the gang's minimum; False: if one could."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """Where the members of a gang may run, and by which rules, as a dialect reads it from keys and objects."""

    topology: str | None = None
    """Name of the topology; None: the only one there is, else the levels found on the nodes."""
    topology_kind: str | None = None
    """Kind of the topology's object ("Topology", "ClusterNetworkTopology"); None: any."""
    required: str | None = None
    preferred: str | None = None
    together: tuple[TogetherRule, ...] = ()
    multiples: tuple[MultipleRule, ...] = ()
    """Rules for the members of all sets together. A `PodSet` holds the rules of one set."""
    schedule_timeout_seconds: int | None = None
    on_failure: str = WAIT
    max_restarts: int = 0
    """How often the gang may be restarted as a whole, if `on_failure` is RESTART."""
    queue: str | None = None
    queue_dialect: str = ""
    """The dialect of the queue, by name; "" if the queue's name is only a label."""
    account: Account | None = None
    """The account whose quota the gang's requests are charged to; None: no quota."""
    near: tuple[str, ...] = ()
    """Names of nodes, one for each pod near which the members prefer to be. This preference precedes those of affinity.
    """
    node_affinity: NodeAffinity | None = None
    node_rules: tuple[NodeRule, ...] = ()
    """The rules behind the required part of `node_affinity` if they do not come from the Gang's spec, for explanations.
    """
    node_wishes: tuple[NodeWish, ...] = ()
    """Preferences besides `node_affinity` that depend on the gang's size."""
    preempts: bool = True
    """Whether pods of lower priority may be evicted for the gang, if its members' preemption policies allow it."""
    all_or_none: bool = True
    """Whether all-or-none is guaranteed: no member runs unless the minimum runs (docs/decisions/0015)."""
    messages: str = ""
    """The dialect whose words report a lack of capacity on members (`gangs.dialects.table.WORDS`); "": Phalanx's own.
    """
    ignores_claims: bool = False
    """Whether an annotation releases the gang without a plan for its devices (`labelled_workloads.ignored_claims`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang(PlacementRequest):
    """One gang: its identity, its placement request, and its observed state. `gangs.assembling` makes it.

    `members` are the live pods, in order of set and rank, without terminating and finished pods. `expected` is the
    number of pods that there should be. It comes from the owner or the group object, never from counting.
    """

    key: GangKey
    source: ObjectRef
    """The object that asked: the PodGroup, Gang, Job …; for gangs declared on pods alone, the first pod."""
    members: tuple[Member, ...]
    pod_sets: tuple[PodSet, ...]
    expected: int
    min_member: int
    created: str = ""
    """RFC 3339 creation time of `source`: the gang's age."""
    waiting_for: tuple[str, ...] = ()
    """Objects that are named but do not exist yet, as `Kind namespace/name`; the gang waits for them."""
    part: str = ""
    """The part of its source that the gang is, if the source asks for several gangs; "" otherwise."""
    groups: tuple[ObjectRef, ...] = ()
    """All group objects that make up this gang (GangGroups), its source first."""
    exact_nodes: bool = False
    """Whether an index or rank was promised, so that release must pin each member to its exact node."""
    succeeded: int = 0
    """The number of the gang's succeeded pods that still exist. They need no node, and the gang waits for none of them.
    """
    later: Later | None = None
    """The state of pods that the workload creates only when others run; None if there are no such pods."""
    made_again: frozenset[str] = frozenset()
    """Uids of members that are expected pods in place of lost pods, which the workload recreates (docs/decisions/0034).
    """
    there_again: frozenset[str] = frozenset()
    """The part of `made_again` whose recreated pods exist. They replace the expected pods once the minimum exists."""

    @property
    def names(self) -> frozenset[GangKey]:
        """Every key by which pods may name this gang: its own, and the keys of its groups."""
        groups = (GangKey(self.key.dialect, ref.namespace, ref.name) for ref in self.groups)
        return frozenset((self.key, *groups))

    @property
    def shown_as(self) -> str:
        """The source's name. If only pods asked, or the source asks for several gangs, the gang's own name."""
        return self.key.name if self.part or self.source.kind == "Pod" else self.source.name

    @property
    def still_needed(self) -> int:
        """The number of members that must run together, besides the succeeded ones."""
        return max(0, self.min_member - self.succeeded)

    def suffice(self, members: Iterable[Member]) -> bool:
        """Whether these members and the succeeded ones reach the minimum of the gang."""
        counts = Counter(member.pod_set for member in members)
        if self.succeeded:
            return counts.total() >= self.still_needed
        sets = all(counts[pod_set.name] >= pod_set.min_count for pod_set in self.pod_sets)
        return sets and counts.total() >= max(self.min_member, 1)

    @property
    def to_come(self) -> tuple[Member, ...]:
        """Expected pods among the members: the workload creates them when others run, or recreates them
        (docs/decisions/0022).
        """
        there = self.there_again
        return tuple(each for each in self.members if to_come(each.pod) and each.pod.metadata.uid not in there)

    @property
    def counted(self) -> tuple[Member, ...]:
        """The members that count: all members, or existing pods only if no capacity is reserved for expected pods."""
        unwanted = self.later is not None and self.later.unwanted is not None
        return tuple(each for each in self.members if not to_come(each.pod)) if unwanted else self.members

    @property
    def not_lost(self) -> tuple[Member, ...]:
        """The members without expected pods in place of lost pods."""
        return tuple(each for each in self.members if each.pod.metadata.uid not in self.made_again)

    @property
    def priority(self) -> int:
        """The priority of the members, which is equal; the least if it differs, 0 without members."""
        return min((m.pod.spec.priority or 0 for m in self.members), default=0)


Manifest = Mapping[str, Any]
"""A Kubernetes object as a plain dict."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one reading."""

    gangs: tuple[Gang, ...] = ()
    faults: tuple[Fault, ...] = ()
    advice: tuple[Advice, ...] = ()
    neighbours: tuple[Gang, ...] = ()
    """Gangs that are ceded to other systems. Phalanx does not act on them but preserves what they need to run."""
    astray: tuple[tuple[Pod, GangKey], ...] = ()
    """Live pods with the gang that they name, if that gang is unreadable or does not have them as members."""
