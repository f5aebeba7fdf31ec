"""The look-up of queues of all dialects, for Gang objects, which may name a queue of any system.

Phalanx's own dialect, which reads Gang objects, has no queues, and knows no other dialect.
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
    """The look-up of queues in the objects of `sources` (`gangs.sources.Queues`). It caches each queue."""

    sources: Sources
    _known: dict[tuple[str, str], Charged] = field(default_factory=dict)

    def charged(self, namespace: str, queue: str, pods: Iterable[Pod]) -> Charged:
        """Return the account whose quota a gang with these pods uses, by the name of a queue in its namespace.

        If the queue is ceded to a system that runs in the cluster, the gang waits. A gang of which a pod has a node
        does not wait, because a started gang stays with Phalanx until it ends (docs/decisions/0005).
        """
        found = self._known.get((namespace, queue))
        if found is None:
            found = self._known[namespace, queue] = self._look_up(namespace, queue)
        neighbour = self._left.get(found.dialect)
        if neighbour is None or any(held_node(pod) for pod in pods):
            return found
        return replace(found, waiting_for=(_left_to(neighbour, namespace, queue),))

    def named_on(self, pod: Pod) -> QueueNamed | None:
        """Return the queue that a pod itself names; None if it names none.

        Return None also if the queue's system runs in the cluster, because this system counts the quota itself.
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
        """The dialects with queues that are not ceded to another system. The result is cached, because every pod of a
        gang needs it.
        """
        return [each for each in _CHARGING if each.name not in self._left]


def _left_to(neighbour: Neighbour, namespace: str, queue: str) -> str:
    """Return the entry of `Gang.waiting_for` for a gang whose queue is ceded to a system that runs in the cluster."""
    return (
        f"queue {namespace}/{queue} to be counted by Phalanx: it is left to {neighbour}, which counts no Gang; leave "
        f"spec.queue out, or annotate {OWN} with {keys.ADOPT}: {neighbour.system}"
    )
