"""The placement problem as plain data. The goals that rank its plans: docs/decisions/0002.

Levels are positions 0..n-1: 0 is the widest level, n-1 is the node itself. Nodes, shapes, victims and victim gangs are
referred to by their position in the problem's tuples. Amounts are integers in the caller's unit per resource.
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
"""One integer per row, such as one per victim."""
_MANY = 8
"""After reads of more than one victim in `_MANY`, the table creates all `Victim` objects at once: more reads are
likely.
"""


@dataclass(frozen=True)
class Shape:
    """The requests of equal members, and the nodes where they may run.

    `nodes`: the eligible nodes, regardless of free capacity. `excluded`: by other node, the reason why it is not
    eligible (opaque text for explanations). `preferences`: by node, the summed weight of the node preferences that it
    fulfils; a missing node means 0. `lifts`: by change in words, the nodes that this change alone would make eligible.
    A node that is excluded for two reasons is in no entry. `fills_node`: whether no node could hold two such members,
    even if it were empty (for explanations).
    """

    requests: tuple[int, ...]
    nodes: frozenset[int]
    excluded: Mapping[int, str] = field(default_factory=dict)
    preferences: Mapping[int, int] = field(default_factory=dict)
    lifts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    fills_node: bool = False

    @cached_property
    def positions(self) -> IntColumn:
        """The eligible nodes in order."""
        return np.sort(np.fromiter(self.nodes, dtype=np.int64, count=len(self.nodes)))


@dataclass(frozen=True, slots=True)
class Member:
    """One pod. `node` is set if the pod is bound or released already. Such a member stays there and counts as placed.
    Its requests are already subtracted from that node's `free`.
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

    `required`: the level of which one domain must hold all placed members; None: no such level. Constraints bind placed
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
    """The placed members of these sets lie in one domain of `level`."""

    pod_sets: tuple[int, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Members of `shapes` that keep apart: host ports and anti-affinity among members that are equal in this respect.

    A group in which a member of `shapes` is newly placed holds at most `count` placed members of these shapes.
    `group[i]` names the group of node i; None: the node is in no group and has no limit.
    """

    shapes: tuple[int, ...]
    group: tuple[str | None, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Separation:
    """Two kinds of members that keep apart: host ports and anti-affinity among members that differ in this respect.

    A group holds no member of `shapes` beside a member of `others`, unless neither of them is newly placed. No shape is
    on both sides. `group[i]` names the group of node i; None: the node is in no group and has no limit.
    """

    shapes: tuple[int, ...]
    others: tuple[int, ...]
    group: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Victims that keep members off eligible nodes: by a host port that they hold, or by anti-affinity.

    A member of `shapes` may be placed on one of `nodes` only if all of `victims` are evicted. `reason`: why the member
    cannot run beside them, as an opaque text like the values of `Shape.excluded`.
    """

    shapes: tuple[int, ...]
    nodes: frozenset[int]
    victims: frozenset[int]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Affinity:
    """Pod affinity: each newly placed member of `shapes` needs a matching pod in its group, in every way to group the
    nodes.

    A group matches in a way if its name is in `there` for this way, because of pods outside the problem. It also
    matches if it holds a victim of `victims` that is not evicted, or a pinned member of a shape in `counted`. A newly
    placed member of another shape in `counted` matches too.

    `themselves`: the affinity term selects the members of `shapes` themselves. If no group then has a matching pod, the
    members need none, but share one group in each way: the first member binds anywhere, the others near it. `groups`:
    by way, the group of each node as in `Exclusion`. A node without a group in some way is not eligible for `shapes`.
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

    A group in which a member of `shapes` is newly placed has at most `skew` pods more than the emptiest group.

    `group[i]` names the group of node i; None: the pods of that node do not count. `counts`: by group, the pods that
    are not members. It has an entry for every group that counts, also for groups without a node of the problem.
    `counted`: the shapes whose members count. `victims`: pods that are part of `counts` until they are evicted. Each is
    on a node of a group. `from_zero`: there are fewer groups than `minDomains` requires, so the emptiest group counts
    as empty. If a rule counts no members and no victim is evicted, the nodes of groups that are too full are closed.
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

    `started`: the start time, in any unit in which a later start is a larger number.
    """

    key: str
    node: int
    priority: int
    requests: tuple[int, ...]
    gang: int | None = None
    started: int = 0


class VictimTable(Sequence[Victim]):
    """All victims of a problem, by position, in columns. The table is immutable.

    `gang` is -1 for a victim without a gang. `requests` has a row per victim. Reading one victim creates a `Victim`.
    Iteration, or reads of many victims, create all of them once.
    """

    __slots__ = ("_each", "_looked_at", "gang", "keys", "node", "priority", "requests", "started")

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
        """Return the victims at some positions."""
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
        """Whether all victims are equal."""
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
    """Return the table of these victims, in their order."""
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
    """A running gang that has victims. It has `running` members now.

    The gang is broken if fewer than `minimum` members remain, or fewer members of one of its `sets` than that set's
    minimum. A broken gang is evicted as a whole. If some of its members may not be evicted (`running` exceeds the
    number of its victims), the gang must keep its minimums. `sets`: only those that evictions can cut below their
    minimum.
    """

    name: str
    running: int
    minimum: int
    sets: tuple[VictimSet, ...] = ()

    def falls_short(self, gone: AbstractSet[int], count: int) -> bool:
        """Whether the gang is broken without `gone`: positions of victims, of which `count` belong to this gang."""
        return self.running - count < self.minimum or any(
            each.running - len(each.victims & gone) < each.minimum for each in self.sets
        )

    def cannot_spare(self, victim: int) -> bool:
        """Whether the gang is broken if only this one of its members is evicted."""
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
    """One gang of a joint problem, and the rules over all of its sets.

    `pod_sets`: positions of its sets. `minimum`: how many members of these sets must be placed together. `multiples`:
    count the placed members of these sets. `line`: the name of a strict queue. If one gang of the queue is not placed,
    no later gang of the queue is placed.
    """

    pod_sets: tuple[int, ...]
    minimum: int
    multiples: tuple[Multiple, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One gang to be placed whole, and the nodes and victims for it. A joint problem of several gangs has `gangs`.

    `levels`: names, widest first, the node last. `resources`: names; every amount tuple runs parallel to it. `minimum`:
    members of all sets together that must be placed. `required`: the level of which one domain must hold every placed
    member. `multiples` count the placed members of all sets together. `gangs`: the gangs in their order, each with its
    own sets; empty for one gang. Only problems with `gangs` have `quotas`.
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
    """How long a solve may take. `deterministic` is in CP-SAT's own unit, which is the same on every machine. `seconds`
    of wall time is the emergency stop.
    """

    deterministic: float = 4.0
    seconds: float = 10.0
