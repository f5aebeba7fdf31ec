"""The placement problem, as plain data. The order of goals is contract section 4.

Levels are positions 0..n-1, 0 the widest, n-1 the node itself. NodeTable, shapes, victims and victim gangs are
referred to by their position in the problem's tuples. Amounts are integers in the caller's unit per resource.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import overload

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]
"""A row per node, a column per resource."""
Path = tuple[str, ...]

_KEPT_GROUNDS = 8


@dataclass(frozen=True, slots=True)
class Node:
    """A node inside the topology.

    `path` names its domain at every level above the node, widest first; a domain is identified by the path down
    to it, never by its last name alone. `free` is what a member may take without evicting anybody: it includes
    `terminating`, the part that pods on their way out still hold. `free` may be negative (an overcommitted node).
    """

    name: str
    path: Path
    free: tuple[int, ...]
    terminating: tuple[int, ...]


class Ground:
    """What nodes keep while their load changes: `names` and `paths`, by position. What is worked out from them alone is
    worked out once, and another process is told once (`planning.handover`): `ground_of` gives the same object for the
    same nodes. Compared by identity; `number` tells grounds of one process apart.
    """

    __slots__ = ("names", "number", "paths")
    _numbers = count()

    def __init__(self, names: tuple[str, ...], paths: tuple[Path, ...]) -> None:
        self.names, self.paths = names, paths
        self.number = next(self._numbers)

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle: in another process the number is another."""
        return ground_of, (self.names, self.paths)


@lru_cache(maxsize=_KEPT_GROUNDS)
def ground_of(names: tuple[str, ...], paths: tuple[Path, ...]) -> Ground:
    """The ground of nodes of these names on these paths."""
    return Ground(names, paths)


class NodeTable(Sequence[Node]):
    """All nodes of a problem, by position, in columns: `free` and `terminating` have a row per node. Not to be changed.

    Reading a single node makes a `Node`; whoever goes through all of them reads the columns.
    """

    __slots__ = ("free", "ground", "terminating")
    __hash__ = None  # type: ignore[assignment]  # like that of the problem's other mappings and sequences of numbers

    def __init__(self, ground: Ground, free: Amounts, terminating: Amounts) -> None:
        self.ground, self.free, self.terminating = ground, free, terminating

    def with_free(self, free: Amounts) -> "NodeTable":
        """The same nodes with other room."""
        return NodeTable(self.ground, free, self.terminating)

    def at(self, positions: Sequence[int]) -> "NodeTable":
        """Some of the nodes, in this order."""
        names, paths = self.ground.names, self.ground.paths
        ground = Ground(tuple(names[each] for each in positions), tuple(paths[each] for each in positions))
        chosen = np.array(positions, dtype=np.int64)
        return NodeTable(ground, self.free[chosen], self.terminating[chosen])

    def and_also(self, more: "NodeTable") -> "NodeTable":
        """These nodes, then others."""
        mine, theirs = self.ground, more.ground
        ground = Ground((*mine.names, *theirs.names), (*mine.paths, *theirs.paths))
        return NodeTable(ground, np.vstack((self.free, more.free)), np.vstack((self.terminating, more.terminating)))

    @overload
    def __getitem__(self, position: int) -> Node: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Node, ...]: ...

    def __getitem__(self, position: int | slice) -> Node | tuple[Node, ...]:
        """One node, or several."""
        if isinstance(position, slice):
            return tuple(self[each] for each in range(*position.indices(len(self))))
        return Node(
            self.ground.names[position],
            self.ground.paths[position],
            tuple(self.free[position].tolist()),
            tuple(self.terminating[position].tolist()),
        )

    def __iter__(self) -> Iterator[Node]:
        """All of them."""
        amounts = map(tuple, self.free.tolist()), map(tuple, self.terminating.tolist())
        return map(Node, self.ground.names, self.ground.paths, *amounts)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.ground.names)

    def __eq__(self, other: object) -> bool:
        """Whether all nodes are equal."""
        if not isinstance(other, NodeTable):
            return NotImplemented
        same = self.ground is other.ground or tuple(self) == tuple(other)
        amounts = (self.free, other.free), (self.terminating, other.terminating)
        return same and all(np.array_equal(mine, its) for mine, its in amounts)

    def __repr__(self) -> str:
        """The nodes as they would be written."""
        return f"nodes_of({list(self)!r})"


def nodes_of(nodes: Iterable[Node], resources: int = 1) -> NodeTable:
    """Single nodes as all nodes of a problem. `resources`: how many there are, where there is no node to tell."""
    each = tuple(nodes)
    width = len(each[0].free) if each else resources
    ground = ground_of(tuple(node.name for node in each), tuple(node.path for node in each))
    free, terminating = [node.free for node in each], [node.terminating for node in each]
    return NodeTable(ground, amounts_of(free, width), amounts_of(terminating, width))


def amounts_of(rows: Sequence[Sequence[int]], width: int) -> Amounts:
    """Rows of so many amounts. Those beyond 64 bits are capped, as Kubernetes does."""
    try:
        return np.array(rows, dtype=np.int64).reshape(len(rows), width)
    except OverflowError:
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        capped = [[min(max(amount, least), most) for amount in row] for row in rows]
        return np.array(capped, dtype=np.int64).reshape(len(rows), width)


@dataclass(frozen=True, slots=True)
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
    victims: tuple[Victim, ...] = ()
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
