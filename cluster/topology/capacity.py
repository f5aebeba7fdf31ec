"""Figures of the cluster's capacity: sums by state, and per level the largest start and the fragmentation.

The largest start of a level is the most pods of one size that could start together in one of its domains now. A
computation reads the pods of changed nodes only, and adds up numpy columns over all nodes. With 15,246 nodes and 60,000
pods the first computation takes 0.85 s of one slow core, each further one 0.06 s.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from cluster.topology.domain_room import free_and_terminating_on, room_on
from cluster.topology.tree import Path, domains
from kube.topology import Topology

CPU = "cpu"
MOST_ACCELERATORS = 4
"""The most extended resources with figures. The ones with the largest allocatable sum are chosen."""
MOST_TOPOLOGIES = 8
"""The most topologies with figures of their levels. The bound limits the number of metric series."""
LARGEST_SIZE = 4096
"""The most pieces of a resource on one node for which the largest start is computed.

A resource with more pieces on a node, such as bytes of a device's memory, is not requested one piece at a time.
"""
WHOLE = "cluster"
"""The name of the level above all levels of a topology. It has one domain: all nodes of the topology."""
STATES = ("free", "used", "reserved", "terminating", "closed")
"""The states of capacity. `reserved`: for planned pods that are not bound. `terminating`: of terminating pods.
`closed`: not used, but on a node that takes no pods, such as a cordoned one."""


@dataclass(frozen=True, slots=True)
class Startable:
    """The most pods of one size that could start together in one domain of a level now.

    `size`: what each pod requests of the resource, in base units. `path`: the domain that holds the pods; empty for the
    whole topology, and if no domain holds a pod.
    """

    topology: str
    level: str
    resource: str
    size: int
    pods: int
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """The part of the free capacity that lies in partly used domains of a level. `ratio`: 0 to 1; 0 if none is free."""

    topology: str
    level: str
    resource: str
    ratio: float


@dataclass(frozen=True, slots=True)
class CapacityFigures:
    """The figures of a snapshot. Amounts of `cpu` are millicores, other amounts are pieces.

    `by_state`: by resource, the amount in each of `STATES`. `used_by`: by namespace and resource, the requests of bound
    pods that do not terminate.
    """

    by_state: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    used_by: Mapping[tuple[str, str], int] = field(default_factory=dict)
    startable: Sequence[Startable] = ()
    fragmentation: Sequence[Fragmentation] = ()


_Shape = tuple[tuple[str, tuple[int, ...]], ...]
"""The resources with figures, each with its sizes of pods in base units: (("nvidia.com/gpu", (1, 2, 4, 8)),)."""
_FREE, _OPEN, _COUNTS = 0, len(STATES), len(STATES) + 1
"""Positions among the columns of one resource.

The columns are one for each of `STATES`, the allocatable amount if the node is open, and for each size the number of
pods that fit.
"""


class CapacityReader:
    """Computes the figures of one snapshot after another. Not safe to share between threads.

    The figures of a node are a row of a matrix. The row is computed again when the node has a new `NodeState`.
    """

    def __init__(self) -> None:
        self._shape: _Shape = ()
        self._states: tuple[NodeState, ...] = ()
        self._rows = np.zeros((0, 0), dtype=np.int64)
        self._used_by: Counter[tuple[str, str]] = Counter()

    def read(self, snapshot: Snapshot, topologies: Sequence[Topology]) -> CapacityFigures:
        """Return the figures of a snapshot.

        :param topologies: the first `MOST_TOPOLOGIES` of them with levels have figures by level.
        """
        self._take(snapshot.nodes)
        total = self._rows.sum(axis=0) if len(self._rows) else np.zeros(_width(self._shape), dtype=np.int64)
        by_state = {
            name: {state: int(total[first + at]) for at, state in enumerate(STATES)}
            for name, first, _ in _columns(self._shape)
        }
        with_levels = [each for each in topologies if each.levels][:MOST_TOPOLOGIES]
        levels = [each for known in with_levels for each in self._levels(snapshot, known)]
        return CapacityFigures(
            by_state,
            dict(self._used_by),
            [each for each in levels if isinstance(each, Startable)],
            [each for each in levels if isinstance(each, Fragmentation)],
        )

    def _take(self, states: tuple[NodeState, ...]) -> None:
        """Compute the figures and the requests of bound pods again, for the nodes whose state has changed. If nodes
        were added or removed, or allocatable amounts changed, compute them for all nodes.
        """
        before = self._states
        same = len(before) == len(states) and all(one.name == new.name for one, new in zip(before, states, strict=True))
        changed = [at for at, (one, new) in enumerate(zip(before, states, strict=False)) if one is not new]
        if not same or any(before[at].allocatable != states[at].allocatable for at in changed):
            self._shape = _shape_of(states)
            self._rows = np.zeros((len(states), _width(self._shape)), dtype=np.int64)
            self._used_by.clear()
            before, changed = (), list(range(len(states)))
        for at in changed:
            self._rows[at] = _row(states[at], self._shape)
            if before:
                self._used_by.subtract(_used_by(before[at], self._shape))
            self._used_by.update(_used_by(states[at], self._shape))
        if changed:
            self._used_by = +self._used_by
        self._states = states

    def _levels(self, snapshot: Snapshot, topology: Topology) -> Iterator[Startable | Fragmentation]:
        """Yield the figures of the whole topology and of each of its levels."""
        tree = domains(topology, snapshot.node_objects)
        positions = [snapshot.positions[name] for name in tree.path_of]
        rows, paths = self._rows[positions], list(tree.path_of.values())
        names = [WHOLE, *(level.name for level in topology.levels)]
        for depth, level in enumerate(names):
            if depth == len(names) - 1:
                here, sums = [(*path, name) for name, path in tree.path_of.items()], rows
            else:
                here = list(dict.fromkeys(path[:depth] for path in paths))
                order = {path: at for at, path in enumerate(here)}
                sums = np.zeros((len(order), rows.shape[1]), dtype=np.int64)
                np.add.at(sums, [order[path[:depth]] for path in paths], rows)
            for resource, first, sizes in _columns(self._shape):
                free, whole = sums[:, first + _FREE], sums[:, first + _OPEN]
                scattered, all_free = int(free[free < whole].sum()), int(free.sum())
                ratio = scattered / all_free if all_free else 0.0
                yield Fragmentation(topology.full_name, level, resource, ratio)
                for at, size in enumerate(sizes):
                    counts = sums[:, first + _COUNTS + at]
                    best = int(counts.argmax()) if len(counts) else 0
                    pods = int(counts[best]) if len(counts) else 0
                    yield Startable(topology.full_name, level, resource, size, pods, here[best] if pods else ())


def _columns(shape: _Shape) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield, for each resource, its name, its first column in a node's row of figures, and its sizes of pods."""
    first = 0
    for name, sizes in shape:
        yield name, first, sizes
        first += _COUNTS + len(sizes)


def _width(shape: _Shape) -> int:
    """Return the number of columns that a node's row of figures has."""
    return sum(_COUNTS + len(sizes) for _, sizes in shape)


def _shape_of(states: Iterable[NodeState]) -> _Shape:
    """Return the resources for which capacity figures are computed: cpu, and the extended resources with the largest
    allocatable sums.

    Each resource has the sizes of pods for which the largest start is computed. cpu has such sizes only if the cluster
    has no extended resource.
    """
    total: defaultdict[str, int] = defaultdict(int)
    largest: defaultdict[str, int] = defaultdict(int)
    for state in states:
        for name, amount in state.allocatable.items():
            if name == CPU or _is_accelerator(name):
                total[name] += amount
                largest[name] = max(largest[name], amount)
    extended = sorted((name for name in total if name != CPU and total[name]), key=lambda name: (-total[name], name))
    chosen = extended[:MOST_ACCELERATORS]
    shape = [(name, _sizes(largest[name], 1)) for name in sorted(chosen)]
    return (*([(CPU, () if chosen else _sizes(largest[CPU], 1000))] if total[CPU] else []), *shape)


def _is_accelerator(resource: str) -> bool:
    """Whether the name has the domain of a vendor, as extended resources have. Hugepages have no domain."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _sizes(largest: int, unit: int) -> tuple[int, ...]:
    """Return the sizes of pods in base units: powers of two below the largest node's amount, and this amount.

    () if no node has a whole piece, or if a node has more than `LARGEST_SIZE`.

    :param unit: base units of one piece: 1000 for cpu, else 1.
    """
    whole = largest // unit
    if not 1 <= whole <= LARGEST_SIZE:
        return ()
    sizes = [1 << power for power in range(whole.bit_length()) if 1 << power < whole]
    return tuple(size * unit for size in (*sizes, whole))


def _row(state: NodeState, shape: _Shape) -> list[int]:
    """Return one node's row of figures. For each resource it has the amount in each state, such as free or reserved,
    and the number of pods of each size that fit.

    The states are computed as on the live page (`page/src/figures.ts`).
    """
    free, leaving = free_and_terminating_on(state)
    held = room_on(state).held if state.reserving else {}
    row: list[int] = []
    for name, sizes in shape:
        whole = state.allocatable.get(name, 0)
        left, gone, kept = free.get(name, 0), leaving.get(name, 0), held.get(name, 0)
        usable = max(0, left - gone)
        used, reserved = max(0, whole - left - kept), max(0, kept - max(0, gone - left))
        usable, closed = (usable, 0) if state.open else (0, usable)
        row += [usable, used, reserved, gone, closed, whole if state.open else 0]
        row += [usable // size for size in sizes]
    return row


def _used_by(state: NodeState, shape: _Shape) -> Counter[tuple[str, str]]:
    """Return the requests of the bound pods on a node that do not terminate, by namespace and resource."""
    used: Counter[tuple[str, str]] = Counter()
    for tenant in state.tenants:
        if not tenant.reserved and not tenant.pod.terminating:
            for name, _ in shape:
                if amount := tenant.requests.get(name, 0):
                    used[tenant.pod.metadata.namespace, name] += amount
    return used
