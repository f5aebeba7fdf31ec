"""Queues of all dialects, for gangs of Gang objects: whose a queue is, and what its name comes to.

A Gang names a queue of whichever system has queues in the cluster; the dialect of Gang objects knows none of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gangs.coexistence.ownership import OWN, Neighbour, left_to
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
    """What queues come to among these sources. Looked up once for all gangs of a queue (`gangs.sources.Queues`)."""

    sources: Sources
    _known: dict[tuple[str, str], Charged] = field(default_factory=dict)

    def charged(self, namespace: str, queue: str, pods: Iterable[Pod]) -> Charged:
        """What the name comes to; one of a system that runs here is waited for, unless some of the `pods` run already.

        A gang that has started is ours to its end, and so is what it is charged to (docs/decisions/0005).
        """
        found = self._known.get((namespace, queue))
        if found is None:
            found = self._known[namespace, queue] = self._look_up(namespace, queue)
        neighbour = self._left.get(found.dialect)
        if neighbour is None or any(held_node(pod) for pod in pods):
            return found
        return replace(found, waiting_for=(_left_to(neighbour, namespace, queue),))

    def named_on(self, pod: Pod) -> QueueNamed | None:
        """The queue that a pod names itself; where its system runs, that counts there and not here."""
        named = (each.queue_named(pod) for each in self._ours)
        return next((each for each in named if each is not None), None)

    def _look_up(self, namespace: str, queue: str) -> Charged:
        for dialect in _CHARGING:
            if (found := dialect.charged(namespace, queue, self.sources)) != Charged():
                return replace(found, dialect=dialect.name)
        return Charged()

    @cached_property
    def _left(self) -> Mapping[str, Neighbour]:
        return left_to(self.sources)

    @cached_property
    def _ours(self) -> Sequence[Charging]:
        """Those whose queues are counted here: worked out once, since every pod of every gang is asked about."""
        return [each for each in _CHARGING if each.name not in self._left]


def _left_to(neighbour: Neighbour, namespace: str, queue: str) -> str:
    """What a gang waits for whose queue is counted by the system that runs here."""
    return (
        f"queue {namespace}/{queue} to be counted by Phalanx: it is left to {neighbour}, which counts no Gang; leave "
        f"spec.queue out, or annotate {OWN} with {keys.ADOPT}: {neighbour.system}"
    )
