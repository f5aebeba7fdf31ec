"""ClusterQueues whose gangs are planned strictly in order, even if a later gang would fit (Kueue's StrictFIFO)."""

from collections.abc import Iterable, Iterator

from gangs.held_nodes import held_node
from gangs.model import Gang, GangKey
from planning.decision import Decision, Outcome
from planning.message import Message
from planning.messages.wording import gangs


def strict_queue(gang: Gang) -> str:
    """Return the name of the gang's ClusterQueue if the gang must wait in its strict order; "" otherwise.

    A gang with a bound or released member does not wait: its lost members are replanned before other waiting gangs.
    """
    account = gang.account
    if account is None or not account.queue.strict or any(held_node(member.pod) for member in gang.members):
        return ""
    return account.queue.name


def behind_others(in_line: Iterable[Gang]) -> Iterator[tuple[Gang, GangKey]]:
    """Yield each gang that is not at the head of its strict queue, with the gang at the head.

    `in_line`: gangs that could be planned, in planning order. Gangs without a strict queue are ignored.
    """
    first = dict[str, GangKey]()
    for gang in in_line:
        queue = strict_queue(gang)
        if queue and (ahead := first.setdefault(queue, gang.key)) != gang.key:
            yield gang, ahead


def waits_behind(gang: Gang, ahead: GangKey) -> Decision:
    """Return the decision for a gang that waits behind the gang `ahead` of its strict queue."""
    rest = f", which is before it in ClusterQueue {strict_queue(gang)} (StrictFIFO)"
    return Decision(gang, gang.key, Outcome.WAITING, Message.of("waits for ", gangs([ahead]), rest))
