"""Which nodes pods may go to by what they and the nodes say, room aside; the same is asked all the time."""

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
"""Of so many it is remembered where they may go; of those that were asked about last."""
MOST_LOOKS = 20_000
"""So often it is looked at a node in one picture of the cluster, some 30 ms. Beyond that a pod may go everywhere."""
_UNKNOWN, _YES, _NO = 0, 1, 2
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Chooser:
    """Pods that choose nodes alike, by one of them."""

    key: bytes
    pod: Pod = field(compare=False)


def choosers_of(pods: Iterable[Pod]) -> tuple[Chooser, ...]:
    """All ways in which these pods choose, each once, as their users wrote them."""
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
    """What was found out, for as long as the nodes stay what they are."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._answers: dict[Chooser, NDArray[np.int8]] = {}
        """By position of the node."""
        self._left = 0
        """How often a node may be looked at for this picture of the cluster."""
        self.looks = 0
        """How often one was in all."""

    def look(self, snapshot: Snapshot) -> None:
        """From now on it is about this picture of the cluster."""
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
        """Those of the nodes, by position, where one of them may go."""
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
