"""The placement problem, as plain data. What is best for it: docs/decisions/0002.

Levels are positions 0..n-1, 0 the widest, n-1 the node itself. Nodes, shapes, victims and victim gangs are
referred to by their position in the problem's tuples. Amounts are integers in the caller's unit per resource.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from solver.nodes import Amounts, NodeTable, amounts_of

Column = NDArray[np.int64]
"""A number per victim, or whatever the rows are."""
_MANY = 8
"""Whoever has looked at one in so many victims will look at more."""


@dataclass(frozen=True)
class Shape:
    """What members that are alike ask for, and where they may run.

    `nodes`: eligible nodes, room aside. `excluded`: why each other node is not (an opaque reason, for explanations).
    `preferences`: the summed weight of the node preferences that a node fulfils; absent means 0. `lifts`: changes, in
    words, each with the nodes that it alone would make eligible; a node against which two things speak is in none.
    """

    requests: tuple[int, ...]
    nodes: frozenset[int]
    excluded: Mapping[int, str] = field(default_factory=dict)
    preferences: Mapping[int, int] = field(default_factory=dict)
    lifts: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def positions(self) -> Column:
        """The eligible nodes in order."""
        return np.sort(np.fromiter(self.nodes, dtype=np.int64, count=len(self.nodes)))


@dataclass(frozen=True, slots=True)
class Member:
    """One pod. `node` is set where the pod is bound or released already: it stays there, counts, and its room is
    not in that node's `free`.
    """

    key: str
    shape: int
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Every `size` consecutive members (by rank) lie in one domain of `level`."""

    level: int
    size: int


@dataclass(frozen=True, slots=True)
class Multiple:
    """In each domain of `level` that is used, the number of members is a multiple of `of`."""

    level: int
    of: int


@dataclass(frozen=True, slots=True)
class Cap:
    """At most `count` members in each domain of `level`."""

    level: int
    count: int


@dataclass(frozen=True, slots=True)
class PodSet:
    """Members in rank order, of which at least `minimum` must be placed.

    `required`: the level of which one domain must hold all placed members; None: none. Constraints bind the
    members that are placed. `multiples` and `caps` count the placed members of this set.
    """

    name: str
    members: tuple[Member, ...]
    minimum: int
    required: int | None = None
    slices: tuple[Slice, ...] = ()
    multiples: tuple[Multiple, ...] = ()
    caps: tuple[Cap, ...] = ()


@dataclass(frozen=True, slots=True)
class Together:
    """The placed members of these sets lie in one domain of `level`."""

    pod_sets: tuple[int, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A group in which a member of `shapes` is placed anew has at most `count` placed members of them (host ports and
    anti-affinity among members that are alike in that).

    `group[i]` names the group of node i; None: the node is in no group and not limited.
    """

    shapes: tuple[int, ...]
    group: tuple[str | None, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Separation:
    """No member of `shapes` and member of `others` in one group, unless neither is placed anew (host ports and
    anti-affinity among members that are unlike). No shape is on both sides. `group` as in `Exclusion`.
    """

    shapes: tuple[int, ...]
    others: tuple[int, ...]
    group: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A member of `shapes` may be placed on one of `nodes`, which are eligible, only where all of `victims` go: they
    hold a host port, or keep it off by anti-affinity. `reason`: why it may not beside them, as in `Shape.excluded`.
    """

    shapes: tuple[int, ...]
    nodes: frozenset[int]
    victims: frozenset[int]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Affinity:
    """A member of `shapes` is placed anew only near somebody, in each way of grouping the nodes: in a group where
    somebody else is `there` (by way), one of `victims` that does not go is, a member of `counted` runs already or one
    of another shape in `counted` is placed (pod affinity).

    `themselves`: the members of `shapes` mean themselves. Where nobody of all those is in any group they need nobody,
    but share one group in each way: the first binds anywhere, the others near it. `groups`: by way, as in `Exclusion`;
    a node that is in no group in some way is not for them.
    """

    shapes: tuple[int, ...]
    counted: tuple[int, ...]
    groups: tuple[tuple[str | None, ...], ...]
    there: tuple[frozenset[str], ...]
    victims: frozenset[int] = frozenset()
    themselves: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """Hard topology spread, counted once all members are placed and all victims are gone.

    A group in which a member of `shapes` is placed anew has at most `skew` pods more than the emptiest group.

    `group[i]` names the group of node i; None: the pods of that node are not counted. `counts`: the pods of each group
    that are no members. All groups that count are in it, groups without a node of the problem too. `counted`: the
    shapes whose members count. `victims`: pods that are in `counts` until they are evicted, each on a node of a group.
    `from_zero`: there are fewer groups than `minDomains` asks for, and the emptiest counts as empty. If a rule counts
    no members and no victim is evicted, the nodes of groups that are too full are closed.
    """

    shapes: tuple[int, ...]
    counted: tuple[int, ...]
    group: tuple[str | None, ...]
    counts: Mapping[str, int]
    skew: int
    from_zero: bool = False
    victims: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Victim:
    """A running pod of lower priority that may be evicted. `gang`: position in `victim_gangs`, or None.

    `started`: when it started, in any unit that orders them (later is larger).
    """

    key: str
    node: int
    priority: int
    requests: tuple[int, ...]
    gang: int | None = None
    started: int = 0


class VictimTable(Sequence[Victim]):
    """All victims of a problem, by position, in columns: `gang` is -1 where there is none, `requests` has a row per
    victim. Not to be changed. Looking at one makes a `Victim`; going through all, or looking at many, makes each once.
    """

    __slots__ = ("_each", "_looked_at", "gang", "keys", "node", "priority", "requests", "started")

    def __init__(
        self,
        keys: tuple[str, ...],
        *,
        node: Column,
        priority: Column,
        requests: Amounts,
        gang: Column,
        started: Column,
    ) -> None:
        self.keys, self.node, self.priority, self.requests = keys, node, priority, requests
        self.gang, self.started = gang, started
        self._each: tuple[Victim, ...] | None = None
        self._looked_at = 0

    @overload
    def __getitem__(self, position: int) -> Victim: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Victim, ...]: ...

    def __getitem__(self, position: int | slice) -> Victim | tuple[Victim, ...]:
        """One victim, or several."""
        if isinstance(position, slice) or self._each is not None or self._looked_at > len(self) // _MANY:
            return self._all()[position]
        self._looked_at += 1
        return Victim(
            self.keys[position],
            int(self.node[position]),
            int(self.priority[position]),
            tuple(self.requests[position].tolist()),
            None if self.gang[position] < 0 else int(self.gang[position]),
            int(self.started[position]),
        )

    def at(self, positions: Sequence[int]) -> tuple[Victim, ...]:
        """Those at some positions."""
        if self._each is not None:
            return tuple([self._each[position] for position in positions])
        rows = np.array(positions, dtype=np.int64)
        columns = (each[rows].tolist() for each in (self.node, self.priority, self.requests, self.gang, self.started))
        return tuple(
            Victim(self.keys[row], node, priority, tuple(requests), None if gang < 0 else gang, started)
            for row, node, priority, requests, gang, started in zip(positions, *columns, strict=True)
        )

    def __iter__(self) -> Iterator[Victim]:
        """All of them."""
        return iter(self._all())

    def __len__(self) -> int:
        """How many there are."""
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        """Whether all victims are equal."""
        return self._all() == tuple(other) if isinstance(other, VictimTable) else NotImplemented

    def __hash__(self) -> int:
        """By keys alone."""
        return hash(self.keys)

    def __repr__(self) -> str:
        """The victims as they would be written."""
        return f"victim_table({list(self)!r})"

    def _all(self) -> tuple[Victim, ...]:
        if self._each is None:
            gangs = (None if gang < 0 else gang for gang in self.gang.tolist())
            numbers = (self.node.tolist(), self.priority.tolist(), map(tuple, self.requests.tolist()))
            self._each = tuple(map(Victim, self.keys, *numbers, gangs, self.started.tolist()))
        return self._each


def victim_table(victims: Iterable[Victim]) -> VictimTable:
    """Single victims as all victims of a problem."""
    each = tuple(victims)
    return VictimTable(
        tuple(victim.key for victim in each),
        node=np.array([victim.node for victim in each], dtype=np.int64),
        priority=np.array([victim.priority for victim in each], dtype=np.int64),
        requests=amounts_of([victim.requests for victim in each], len(each[0].requests) if each else 0),
        gang=np.array([-1 if victim.gang is None else victim.gang for victim in each], dtype=np.int64),
        started=np.array([victim.started for victim in each], dtype=np.int64),
    )


NO_VICTIMS = victim_table(())


@dataclass(frozen=True, slots=True)
class VictimSet:
    """A pod set of a running gang that has `victims` (positions), of whose `running` members `minimum` must remain."""

    name: str
    victims: frozenset[int]
    running: int
    minimum: int


@dataclass(frozen=True, slots=True)
class VictimGang:
    """A running gang that has victims. With `running` members now, it is broken when fewer than `minimum` remain, or
    fewer of one of its `sets` than that needs.

    A broken gang is evicted as a whole; where some of its members may not be evicted (`running` exceeds its
    victims) it must keep its minimums. `sets`: only those that can be cut below their minimum.
    """

    name: str
    running: int
    minimum: int
    sets: tuple[VictimSet, ...] = ()

    def falls_short(self, gone: AbstractSet[int], count: int) -> bool:
        """Whether it is broken without `gone`, positions of victims of which `count` are its own."""
        return self.running - count < self.minimum or any(
            each.running - len(each.victims & gone) < each.minimum for each in self.sets
        )

    def cannot_spare(self, victim: int) -> bool:
        """Whether it is broken without this one of its members."""
        return self.running <= self.minimum or any(
            victim in each.victims and each.running <= each.minimum for each in self.sets
        )


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A disruption budget: at most `allowed` of these victims may be evicted."""

    name: str
    victims: frozenset[int]
    allowed: int


@dataclass(frozen=True, slots=True)
class GangRules:
    """One of several gangs that are planned together, and the rules over all of its sets.

    `pod_sets`: positions of its sets. `minimum`: placed members of these sets together. `multiples`: count the placed
    members of these sets. `line`: a strict queue; if one of its gangs has no place, no later gang of it has one.
    """

    pod_sets: tuple[int, ...]
    minimum: int
    multiples: tuple[Multiple, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """A queue or a cohort in the tree that shares one quota. All amounts are in one unit.

    `parent`: position of the cohort above it in `Quota.shares`, greater than its own; None at the top. `quota`: its
    nominal quota with what the shares below it lend. `kept`: the part of `quota` that it lends to no other share.
    `limit`: the most that it may use, `quota` and its borrowing limit; None: no such limit. `used`: by pods outside the
    problem that are charged to it directly.
    """

    parent: int | None
    quota: int
    kept: int = 0
    limit: int | None = None
    used: int = 0


@dataclass(frozen=True, slots=True)
class QuotaCharge:
    """Every placed member of `shape` in set `pod_set` uses `amount` of the share at position `share`."""

    share: int
    pod_set: int
    shape: int
    amount: int


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one resource in one flavor, which queues and cohorts share.

    What a share uses beyond `kept` counts in its parent. A share whose members are placed anew stays within its limit,
    the limits of the shares above it, and the quota of the topmost share. While it uses less than it keeps, the
    difference offsets what the shares above it have used too much (Kueue, pkg/cache/scheduler/resource_node.go).
    """

    name: str
    shares: tuple[QuotaShare, ...]
    charges: tuple[QuotaCharge, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One gang to be placed whole, and what there is. Several gangs that are planned together have `gangs`.

    `levels`: names, widest first, the node last. `resources`: names; every amount tuple runs parallel to it.
    `minimum`: members of all sets together that must be placed. `required`: the level of which one domain must
    hold every placed member. `multiples` count the placed members of all sets together. `gangs`: the gangs in their
    order, each with sets of its own; empty for one gang. Only problems with `gangs` have `quotas`.
    """

    levels: tuple[str, ...]
    resources: tuple[str, ...]
    nodes: NodeTable
    shapes: tuple[Shape, ...]
    sets: tuple[PodSet, ...]
    minimum: int
    required: int | None = None
    together: tuple[Together, ...] = ()
    multiples: tuple[Multiple, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    separations: tuple[Separation, ...] = ()
    victims: VictimTable = NO_VICTIMS
    victim_gangs: tuple[VictimGang, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    spreads: tuple[Spread, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    affinities: tuple[Affinity, ...] = ()
    gangs: tuple[GangRules, ...] = ()
    quotas: tuple[Quota, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a solve may take. `deterministic` is CP-SAT's own unit, the same on every machine; `seconds` of wall
    time is the emergency stop.
    """

    deterministic: float = 4.0
    seconds: float = 10.0
