"""The free capacity of all nodes as one column for each resource. Later snapshots reuse the columns of earlier ones."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from cluster.node_blocks import NODES, NodeBlock
from cluster.node_state import Amounts, NodeState, room

_RESOURCES = 16
"""The most resources whose columns are cached. There is a bound because gangs may request any resource name."""


class RoomColumn(NamedTuple):
    """Amounts of one resource by the position of the node, in its base unit.

    `free`: the free amount on each node. `terminating`: the part of it that terminating pods still use.
    """

    free: list[int]
    terminating: list[int]


class RoomColumns:
    """The free capacity of one snapshot as columns, which are computed on demand.

    :param known: the columns of an earlier snapshot of the same nodes, from which columns are updated. They are not
        modified.
    :param changed: positions of the nodes that have changed since that snapshot.
    """

    def __init__(
        self,
        states: Sequence[NodeState],
        known: Mapping[str, RoomColumn] | None = None,
        changed: frozenset[int] = frozenset(),
    ) -> None:
        self._states, self._earlier, self._changed = states, known or {}, changed
        self._columns: dict[str, RoomColumn] = {}

    def after(self, states: Sequence[NodeState], changed: Iterable[int]) -> "RoomColumns":
        """Return the columns of the next snapshot, which has the same nodes. Each column is computed from the present
        column when it is first read.

        :param states: the nodes of the next snapshot.
        :param changed: the positions of the nodes that have changed.
        """
        if self._columns:
            return RoomColumns(states, self._columns, frozenset(changed))
        return RoomColumns(states, self._earlier, self._changed.union(changed))

    def room(
        self, resources: Iterable[str], blocks: Sequence[NodeBlock], *, priority: int, ignoring: Collection[str]
    ) -> list[RoomColumn]:
        """Return the capacity that each node offers to a pod of this priority, one new column for each resource.

        :param blocks: the blocks of the snapshot.
        :param priority: reservations of lower priority count as free (`cluster.node_state.room`).
        :param ignoring: UIDs or names (`namespace/name`) of pods that do not count.
        """
        names, special = tuple(resources), _special(blocks, ignoring)
        rooms = {place: room(self._states[place], priority=priority, ignoring=ignoring) for place in special}
        return [_with(self._column(each), each, rooms) for each in names]

    def _column(self, resource: str) -> RoomColumn:
        found = self._columns.get(resource)
        if found is None:
            earlier = self._earlier.get(resource)
            if earlier is None:
                found = _all_nodes([state.room for state in self._states], resource)
            else:
                found = _with(earlier, resource, {place: self._states[place].room for place in self._changed})
            if len(self._columns) < _RESOURCES:
                self._columns[resource] = found
        return found


def _special(blocks: Sequence[NodeBlock], ignoring: Collection[str]) -> list[int]:
    """Return the positions of the nodes with reservations or ignored pods, whose capacity the columns do not show."""
    found = []
    for number, block in enumerate(blocks):
        beside = not block.marks.isdisjoint(ignoring)
        if beside or block.reserving:
            found += [
                number * NODES + place
                for place, state in enumerate(block.states)
                if state.reserving or (beside and not state.marks.isdisjoint(ignoring))
            ]
    return found


def _all_nodes(rooms: Sequence[tuple[Amounts, Amounts]], resource: str) -> RoomColumn:
    return RoomColumn(
        [free.get(resource, 0) for free, _ in rooms],
        [leaving.get(resource, 0) if leaving else 0 for _, leaving in rooms],
    )


def _with(column: RoomColumn, resource: str, rooms: Mapping[int, tuple[Amounts, Amounts]]) -> RoomColumn:
    """Return a copy of a resource's column with other amounts for some nodes.

    :param rooms: by position of the node: its free and its terminating amounts, by resource.
    """
    found = RoomColumn(list(column.free), list(column.terminating))
    for place, (free, leaving) in rooms.items():
        found.free[place], found.terminating[place] = free.get(resource, 0), leaving.get(resource, 0)
    return found
