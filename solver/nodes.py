"""The nodes of a problem as a table: `Node` objects for single reads, arrays for code that goes through all nodes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import overload

import numpy as np
from numpy.typing import NDArray

ResourceMatrix = NDArray[np.int64]
"""Amounts of resources: a row per node (or per victim), a column per resource."""
Path = tuple[str, ...]

_CACHED_LAYOUTS = 8
"""The most `NodeLayout` objects that `node_layout_of` caches. For a layout that is not cached any more,
`node_layout_of` creates a new object, and values that were derived from the old object are computed again.
"""
_LARGEST_SUM = 1 << 61
"""`amounts_of` keeps the sum of one resource over all rows below this bound. So the sum over all nodes and all victims
fits 64 bits, even doubled.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node inside the topology.

    `path` names its domain at every level above the node, widest first. A domain is identified by the path down to it,
    never by its last name alone. `free`, by resource, is what members may take without an eviction. It includes
    `terminating`, the part that terminating pods still hold. `free` may be negative (an overcommitted node).
    """

    name: str
    path: Path
    free: tuple[int, ...]
    terminating: tuple[int, ...]


class NodeLayout:
    """The names and paths of a node table, by position. They stay the same while the load of the cluster changes.

    So values derived from a layout alone are computed once, and a layout is sent to another process once
    (`planning.solver_pool.node_layouts`). `node_layout_of` returns the same object for equal names and paths while it
    is cached. Layouts are compared by identity; `number` distinguishes the layouts of one process.
    """

    __slots__ = ("names", "number", "paths")
    _numbers = count()

    def __init__(self, names: tuple[str, ...], paths: tuple[Path, ...]) -> None:
        self.names, self.paths = names, paths
        self.number = next(self._numbers)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by names and paths. The layout gets another `number` in another process."""
        return node_layout_of, (self.names, self.paths)


@lru_cache(maxsize=_CACHED_LAYOUTS)
def node_layout_of(names: tuple[str, ...], paths: tuple[Path, ...]) -> NodeLayout:
    """Return the layout of nodes with these names and paths. If an equal layout is cached, return the cached object."""
    return NodeLayout(names, paths)


class NodeTable(Sequence[Node]):
    """All nodes of a problem, by position. `free` and `terminating`: nodes x resources. The table is immutable.

    Reading a single node creates a `Node`. Code that goes through all nodes reads the arrays.
    """

    __slots__ = ("free", "layout", "terminating")

    def __init__(self, layout: NodeLayout, free: ResourceMatrix, terminating: ResourceMatrix) -> None:
        self.layout, self.free, self.terminating = layout, free, terminating

    def with_free(self, free: ResourceMatrix) -> "NodeTable":
        """Return a table of the same nodes with the free amounts `free`, nodes x resources."""
        return NodeTable(self.layout, free, self.terminating)

    def at(self, positions: Sequence[int]) -> "NodeTable":
        """Return a table of the nodes at these positions, in this order."""
        names, paths = self.layout.names, self.layout.paths
        layout = NodeLayout(tuple(names[each] for each in positions), tuple(paths[each] for each in positions))
        chosen = np.array(positions, dtype=np.int64)
        return NodeTable(layout, self.free[chosen], self.terminating[chosen])

    def and_also(self, more: "NodeTable") -> "NodeTable":
        """Return a table of this table's nodes, followed by the nodes of the table `more`."""
        own, theirs = self.layout, more.layout
        layout = NodeLayout((*own.names, *theirs.names), (*own.paths, *theirs.paths))
        return NodeTable(layout, np.vstack((self.free, more.free)), np.vstack((self.terminating, more.terminating)))

    @overload
    def __getitem__(self, position: int) -> Node: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Node, ...]: ...

    def __getitem__(self, position: int | slice) -> Node | tuple[Node, ...]:
        """Return the node at a position, or the nodes in a slice as a tuple."""
        if isinstance(position, slice):
            return tuple(self[each] for each in range(*position.indices(len(self))))
        return Node(
            self.layout.names[position],
            self.layout.paths[position],
            tuple(self.free[position].tolist()),
            tuple(self.terminating[position].tolist()),
        )

    def __iter__(self) -> Iterator[Node]:
        """Iterate over all nodes in order of position."""
        amounts = map(tuple, self.free.tolist()), map(tuple, self.terminating.tolist())
        return map(Node, self.layout.names, self.layout.paths, *amounts)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.layout.names)

    def __eq__(self, other: object) -> bool:
        """Whether the other value is a table of equal nodes in the same order."""
        if not isinstance(other, NodeTable):
            return NotImplemented
        same = self.layout is other.layout or tuple(self) == tuple(other)
        amounts = (self.free, other.free), (self.terminating, other.terminating)
        return same and all(np.array_equal(own, its) for own, its in amounts)

    def __hash__(self) -> int:
        """Hash the nodes' names only."""
        return hash(self.layout.names)

    def __repr__(self) -> str:
        """Return the call of `nodes_of` that builds an equal table."""
        return f"nodes_of({list(self)!r})"


def nodes_of(nodes: Iterable[Node], resources: int = 1) -> NodeTable:
    """Return the table of these nodes. `resources`: the number of resources, read only if there is no node."""
    each = tuple(nodes)
    width = len(each[0].free) if each else resources
    layout = node_layout_of(tuple(node.name for node in each), tuple(node.path for node in each))
    free, terminating = [node.free for node in each], [node.terminating for node in each]
    return NodeTable(layout, amounts_of(free, width), amounts_of(terminating, width))


def amounts_of(rows: Sequence[Sequence[int]], width: int) -> ResourceMatrix:
    """Return rows of `width` amounts as an array, rows x resources.

    Amounts are clipped to 2^61 divided by the number of rows, so that the sum of a column fits 64 bits. No member
    requests so much, so clipping changes no result.
    """
    most = _LARGEST_SUM // max(1, len(rows))
    try:
        found = np.array(rows, dtype=np.int64)
    except OverflowError:
        found = np.array([[min(max(amount, -most), most) for amount in row] for row in rows], dtype=np.int64)
    return found.reshape(len(rows), width).clip(-most, most)
