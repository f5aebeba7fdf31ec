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
"""One number for each pod."""
Chosen = NDArray[np.bool_]
"""One flag for each pod: whether it is selected."""


def _nobody() -> Column:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class EvictablePods:
    """Evictable pods; every column and tuple but the last two is parallel to `tenants`.

    `keys`: `namespace/name`. `node`: position of the pod's node in the given nodes. `started`: seconds since the epoch,
    0: unknown. `asks`: position of its requests in `asked`. `within`: position of its namespace in `namespaces`.
    """

    tenants: tuple[Tenant, ...] = ()
    keys: tuple[str, ...] = ()
    node: Column = field(default_factory=_nobody)
    priority: Column = field(default_factory=_nobody)
    started: Column = field(default_factory=_nobody)
    asks: Column = field(default_factory=_nobody)
    within: Column = field(default_factory=_nobody)
    asked: tuple[Amounts, ...] = ()
    namespaces: tuple[str, ...] = ()

    def only(self, chosen: Chosen) -> "EvictablePods":
        """Return the pods for which the flag in `chosen` is True."""
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
    """Return the evictable pods on these nodes, in the order of the nodes."""
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
        _numbers(map(id, requests), _places(asked)),
        _numbers(namespaces, _places(names)),
        tuple(asked.values()),
        tuple(names),
    )


def joined(parts: Sequence[EvictablePods], first: Sequence[int]) -> EvictablePods:
    """Return the pods of all parts. `first`: for each part, the position of its first node among all nodes."""
    there = [(part, before) for part, before in zip(parts, first, strict=True) if part.tenants]
    if not there:
        return EvictablePods()
    some = [part for part, _ in there]
    asked = {id(each): each for part in some for each in part.asked}
    names = dict.fromkeys(chain.from_iterable([part.namespaces for part in some]))
    of_asked, of_names = _places(asked), _places(names)
    return EvictablePods(
        tuple(chain.from_iterable([part.tenants for part in some])),
        tuple(chain.from_iterable([part.keys for part in some])),
        np.concatenate([part.node + before for part, before in there]),
        np.concatenate([part.priority for part in some]),
        np.concatenate([part.started for part in some]),
        np.concatenate([_numbers(map(id, part.asked), of_asked)[part.asks] for part in some]),
        np.concatenate([_numbers(part.namespaces, of_names)[part.within] for part in some]),
        tuple(asked.values()),
        tuple(names),
    )


def _places(things: Iterable[_T]) -> dict[_T, int]:
    """Return the position of each thing."""
    return {each: number for number, each in enumerate(things)}


def _numbers(things: Iterable[_T], places: Mapping[_T, int]) -> Column:
    """Return the column of the things' positions."""
    return np.array([*map(places.__getitem__, things)], dtype=np.int64)
