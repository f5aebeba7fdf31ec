"""Queues of all dialects, for gangs of Gang objects: the system of a queue, and what the gang is charged to.

A Gang may name a queue of any system that has queues in the cluster. The dialect of Gang objects knows no system's
queues.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gangs.coexistence.ownership import OWN, Neighbour, systems_ceded_to
from gangs.dialects.protocol import Charging
from gangs.dialects.table import DIALECTS
from gangs.held_nodes import held_node
from gangs.quota_model import Charged
from gangs.sources import QueueNamed, Sources
from kube import keys
from kube.objects import Pod

_CHARGING = tuple(each for each in DIALECTS if isinstance(each, Charging))


@dataclass(frozen=True)
class AllQueues:
    """The queues among these sources. Each queue is looked up once for all its gangs (`gangs.sources.Queues`)."""

    sources: Sources
    _known: dict[tuple[str, str], Charged] = field(default_factory=dict)

    def charged(self, namespace: str, queue: str, pods: Iterable[Pod]) -> Charged:
        """Return what a queue's name charges a gang to.

        If the queue is ceded to a system that runs here, the gang waits, unless some of its `pods` hold a node. A gang
        that has started stays with Phalanx to its end, and so does its charge (docs/decisions/0005).
        """
        found = self._known.get((namespace, queue))
        if found is None:
            found = self._known[namespace, queue] = self._look_up(namespace, queue)
        neighbour = self._left.get(found.dialect)
        if neighbour is None or any(held_node(pod) for pod in pods):
            return found
        return replace(found, waiting_for=(_left_to(neighbour, namespace, queue),))

    def named_on(self, pod: Pod) -> QueueNamed | None:
        """Return the queue that a pod names itself; None if it names none, or if the queue's system runs here.

        Such a system counts its queues itself.
        """
        named = (each.queue_named(pod) for each in self._ours)
        return next((each for each in named if each is not None), None)

    def _look_up(self, namespace: str, queue: str) -> Charged:
        for dialect in _CHARGING:
            if (found := dialect.charged(namespace, queue, self.sources)) != Charged():
                return replace(found, dialect=dialect.name)
        return Charged()

    @cached_property
    def _left(self) -> Mapping[str, Neighbour]:
        return systems_ceded_to(self.sources)

    @cached_property
    def _ours(self) -> Sequence[Charging]:
        """The dialects whose queues Phalanx counts, computed once because every pod of every gang needs them."""
        return [each for each in _CHARGING if each.name not in self._left]


def _left_to(neighbour: Neighbour, namespace: str, queue: str) -> str:
    """Return what a gang waits for if its queue is ceded to a system that runs in the cluster."""
    return (
        f"queue {namespace}/{queue} to be counted by Phalanx: it is left to {neighbour}, which counts no Gang; leave "
        f"spec.queue out, or annotate {OWN} with {keys.ADOPT}: {neighbour.system}"
    )
