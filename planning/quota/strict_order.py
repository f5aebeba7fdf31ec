"""Queues whose gangs go strictly one after the other, whether or not a later one would fit (Kueue's StrictFIFO)."""

from collections.abc import Iterable, Iterator

from gangs.held_nodes import held_node
from gangs.model import Gang, GangKey
from planning.decision import Decision, Outcome


def strict_queue(gang: Gang) -> str:
    """The ClusterQueue in whose order the gang has to wait, "" for none.

    A gang of which a member runs or has been let go has had its turn: it is mended whoever else waits.
    """
    account = gang.account
    if account is None or not account.queue.strict or any(held_node(member.pod) for member in gang.members):
        return ""
    return account.queue.name


def behind_others(in_line: Iterable[Gang]) -> Iterator[tuple[Gang, GangKey]]:
    """Each gang of a strict queue that is not the first there, with the one that is.

    `in_line`: gangs that could be planned, in the order of their turns; those of other queues are passed over.
    """
    first = dict[str, GangKey]()
    for gang in in_line:
        queue = strict_queue(gang)
        if queue and (ahead := first.setdefault(queue, gang.key)) != gang.key:
            yield gang, ahead


def waits_behind(gang: Gang, ahead: GangKey) -> Decision:
    """The decision for a gang that another one of its queue goes before."""
    message = f"waits for gang {ahead}, which is before it in ClusterQueue {strict_queue(gang)} (StrictFIFO)"
    naming = ((f"gang {ahead}", "another gang"),)
    return Decision(gang, gang.key, Outcome.WAITING, message, naming=naming)
