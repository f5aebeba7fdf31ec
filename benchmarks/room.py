"""What a cluster has left, counted plainly: enough to draw gangs that fit, and gangs that do not."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.arrivals import Ask
from benchmarks.network import TOPOLOGY
from cluster.node_state import NodeState, room
from cluster.snapshot import Snapshot

Amounts = NDArray[np.int64]

Slices = tuple[tuple[str, int], ...]
"""Level and size of slices, the narrowest level first."""

_GPU, _CPU, _MEMORY = "nvidia.com/gpu", "cpu", "memory"
_MEBIBYTE = 1 << 20


class Room:
    """GPUs, millicores and MiB left on every node, and which domain it is in."""

    def __init__(self, snapshot: Snapshot, evicting_below: int | None = None) -> None:
        """`evicting_below`: count the room of pods of lower priority than this, too."""
        self._left = np.array([_row(state, evicting_below) for state in snapshot.nodes], dtype=np.int64)
        self._domains = {
            level.name: _numbered([state.node.metadata.labels[level.label_keys[0]] for state in snapshot.nodes], wider)
            for level, wider in zip(
                TOPOLOGY.levels[:-1],
                [[_path(state.node.metadata.labels, depth) for state in snapshot.nodes] for depth in range(3)],
                strict=True,
            )
        }

    def slots(self, ask: Ask, level: str | None, slices: Slices = ()) -> int:
        """How many pods that ask for this the best domain of `level` holds, in whole slices; None: the cluster."""
        asked = np.array([ask.gpus, ask.millicores, ask.mebibytes], dtype=np.int64)
        used = asked > 0
        held = (np.maximum(self._left[:, used], 0) // asked[used]).min(axis=1)
        for inner, size in slices:
            firsts, domains = np.unique(self._domains[inner], return_index=True, return_inverse=True)[1:]
            in_slices = np.zeros(len(held), dtype=np.int64)
            in_slices[firsts] = _summed(domains, held) // size * size
            held = in_slices
        return int(held.sum()) if level is None else int(_summed(self._domains[level], held).max())


def _summed(domains: Amounts, held: Amounts) -> Amounts:
    return np.bincount(domains, weights=held).astype(np.int64)


def _row(state: NodeState, evicting_below: int | None) -> Amounts:
    """What one node has left."""
    row = _left(room(state, priority=0)[0])
    for tenant in state.tenants:
        if evicting_below is not None and tenant.priority < evicting_below:
            row = row + _left(tenant.requests)
    return row


def _left(amounts: Mapping[str, int]) -> Amounts:
    return np.array([amounts.get(_GPU, 0), amounts.get(_CPU, 0), amounts.get(_MEMORY, 0) // _MEBIBYTE], dtype=np.int64)


def _path(labels: Mapping[str, str], depth: int) -> str:
    return "/".join(labels[level.label_keys[0]] for level in TOPOLOGY.levels[:depth])


def _numbered(names: list[str], wider: list[str]) -> Amounts:
    """The number of each node's domain: a domain is known by its whole path."""
    return np.unique([f"{path}/{name}" for path, name in zip(wider, names, strict=True)], return_inverse=True)[1]
