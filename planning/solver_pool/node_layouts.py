"""How a problem's nodes get to a worker: what stays while loads change is told once, amounts go as packed numbers.

Both ends keep the same few layouts (`solver.problem.NodeLayout`) in the order of their last use, so that the one that
sends knows what the other one knows. Works as the hooks of msgspec, which passes through a message in the same order at
both ends.
"""

from collections import OrderedDict
from typing import Any

import numpy as np

from solver.nodes import NodeLayout, NodeTable, node_layout_of
from solver.problem import Column, VictimTable

KEPT = 4
"""Grounds that each end keeps. A cluster has one for each topology that its gangs use."""

_PackedNodes = tuple[int, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None, int, bytes, bytes]
"""Number of the layout; names and paths where it is new; resources; what is free; what terminates, if anything."""
_PackedVictims = tuple[tuple[str, ...], int, tuple[bytes, ...]]
"""Keys; resources; the columns."""


class Sender:
    """What one worker has been told. A worker that takes another's place has a new one."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()

    def pack(self, thing: object) -> _PackedNodes | _PackedVictims:
        """Nodes or victims as what msgspec can encode. Raises `NotImplementedError` for anything else, as msgspec wants
        it.
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
    """What a worker has been told."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, NodeLayout] = OrderedDict()

    def unpack(self, wanted: type, packed: Any) -> NodeTable | VictimTable:
        """The nodes or victims that a `Sender` packed. Raises `KeyError` where it took for known what is not."""
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


def _column(numbers: bytes) -> Column:
    return np.frombuffer(numbers, dtype=np.int64)
