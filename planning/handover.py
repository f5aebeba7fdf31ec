"""How a problem's nodes get to a worker: what stays while loads change is told once, amounts go as packed numbers.

Both ends keep the same few grounds (`solver.problem.Ground`) in the order of their last use, so that the one that sends
knows what the other one knows. Works as the hooks of msgspec, which passes through a message in the same order at both
ends.
"""

from collections import OrderedDict
from typing import Any

import numpy as np

from solver.problem import Amounts, Ground, NodeTable, ground_of

KEPT = 4
"""Grounds that each end keeps. A cluster has one for each topology that its gangs use."""

_Packed = tuple[int, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None, int, bytes, bytes]
"""Number of the ground; names and paths where it is new; resources; what is free; what terminates, if anything."""


class Sender:
    """What one worker has been told. A worker that takes another's place has a new one."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()

    def pack(self, thing: object) -> _Packed:
        """Nodes as what msgspec can encode. Raises `NotImplementedError` for anything else, as msgspec wants it."""
        if not isinstance(thing, NodeTable):
            raise NotImplementedError(f"a {type(thing).__name__} is not sent to workers")
        ground = thing.ground
        news = None if ground.number in self._known else (ground.names, ground.paths)
        _keep(self._known, ground.number, None)
        terminating = thing.terminating.tobytes() if thing.terminating.any() else b""
        return ground.number, news, thing.free.shape[1], thing.free.tobytes(), terminating


class Receiver:
    """What a worker has been told."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Ground] = OrderedDict()

    def unpack(self, _wanted: type, packed: Any) -> NodeTable:
        """The nodes that a `Sender` packed. Raises `KeyError` where it took for known what is not."""
        number, news, resources, free, terminating = packed
        ground = self._known[number] if news is None else _told(*news)
        _keep(self._known, number, ground)
        return NodeTable(ground, _rows(free, resources), _rows(terminating or bytes(len(free)), resources))


def _keep(known: OrderedDict[int, Any], number: int, thing: object) -> None:
    known[number] = thing
    known.move_to_end(number)
    if len(known) > KEPT:
        known.popitem(last=False)


def _told(names: list[str], paths: list[list[str]]) -> Ground:
    return ground_of(tuple(names), tuple(map(tuple, paths)))


def _rows(amounts: bytes, resources: int) -> Amounts:
    return np.frombuffer(amounts, dtype=np.int64).reshape(-1, resources)
