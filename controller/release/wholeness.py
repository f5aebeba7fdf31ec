"""Whether a gang has been whole: its minimum of members has run together, and one of these members still runs. Pure.

A gang that has been whole and loses members is repaired, or restarted if it asks for that (docs/decisions/0030). A gang
that has never been whole, for example because its controller died between two patches of its release, becomes whole or
is withdrawn (`controller.acting.withdrawing`, docs/decisions/0015).

The pods decide: the annotation `phalanx.dev/whole` on up to `MARKED` of the members that run, and the annotation
`phalanx.dev/release-begun` on every member that was released. The condition Whole of the Gang object shows the answer.
It counts as a witness only while it is True: a status that was wiped or restored evicts nothing and protects nothing
that the pods do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict

from gangs.model import RESTART, Gang, Member
from kube.keys import GATE, RELEASE_BEGUN, WHOLE_MARK
from kube.scheduling import released
from kube.scheduling_groups import group_of

Status = Mapping[str, Any]

WHOLE = "Whole"
"""The condition of the Gang object."""

MARKED = 2
"""Members that carry the mark, on different nodes if possible.

One lost node then leaves a mark, and the next reconcile marks another member. Each mark costs a request. A mark on
every member would add one request to the two (nomination and release) that a member costs otherwise.
"""


class WithdrawalReason(Enum):
    """Why members that had started are evicted. The values are reasons of the condition Whole."""

    WITHDRAWN = "Withdrawn"
    RESTARTED = "Restarted"


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The eviction of members that had started.

    `message`: one line for a person, which the condition Whole keeps. `refusal`: the API server's message about a
    refused eviction; "" if no eviction was refused. `restarts`: the number of restarts with this one; 0 if no restart
    begins.
    """

    reason: WithdrawalReason
    message: str
    refusal: str = ""
    restarts: int = field(default=0, compare=False)

    @property
    def in_full(self) -> str:
        """The message, with the refusal."""
        return f"{self.message}; an eviction was refused: {self.refusal}" if self.refusal else self.message


class Wholeness(TypedDict):
    """The fields of the condition Whole."""

    holds: bool
    reason: str
    message: str


def was_whole(gang: Gang, status: Status) -> bool:
    """Return whether the gang is whole, or has been while one of its members that still run did.

    :param status: the status of its Gang object.
    """
    bound = bound_members(gang)
    return bool(bound) and (gang.suffice(bound) or any(map(_mark, bound)) or bool(status_says_whole(status)))


def bound_when_whole(gang: Gang, status: Status) -> int:
    """Return how many members ran when the gang was last seen whole; 0 if that is not known."""
    counts = [int(mark) for mark in map(_mark, gang.members) if mark.isdecimal()]
    return max(counts, default=int(status.get("boundWhenWhole") or 0))


def release_is_marked(members: Iterable[Member]) -> bool:
    """Return whether each member carries the note that versions with marks write at a release."""
    return all(RELEASE_BEGUN in member.pod.metadata.annotations for member in members)


def release_begun(members: Iterable[Member]) -> str:
    """Return when the release of members that have started began (RFC 3339); "" if one of them was not released."""
    started = list(members)
    times = [released(member.pod) for member in started]
    noted = [note for member in started if (note := member.pod.metadata.annotations.get(RELEASE_BEGUN))]
    return min([*noted, *times]) if times and all(times) else ""


def to_mark(gang: Gang, status: Status) -> Sequence[Member]:
    """Return the members on which the mark is missing or outdated.

    Gangs that an older version released get no marks: their status alone says whether they were whole.
    """
    bound = bound_members(gang)
    if not bound or not release_is_marked(bound) or not was_whole(gang, status):
        return ()
    marked = [member for member in bound if _mark(member)]
    # Only a restart asks how many ran (docs/decisions/0030).
    counts = gang.on_failure == RESTART and gang.suffice(bound)
    outdated = [member for member in marked if counts and _mark(member) != str(len(bound))]
    nodes = {member.pod.spec.node_name for member in marked}
    others = sorted((m for m in bound if not _mark(m)), key=lambda m: m.pod.spec.node_name in nodes)
    first: dict[str, Member] = {}
    for member in others:
        first.setdefault(member.pod.spec.node_name, member)
    spread = [*first.values(), *(member for member in others if first[member.pod.spec.node_name] is not member)]
    return [*outdated, *spread[: max(0, MARKED - len(marked))]]


def mark_of(gang: Gang, status: Status) -> str:
    """Return the text of the mark: how many members run, or ran when the gang was last seen whole."""
    bound = bound_members(gang)
    return str(len(bound) if gang.suffice(bound) else bound_when_whole(gang, status))


def status_says_whole(status: Status) -> bool | None:
    """Return what the condition Whole says; None if there is no such condition."""
    condition = _condition_of(status)
    return condition.get("status") == "True" if condition else None


def wholeness(gang: Gang, before: Status, withdrawal: Withdrawal | None) -> Wholeness:
    """Return what the condition Whole says now.

    :param withdrawal: why members that had started are evicted; None if they are not.
    """
    has_run = Wholeness(holds=True, reason="HasRun", message="as many as must run together have run")
    if gang.suffice(bound_members(gang)):
        return has_run
    if withdrawal is not None:
        return Wholeness(holds=False, reason=withdrawal.reason.value, message=withdrawal.message)
    if was_whole(gang, before):
        return has_run
    return Wholeness(holds=False, reason="NotYet", message="as many as must run together have never run")


def still_withdrawn(status: Status, *, released: bool) -> Withdrawal | None:
    """Return why the gang was withdrawn; None if it was not, or has been released again since."""
    condition = _condition_of(status)
    reasons = {each.value: each for each in WithdrawalReason}
    reason = reasons.get(condition.get("reason", ""))
    return Withdrawal(reason, str(condition.get("message", ""))) if reason is not None and not released else None


def started_members(gang: Gang) -> list[Member]:
    """Return the bound members. If there are none, return the released members that wait for a group of theirs.

    Such members are pinned to their nodes, so the gang cannot be planned elsewhere unless they are evicted.
    """
    waiting = (member for member in gang.members if group_of(member.pod) and not member.pod.gated_by(GATE))
    return bound_members(gang) or list(waiting)


def bound_members(gang: Gang) -> list[Member]:
    """Return the bound members."""
    return [member for member in gang.members if member.pod.bound]


def _mark(member: Member) -> str:
    """Return the mark of a member that runs, "" if it has none."""
    return member.pod.metadata.annotations.get(WHOLE_MARK, "") if member.pod.bound else ""


def _condition_of(status: Status) -> Mapping[str, Any]:
    return next((each for each in status.get("conditions") or () if each.get("type") == WHOLE), {})
