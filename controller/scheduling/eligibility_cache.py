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
"""The most checks of a pod on a node in one snapshot, some 30 ms. Beyond them a pod is assumed to fit every node."""
_UNKNOWN, _YES, _NO = 0, 1, 2
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class EligibilityClass:
    """Pods with equal node selector, required node affinity and tolerations, represented by one of them."""

    key: bytes
    pod: Pod = field(compare=False)


def eligibility_classes_of(pods: Iterable[Pod]) -> tuple[EligibilityClass, ...]:
    """Return the different eligibility classes of these pods, each once, from the specs as their users wrote them."""
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
    """A cache of the nodes that each eligibility class allows. A changed node loses its results."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._results: dict[EligibilityClass, NDArray[np.int8]] = {}
        """The cached results of each eligibility class, by position of the node."""
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
        """Return the positions from `nodes` of the nodes that at least one of the classes allows."""
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
