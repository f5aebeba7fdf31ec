"""Gangs without the members that no plan may count on: those that plans before theirs evict run still, and those that
are bound to a node which is no more never will again.
"""

from dataclasses import replace

from cluster.snapshot import Snapshot
from gangs.model import Gang, Member
from planning.decision import Decision
from planning.messages.wording import compressed

ANOTHER = "another gang"
"""Who evicts, where that is not known or not to be named."""


def evicted_for(snapshot: Snapshot) -> dict[str, str]:
    """By pod (`namespace/name`), for whom plans evict it: those made on this picture, and those in force."""
    return {**dict.fromkeys(snapshot.leaving, ANOTHER), **snapshot.evicted_for}


def staying(gang: Gang, snapshot: Snapshot) -> Gang:
    """The gang with the members that nobody evicts and that have a node, if any."""
    going, lost = evicted_for(snapshot), {each.pod.key for each in _without_node(gang, snapshot)}
    if not lost and not any(member.pod.key in going for member in gang.members):
        return gang
    return replace(
        gang, members=tuple(each for each in gang.members if each.pod.key not in going and each.pod.key not in lost)
    )


def _without_node(gang: Gang, snapshot: Snapshot) -> list[Member]:
    """Members that are bound to nodes which do not exist."""
    bound = [member for member in gang.members if member.pod.bound]
    return [member for member in bound if member.pod.spec.node_name not in snapshot.names]


def with_evicted(decision: Decision, gang: Gang, snapshot: Snapshot) -> Decision:
    """The decision for who stays of the gang, saying who does not and for whom."""
    going = evicted_for(snapshot)
    lost: dict[str, list[str]] = {}
    for member in gang.members:
        if member.pod.key in going:
            lost.setdefault(going[member.pod.key], []).append(member.pod.metadata.name)
    parts = [
        f"{each.pod.metadata.name} is bound to node {each.pod.spec.node_name}, which does not exist"
        for each in _without_node(gang, snapshot)
    ]
    if not lost and not parts:
        return decision
    parts += [f"{compressed(names)} {_is(len(names))} evicted for {whom}" for whom, names in sorted(lost.items())]
    naming = tuple((f"evicted for {whom}", f"evicted for {ANOTHER}") for whom in lost if whom != ANOTHER)
    message = "; ".join((decision.message, *parts))
    return replace(decision, message=message, naming=(*decision.naming, *naming))


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
