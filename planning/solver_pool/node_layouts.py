"""Encodes the nodes of a problem for a worker process: names and paths are sent once, amounts as packed numbers.

Both ends keep the same few layouts (`solver.nodes.NodeLayout`) in the order of their last use, so the sender knows
which layouts the receiver has. The functions are msgspec hooks: msgspec visits a message in the same order at both
ends.
"""

from collections import OrderedDict
from typing import Any

import numpy as np

from solver.nodes import NodeLayout, NodeTable, node_layout_of
from solver.problem import IntColumn, VictimTable

KEPT = 4
"""Number of layouts that each end keeps. A cluster has one layout for each topology that its gangs use."""

_PackedNodes = tuple[int, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None, int, bytes, bytes]
"""The nodes of a problem as a message to a worker.

The values are the number of the node layout, the layout's node names and paths if it is new, and the number of
resources. The free capacity follows, and the capacity that terminating pods occupy, empty if there is none.
"""
_PackedVictims = tuple[tuple[str, ...], int, tuple[bytes, ...]]
"""The victims of a problem as a message to a worker: their keys, the number of resources, and the columns of the victim
table as bytes.
"""


class Sender:
    """Packs nodes and victims for one worker, and records the node layouts that the worker has received.

    A new worker has no layouts, so it needs a new sender.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()

    def pack(self, thing: object) -> _PackedNodes | _PackedVictims:
        """Return nodes or victims as a tuple that msgspec can encode.

        For any other type it raises `NotImplementedError`, as msgspec requires of its hooks.
        """
        if isinstance(thing, NodeTable):
            return self._nodes(thing)
        if isinstance(thing, VictimTable):
            columns = thing.node, thing.priority, thing.requests, thing.gang, thing.started
            return thing.keys, thing.requests.shape[1], tuple(column.tobytes() for column in columns)
        raise NotImplementedError(f"a {type(thing).__name__} is not sent to workers")

    def _nodes(self, nodes: NodeTable) -> _PackedNodes:
        layout = nodes.layout
        news = None if layout.number in self._known else (layout.names, layout.paths)
        _keep(self._known, layout.number, None)
        terminating = nodes.terminating.tobytes() if nodes.terminating.any() else b""
        return layout.number, news, nodes.free.shape[1], nodes.free.tobytes(), terminating


class Receiver:
    """Unpacks nodes and victims in a worker process, and keeps the received node layouts."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, NodeLayout] = OrderedDict()

    def unpack(self, wanted: type, packed: Any) -> NodeTable | VictimTable:
        """Return the nodes or victims that a `Sender` packed. Raises `KeyError` if the node layout was never
        received.
        """
        if wanted is NodeTable:
            return self._nodes(*packed)
        keys, resources, (node, priority, requests, gang, started) = packed
        return VictimTable(
            tuple(keys),
            node=_column(node),
            priority=_column(priority),
            requests=_column(requests).reshape(len(keys), resources),
            gang=_column(gang),
            started=_column(started),
        )

    def _nodes(self, number: int, news: Any, resources: int, free: bytes, terminating: bytes) -> NodeTable:
        layout = self._known[number] if news is None else _decoded(*news)
        _keep(self._known, number, layout)
        shape = len(layout.names), resources
        return NodeTable(layout, _column(free).reshape(shape), _column(terminating or bytes(len(free))).reshape(shape))


def _keep(known: OrderedDict[int, Any], number: int, thing: object) -> None:
    known[number] = thing
    known.move_to_end(number)
    if len(known) > KEPT:
        known.popitem(last=False)


def _decoded(names: list[str], paths: list[list[str]]) -> NodeLayout:
    return node_layout_of(tuple(names), tuple(map(tuple, paths)))


def _column(numbers: bytes) -> IntColumn:
    return np.frombuffer(numbers, dtype=np.int64)
