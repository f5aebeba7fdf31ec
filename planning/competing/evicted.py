"""Gangs without the members that no plan may count on: members that earlier plans evict, and members bound to a node
that no longer exists.
"""

from dataclasses import replace

from cluster.snapshot import Snapshot
from gangs.model import Gang, Member
from planning.decision import Decision
from planning.message import Message, Names, joined
from planning.messages.wording import compressed

ANOTHER = "another gang"
"""The text for the evicting gang if it is not known, or if the reader may not see its name."""


def evicted_for(snapshot: Snapshot) -> dict[str, str]:
    """Return, by victim (`namespace/name`), the gang for which the victim is evicted.

    The victims are those of plans on this snapshot and those of plans in force.
    """
    return {**dict.fromkeys(snapshot.leaving, ANOTHER), **snapshot.evicted_for}


def staying(gang: Gang, snapshot: Snapshot) -> Gang:
    """Return the gang without members that a plan evicts and without members bound to a node that does not exist."""
    going, lost = evicted_for(snapshot), {each.pod.key for each in _without_node(gang, snapshot)}
    if not lost and not any(member.pod.key in going for member in gang.members):
        return gang
    return replace(
        gang, members=tuple(each for each in gang.members if each.pod.key not in going and each.pod.key not in lost)
    )


def _without_node(gang: Gang, snapshot: Snapshot) -> list[Member]:
    """Return the members that are bound to a node that does not exist."""
    bound = [member for member in gang.members if member.pod.bound]
    return [member for member in bound if member.pod.spec.node_name not in snapshot.names]


def with_evicted(decision: Decision, gang: Gang, snapshot: Snapshot) -> Decision:
    """Return the decision with a message that also names the gang's evicted members, the gangs for which these are
    evicted, and the gang's lost members.
    """
    going = evicted_for(snapshot)
    lost: dict[str, list[str]] = {}
    for member in gang.members:
        if member.pod.key in going:
            lost.setdefault(going[member.pod.key], []).append(member.pod.metadata.name)
    parts: list[str | Message] = [
        f"{each.pod.metadata.name} is bound to node {each.pod.spec.node_name}, which does not exist"
        for each in _without_node(gang, snapshot)
    ]
    if not lost and not parts:
        return decision
    parts += [
        Message.of(f"{compressed(names)} {_is(len(names))} evicted for ", Names(whom, ANOTHER))
        for whom, names in sorted(lost.items())
    ]
    return replace(decision, line=joined("; ", (decision.line, *parts)))


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
