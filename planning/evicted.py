"""Gangs without the members that plans before theirs evict: these run still, and no plan may count on them."""

from dataclasses import replace

from cluster.snapshot import Snapshot
from gangs.model import Gang
from planning.decision import Decision
from planning.wording import compressed

ANOTHER = "another gang"
"""Who evicts, where that is not known or not to be named."""


def evicted_for(snapshot: Snapshot) -> dict[str, str]:
    """By pod (`namespace/name`), for whom plans evict it: those made on this picture, and those in force."""
    return {**dict.fromkeys(snapshot.leaving, ANOTHER), **snapshot.evicted_for}


def staying(gang: Gang, snapshot: Snapshot) -> Gang:
    """The gang with the members that nobody evicts."""
    going = evicted_for(snapshot)
    if not any(member.pod.key in going for member in gang.members):
        return gang
    return replace(gang, members=tuple(each for each in gang.members if each.pod.key not in going))


def with_evicted(decision: Decision, gang: Gang, snapshot: Snapshot) -> Decision:
    """The decision for who stays of the gang, saying who does not and for whom."""
    going = evicted_for(snapshot)
    lost: dict[str, list[str]] = {}
    for member in gang.members:
        if member.pod.key in going:
            lost.setdefault(going[member.pod.key], []).append(member.pod.metadata.name)
    if not lost:
        return decision
    parts = [f"{compressed(names)} {_is(len(names))} evicted for {whom}" for whom, names in sorted(lost.items())]
    naming = tuple((f"evicted for {whom}", f"evicted for {ANOTHER}") for whom in lost if whom != ANOTHER)
    message = "; ".join((decision.message, *parts))
    return replace(decision, message=message, naming=(*decision.naming, *naming))


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
