"""A cache of which nodes pods may use by selectors, affinity, tolerations and taints, regardless of capacity."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from cluster.eligibility.nodes import node_takes
from cluster.snapshot import Snapshot
from kube.objects import Node, Pod
from planning.framing.ties import as_written

Integers = NDArray[np.int64]
MOST_CLASSES = 64
"""The most eligibility classes whose results are cached. The one used longest ago is dropped first."""
MOST_CHECKS = 20_000
"""The most checks whether a pod may use a node, in one snapshot: some 30 ms. Unchecked nodes count as allowed."""
_UNKNOWN, _YES, _NO = 0, 1, 2
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class EligibilityClass:
    """Pods with equal node selector, required node affinity and tolerations, represented by one of them."""

    key: bytes
    pod: Pod = field(compare=False)


def eligibility_classes_of(pods: Iterable[Pod]) -> tuple[EligibilityClass, ...]:
    """Return the different eligibility classes of these pods, each once.

    They are derived from the specs as users wrote them, without the pins that Phalanx has added.
    """
    found: dict[bytes, EligibilityClass] = {}
    for pod in map(as_written, pods):
        spec, affinity = pod.spec, pod.spec.affinity
        required = (
            affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
        )
        key = _encode((spec.node_selector, required, spec.tolerations))
        found.setdefault(key, EligibilityClass(key, pod))
    return tuple(found.values())


class EligibilityCache:
    """A cache of which nodes each eligibility class allows. The results of a changed node are dropped."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._results: dict[EligibilityClass, NDArray[np.int8]] = {}
        """By eligibility class: `_YES`, `_NO` or `_UNKNOWN` for each node, by its position in the snapshot."""
        self._left = 0
        """The number of checks that are left for this snapshot."""
        self.checks = 0
        """The number of checks so far, in all snapshots."""

    def update(self, snapshot: Snapshot) -> None:
        """Switch to this snapshot and drop the cached results of nodes that have changed."""
        self._left = MOST_CHECKS
        nodes = snapshot.node_objects
        if len(nodes) != len(self._nodes):
            self._results.clear()
        elif self._results:
            changed = [at for at, (new, old) in enumerate(zip(nodes, self._nodes, strict=True)) if new is not old]
            for results in self._results.values():
                results[changed] = _UNKNOWN
        self._nodes = nodes

    def allowed_nodes(self, classes: Sequence[EligibilityClass], nodes: Integers) -> Integers:
        """Return the nodes that at least one of the classes allows. Nodes are given and returned as positions.

        A node that could not be checked within `MOST_CHECKS` counts as allowed.
        """
        allowed = np.zeros(len(nodes), dtype=bool)
        for eligibility_class in classes:
            left = ~allowed
            allowed[left] = self._allows(eligibility_class, nodes[left])
        return nodes[allowed]

    def _allows(self, eligibility_class: EligibilityClass, nodes: Integers) -> NDArray[np.bool_]:
        results = self._results.pop(eligibility_class, None)
        if results is None:
            results = np.full(len(self._nodes), _UNKNOWN, dtype=np.int8)
            if len(self._results) >= MOST_CLASSES:
                del self._results[next(iter(self._results))]
        self._results[eligibility_class] = results
        unknown = nodes[results[nodes] == _UNKNOWN][: self._left]
        self._left -= len(unknown)
        self.checks += len(unknown)
        for at in unknown:
            results[at] = _YES if node_takes(eligibility_class.pod, self._nodes[at]) else _NO
        return np.not_equal(results[nodes], _NO)
