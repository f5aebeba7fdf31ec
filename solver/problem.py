"""The placement problem, as plain data. The order of goals is contract section 4.

Levels are positions 0..n-1, 0 the widest, n-1 the node itself. Nodes, shapes, victims and victim gangs are
referred to by their position in the problem's tuples. Amounts are integers in the caller's unit per resource.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """At most `count` placed members of `pod_sets` on the nodes of each group (anti-affinity among the members).

    `group[i]` names the group of node i; None: the node is in no group and not limited.
    """

    pod_sets: tuple[int, ...]
    group: tuple[str | None, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Once everybody is placed, a group in which a member of `pod_sets` is placed anew has at most `skew` pods more
    than the emptiest group (topology spread that must hold).

    `group[i]` names the group of node i; None: what is there is not counted. `counts`: pods of others in each group;
    all groups that count are in it, those without a node here too. `counted`: the sets whose members count.
    `from_zero`: there are fewer groups than asked for, and the emptiest has none.
    """

    pod_sets: tuple[int, ...]
    counted: tuple[int, ...]
    group: tuple[str | None, ...]
    counts: Mapping[str, int]
    skew: int
    from_zero: bool = False


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
class VictimGang:
    """A running gang that has victims. With `running` members now, it is broken when fewer than `minimum` remain.

    A broken gang is evicted as a whole; where some of its members may not be evicted (`running` exceeds its
    victims) it must keep its minimum.
    """

    name: str
    running: int
    minimum: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A disruption budget: at most `allowed` of these victims may be evicted."""

    name: str
    victims: frozenset[int]
    allowed: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One gang to be placed whole, and what there is.

    `levels`: names, widest first, the node last. `resources`: names; every amount tuple runs parallel to it.
    `minimum`: members of all sets together that must be placed. `required`: the level of which one domain must
    hold every placed member. `multiples` count the placed members of all sets together.
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
    victims: VictimTable = NO_VICTIMS
    victim_gangs: tuple[VictimGang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    spreads: tuple[Spread, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a solve may take. `deterministic` is CP-SAT's own unit, the same on every machine; `seconds` of wall
    time is the emergency stop.
    """

    deterministic: float = 4.0
    seconds: float = 10.0
