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
MOST_CHOOSERS = 64
"""The most choosers whose results are cached. The one used longest ago is dropped first."""
MOST_LOOKS = 20_000
"""The most checks of a pod on a node in one snapshot, some 30 ms. Beyond them a pod is assumed to fit every node."""
_UNKNOWN, _YES, _NO = 0, 1, 2
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Chooser:
    """Pods with equal node selector, required node affinity and tolerations, represented by one of them."""

    key: bytes
    pod: Pod = field(compare=False)


def choosers_of(pods: Iterable[Pod]) -> tuple[Chooser, ...]:
    """Return the different choosers of these pods, each once, from the specs as their users wrote them."""
    found: dict[bytes, Chooser] = {}
    for pod in map(as_written, pods):
        spec, affinity = pod.spec, pod.spec.affinity
        required = (
            affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
        )
        key = _encode((spec.node_selector, required, spec.tolerations))
        found.setdefault(key, Chooser(key, pod))
    return tuple(found.values())


class NodeChoice:
    """A cache of which nodes the choosers allow. The results of a node are dropped when the node changes."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._answers: dict[Chooser, NDArray[np.int8]] = {}
        """The cached results of each chooser, by position of the node."""
        self._left = 0
        """The number of checks that are left for this snapshot."""
        self.looks = 0
        """The number of checks so far, in all snapshots."""

    def look(self, snapshot: Snapshot) -> None:
        """Switch to this snapshot and drop the cached results of nodes that have changed."""
        self._left = MOST_LOOKS
        nodes = snapshot.node_objects
        if len(nodes) != len(self._nodes):
            self._answers.clear()
        elif self._answers:
            changed = [at for at, (new, old) in enumerate(zip(nodes, self._nodes, strict=True)) if new is not old]
            for answers in self._answers.values():
                answers[changed] = _UNKNOWN
        self._nodes = nodes

    def among(self, choosers: Sequence[Chooser], nodes: Integers) -> Integers:
        """Return the positions from `nodes` of the nodes that at least one of the choosers allows."""
        allowed = np.zeros(len(nodes), dtype=bool)
        for each in choosers:
            left = ~allowed
            allowed[left] = self._may_go(each, nodes[left])
        return nodes[allowed]

    def _may_go(self, chooser: Chooser, nodes: Integers) -> NDArray[np.bool_]:
        answers = self._answers.pop(chooser, None)
        if answers is None:
            answers = np.full(len(self._nodes), _UNKNOWN, dtype=np.int8)
            if len(self._answers) >= MOST_CHOOSERS:
                del self._answers[next(iter(self._answers))]
        self._answers[chooser] = answers
        unknown = nodes[answers[nodes] == _UNKNOWN][: self._left]
        self._left -= len(unknown)
        self.looks += len(unknown)
        for at in unknown:
            answers[at] = _YES if node_takes(chooser.pod, self._nodes[at]) else _NO
        return np.not_equal(answers[nodes], _NO)
