"""The free capacity of a benchmark's cluster, counted by simple means. The count suffices to draw gangs that fit, and
gangs that do not.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.arrivals import Ask
from benchmarks.network import TOPOLOGY
from cluster.node_state import NodeState, room
from cluster.snapshot import Snapshot

Amounts = NDArray[np.int64]

Slices = tuple[tuple[str, int], ...]
"""The levels and sizes of slices, as pairs, the narrowest level first."""

_GPU, _CPU, _MEMORY = "nvidia.com/gpu", "cpu", "memory"
_MEBIBYTE = 1 << 20


class Room:
    """The free GPUs, millicores and MiB of every node, and the domains of the node."""

    def __init__(self, snapshot: Snapshot, evicting_below: int | None = None) -> None:
        """Count the free capacity of a snapshot.

        `evicting_below`: the capacity of pods below this priority counts as free; None: of no pods.
        """
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
        """Return how many pods with these requests the best domain of `level` holds; `level` None: the cluster.

        `slices`: only complete slices of this size in a domain of this level count.
        """
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
    """Return the free GPUs, millicores and MiB of one node.

    The requests of pods below the priority `evicting_below` count as free; None: of no pods.
    """
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
    """Return the number of each node's domain, given by node the domain's name (`names`) and the path above it
    (`wider`).

    A domain is identified by its whole path, not by its name alone.
    """
    return np.unique([f"{path}/{name}" for path, name in zip(wider, names, strict=True)], return_inverse=True)[1]
