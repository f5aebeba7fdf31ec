"""The placement problem as plain data. docs/decisions/0002 defines the goals that rank its plans.

Levels are positions 0..n-1: 0 is the widest level, n-1 is the node itself. Nodes, shapes, victims and victim gangs are
referred to by their index in the problem's tuples ("position"). Amounts are integers in the caller's unit per resource.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from solver.nodes import NodeTable, ResourceMatrix, amounts_of
from solver.quota import Quota

IntColumn = NDArray[np.int64]
"""An array with one integer for each row of a table, such as the node of each victim."""
_MANY = 8
"""A `VictimTable` counts reads of single victims. When the count exceeds the number of victims divided by `_MANY`, it
creates all `Victim` objects at once, because more reads are likely.
"""


@dataclass(frozen=True)
class Shape:
    """The properties that interchangeable members have in common: requests, eligible nodes and preferences. Only set
    and rank distinguish members of one shape.

    `requests`: an amount per resource. `nodes`: the eligible nodes, regardless of free capacity. `excluded`: by other
    node, the reason why it is not eligible, a text that the solver passes to explanations. `preferences`: by node, the
    summed weight of the node preferences that the node fulfils; a missing node means 0. `lifts`: by change in words,
    such as a toleration, the nodes that become eligible by this change alone. A node that is excluded for two reasons
    is in no entry. `fills_node`: whether no node could hold two such members, even if it were empty (for explanations).
    """

    requests: tuple[int, ...]
    nodes: frozenset[int]
    excluded: Mapping[int, str] = field(default_factory=dict)
    preferences: Mapping[int, int] = field(default_factory=dict)
    lifts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    fills_node: bool = False

    @cached_property
    def positions(self) -> IntColumn:
        """The eligible nodes (`nodes`) as an array in ascending order."""
        return np.sort(np.fromiter(self.nodes, dtype=np.int64, count=len(self.nodes)))


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of the gang. `key`: the caller's name for it. `node` is set if the pod is bound or released already.

    A member with a node is *pinned*: it stays there and counts as placed. Its requests are already subtracted from that
    node's `free`.
    """

    key: str
    shape: int
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """The constraint that every `size` consecutive members of a set, by rank, lie in one domain of `level`."""

    level: int
    size: int


@dataclass(frozen=True, slots=True)
class Multiple:
    """The constraint that each domain of `level` holds a multiple of `of` members, which may be 0."""

    level: int
    of: int


@dataclass(frozen=True, slots=True)
class Cap:
    """The constraint that each domain of `level` holds at most `count` members."""

    level: int
    count: int


@dataclass(frozen=True, slots=True)
class PodSet:
    """A pod set: members in rank order, of which at least `minimum` must be placed.

    `required`: one domain of this level must hold all placed members; None: any nodes may. Constraints bind placed
    members only. `multiples` and `caps` count the placed members of this set.
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
    """The constraint that all placed members of the sets `pod_sets` lie in one domain of `level`."""

    pod_sets: tuple[int, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A limit on members that keep apart because of one host port or anti-affinity term that all of `shapes` have.

    A group, such as all nodes with one value of the term's `topologyKey`, holds at most `count` placed members of these
    shapes. The limit binds only if at least one of these members is newly placed. `group[i]` names the group of node i;
    None: the node is in no group and has no limit.
    """

    shapes: tuple[int, ...]
    group: tuple[str | None, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Separation:
    """Two disjoint lists of shapes whose members keep apart because of a host port or an anti-affinity term.

    A group, such as all nodes with one value of the term's `topologyKey`, holds no member of `shapes` beside a member
    of `others`. The exception is a group in which all of these members are pinned. `group[i]` names the group of node
    i; None: the node is in no group and has no limit.
    """

    shapes: tuple[int, ...]
    others: tuple[int, ...]
    group: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Victims that keep members off otherwise eligible nodes: the victims hold a host port, or anti-affinity forbids a
    member beside them.

    A member of `shapes` may be placed on one of `nodes` only if all of `victims` are evicted. `reason`: why the member
    cannot run beside the victims. The solver passes this text to explanations without reading it.
    """

    shapes: tuple[int, ...]
    nodes: frozenset[int]
    victims: frozenset[int]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Affinity:
    """Required pod affinity: a newly placed member of `shapes` needs a matching pod near it, for every `topologyKey` of
    its terms.

    `groups[k][i]` names the group of node i for the k-th `topologyKey`, such as its zone; a node without a group is not
    eligible for `shapes`. A matching pod is in a group if `there[k]` names the group, because a pod outside the problem
    runs in it. A victim of `victims` that is not evicted and a pinned member of a shape in `counted` match, too. A
    newly placed member matches if its shape is in `counted` but not in `shapes`.

    `themselves`: the affinity term selects the members of `shapes` themselves. If no group has a matching pod, these
    members need none, but must share one group for each `topologyKey`: the first member binds anywhere, the others near
    it.
    """

    shapes: tuple[int, ...]
    counted: tuple[int, ...]
    groups: tuple[tuple[str | None, ...], ...]
    there: tuple[frozenset[str], ...]
    victims: frozenset[int] = frozenset()
    themselves: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """Hard topology spread (`whenUnsatisfiable: DoNotSchedule`), counted once all members are placed and all victims
    are gone.

    A group in which a member of `shapes` is newly placed has at most `skew` pods (`maxSkew`) more than the emptiest
    group. `group[i]` names the group of node i; None: the pods of that node do not count. `counts`: by group, the pods
    that are not members. It has an entry for every group that counts, also for groups without a node of the problem.
    `counted`: the shapes whose members count. `victims`: pods that are part of `counts` until they are evicted. Each is
    on a node of a group. `from_zero`: there are fewer groups than `minDomains` requires, so the emptiest group counts
    as empty. If a rule counts no members and no victim is evicted, the nodes of groups that are too full are excluded.
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
    """A running pod of lower priority that may be evicted. `gang`: its position in `Problem.victim_gangs`; None: it is
    in no gang.

    `started`: the start time, in any unit in which a later start is a larger number.
    """

    key: str
    node: int
    priority: int
    requests: tuple[int, ...]
    gang: int | None = None
    started: int = 0


class VictimTable(Sequence[Victim]):
    """All victims of a problem, by position, as columns: one array per field of `Victim`. The table is immutable.

    `gang` is -1 for a victim without a gang. `requests`: victims x resources. Reading one victim creates a `Victim`.
    Iteration, or many reads, create the `Victim` objects of all victims once.
    """

    __slots__ = ("_each", "_reads", "gang", "keys", "node", "priority", "requests", "started")

    def __init__(
        self,
        keys: tuple[str, ...],
        *,
        node: IntColumn,
        priority: IntColumn,
        requests: ResourceMatrix,
        gang: IntColumn,
        started: IntColumn,
    ) -> None:
        self.keys, self.node, self.priority, self.requests = keys, node, priority, requests
        self.gang, self.started = gang, started
        self._each: tuple[Victim, ...] | None = None
        self._reads = 0

    @overload
    def __getitem__(self, position: int) -> Victim: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Victim, ...]: ...

    def __getitem__(self, position: int | slice) -> Victim | tuple[Victim, ...]:
        """Return the victim at a position, or the victims in a slice as a tuple."""
        if isinstance(position, slice) or self._each is not None or self._reads > len(self) // _MANY:
            return self._all()[position]
        self._reads += 1
        return Victim(
            self.keys[position],
            int(self.node[position]),
            int(self.priority[position]),
            tuple(self.requests[position].tolist()),
            None if self.gang[position] < 0 else int(self.gang[position]),
            int(self.started[position]),
        )

    def at(self, positions: Sequence[int]) -> tuple[Victim, ...]:
        """Return the victims at these positions, in this order."""
        if self._each is not None:
            return tuple([self._each[position] for position in positions])
        rows = np.array(positions, dtype=np.int64)
        columns = (each[rows].tolist() for each in (self.node, self.priority, self.requests, self.gang, self.started))
        return tuple(
            Victim(self.keys[row], node, priority, tuple(requests), None if gang < 0 else gang, started)
            for row, node, priority, requests, gang, started in zip(positions, *columns, strict=True)
        )

    def __iter__(self) -> Iterator[Victim]:
        """Iterate over all victims in order of position."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of victims."""
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        """Whether the other value is a table of equal victims in the same order."""
        return self._all() == tuple(other) if isinstance(other, VictimTable) else NotImplemented

    def __hash__(self) -> int:
        """Hash the victims' keys only."""
        return hash(self.keys)

    def __repr__(self) -> str:
        """Return the call of `victim_table` that builds an equal table."""
        return f"victim_table({list(self)!r})"

    def _all(self) -> tuple[Victim, ...]:
        if self._each is None:
            gangs = (None if gang < 0 else gang for gang in self.gang.tolist())
            numbers = (self.node.tolist(), self.priority.tolist(), map(tuple, self.requests.tolist()))
            self._each = tuple(map(Victim, self.keys, *numbers, gangs, self.started.tolist()))
        return self._each


def victim_table(victims: Iterable[Victim]) -> VictimTable:
    """Return the table of these victims. The position of a victim is its place in `victims`."""
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
    """A pod set of a running gang, as far as evictions can break the gang.

    `victims`: positions of its members that may be evicted. `running`: its members now. If fewer than `minimum` of them
    remain, the gang is broken.
    """

    name: str
    victims: frozenset[int]
    running: int
    minimum: int


@dataclass(frozen=True, slots=True)
class VictimGang:
    """A running gang that has victims. If the gang is broken, it is evicted as a whole.

    `running`: its members now, whether they may be evicted or not. The gang is broken if fewer than `minimum` members
    remain, or fewer members of one of its `sets` than that set's minimum. If some of its members may not be evicted
    (`running` exceeds the number of its victims), evictions must not break the gang. `sets` lists only the sets that
    evictions can cut below their minimum.
    """

    name: str
    running: int
    minimum: int
    sets: tuple[VictimSet, ...] = ()

    def falls_short(self, gone: AbstractSet[int], count: int) -> bool:
        """Whether the gang is broken when the victims in `gone` (positions) are evicted. `count`: how many of these
        victims are members of this gang.
        """
        return self.running - count < self.minimum or any(
            each.running - len(each.victims & gone) < each.minimum for each in self.sets
        )

    def cannot_spare(self, victim: int) -> bool:
        """Whether the eviction of this member alone, a victim by its position, breaks the gang."""
        return self.running <= self.minimum or any(
            victim in each.victims and each.running <= each.minimum for each in self.sets
        )


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A limit on evictions (a PodDisruptionBudget): at most `allowed` of `victims`, given by position, may be
    evicted.
    """

    name: str
    victims: frozenset[int]
    allowed: int


@dataclass(frozen=True, slots=True)
class GangRules:
    """One gang of a joint problem (several gangs in one `Problem`), with the constraints over all of its sets.

    `pod_sets`: positions of its sets. `minimum`: how many members of these sets must be placed together. `multiples`
    count the placed members of these sets. `line`: the name of a strict queue. If one gang of the queue is not placed,
    no later gang of the queue is placed.
    """

    pod_sets: tuple[int, ...]
    minimum: int
    multiples: tuple[Multiple, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """The input of the solver: one gang to be placed whole, the nodes, and the victims. A joint problem has several
    gangs.

    `levels`: names, widest first, the node last. `resources`: names; every tuple of amounts has one entry for each of
    them. `minimum`: members of all sets together that must be placed. `required`: one domain of this level must hold
    every placed member; None: any nodes may. `multiples` count the placed members of all sets together. `gangs`: the
    gangs of a joint problem in their order, each with its own sets; empty for one gang. Only problems with `gangs` have
    `quotas`. `slot_contents`: what every member needs beside `resources`, for messages about changes, such as `2
    devices of gpu.example.com`; empty if every member needs nothing more.
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
    slot_contents: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most time that a solve may take. `deterministic`: in CP-SAT's deterministic time, which gives equal results
    on every machine. `seconds`: wall time, which normally ends no solve.
    """

    deterministic: float = 4.0
    seconds: float = 10.0
