"""The pods that may be evicted for a pod of higher priority, in numpy columns.

A cluster has tens of thousands of such pods, and every gang that may evict reads all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cluster.node_state import Amounts, NodeState, Tenant

_T = TypeVar("_T")
Column = NDArray[np.int64]
"""One number for each evictable pod."""
Chosen = NDArray[np.bool_]
"""One flag for each evictable pod: whether it is selected."""


def _empty_column() -> Column:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class EvictablePods:
    """Evictable pods as columns: entry i of each field, except `asked` and `namespaces`, belongs to pod i.

    `tenants`: the pods. `keys`: their names (`namespace/name`). `node`: the position of the pod's node among the nodes.
    `started`: the pod's start in seconds since the epoch; 0 if unknown. `asks`: the position of the pod's requests in
    `asked`, which lists each different request once. `within`: the position of its namespace in `namespaces`.
    For example, pods 0 and 2 have equal requests if `asks` is [0, 1, 0].
    """

    tenants: tuple[Tenant, ...] = ()
    keys: tuple[str, ...] = ()
    node: Column = field(default_factory=_empty_column)
    priority: Column = field(default_factory=_empty_column)
    started: Column = field(default_factory=_empty_column)
    asks: Column = field(default_factory=_empty_column)
    within: Column = field(default_factory=_empty_column)
    asked: tuple[Amounts, ...] = ()
    namespaces: tuple[str, ...] = ()

    def only(self, chosen: Chosen) -> "EvictablePods":
        """Return only the pods whose flag in `chosen` is True, in the same order."""
        if chosen.all():
            return self
        one_by_one = chosen.tolist()
        return EvictablePods(
            tuple(compress(self.tenants, one_by_one)),
            tuple(compress(self.keys, one_by_one)),
            self.node[chosen],
            self.priority[chosen],
            self.started[chosen],
            self.asks[chosen],
            self.within[chosen],
            self.asked,
            self.namespaces,
        )


def evictable_on(states: Sequence[NodeState]) -> EvictablePods:
    """Return the pods on these nodes that may be evicted for a pod of higher priority, in the order of the nodes."""
    tenants = tuple(chain.from_iterable([state.evictable for state in states]))
    if not tenants:
        return EvictablePods()
    columns = zip(*[state.evictable_columns for state in states], strict=True)
    keys, namespaces, requests, priority, started = (tuple(chain.from_iterable(each)) for each in columns)
    asked, names = {id(each): each for each in requests}, dict.fromkeys(namespaces)
    on_node = chain.from_iterable([repeat(place, len(state.evictable)) for place, state in enumerate(states)])
    return EvictablePods(
        tenants,
        keys,
        np.fromiter(on_node, np.int64, len(tenants)),
        np.array(priority, dtype=np.int64),
        np.array(started, dtype=np.int64),
        _positions_of(map(id, requests), _positions(asked)),
        _positions_of(namespaces, _positions(names)),
        tuple(asked.values()),
        tuple(names),
    )


def joined(parts: Sequence[EvictablePods], first: Sequence[int]) -> EvictablePods:
    """Return the evictable pods of several parts of the cluster as one object.

    :param first: for each part, the position of its first node among all nodes.
    """
    there = [(part, before) for part, before in zip(parts, first, strict=True) if part.tenants]
    if not there:
        return EvictablePods()
    some = [part for part, _ in there]
    asked = {id(each): each for part in some for each in part.asked}
    names = dict.fromkeys(chain.from_iterable([part.namespaces for part in some]))
    of_asked, of_names = _positions(asked), _positions(names)
    return EvictablePods(
        tuple(chain.from_iterable([part.tenants for part in some])),
        tuple(chain.from_iterable([part.keys for part in some])),
        np.concatenate([part.node + before for part, before in there]),
        np.concatenate([part.priority for part in some]),
        np.concatenate([part.started for part in some]),
        np.concatenate([_positions_of(map(id, part.asked), of_asked)[part.asks] for part in some]),
        np.concatenate([_positions_of(part.namespaces, of_names)[part.within] for part in some]),
        tuple(asked.values()),
        tuple(names),
    )


def _positions(values: Iterable[_T]) -> dict[_T, int]:
    """Return the position of each value in `values`, counted from 0."""
    return {value: position for position, value in enumerate(values)}


def _positions_of(values: Iterable[_T], positions: Mapping[_T, int]) -> Column:
    """Return the positions of these values as an array."""
    return np.array([*map(positions.__getitem__, values)], dtype=np.int64)
