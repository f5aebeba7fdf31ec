"""Whether a gang has been whole: its minimum of members has run together, and one of these members still runs. Pure
functions.

A gang that has been whole and loses members is repaired, or restarted if it asks for that (docs/decisions/0030). A gang
that has never been whole, for example because its controller died between two patches of its release, becomes whole or
is withdrawn (`controller.acting.withdrawing`, docs/decisions/0015).

The evidence is on the pods. Up to `MARKED` of the members that run carry the annotation `phalanx.dev/whole`, called the
mark. Every member that was released carries the annotation `phalanx.dev/release-begun`. The condition Whole of the Gang
object shows the result. It counts as evidence only while it is True, because a status can be wiped or restored.
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
"""The type of the condition in the Gang's status that says whether the gang has been whole."""

MARKED = 2
"""The number of members that carry the mark `phalanx.dev/whole`, on different nodes if possible.

If one node is lost, a mark remains, and the next reconcile marks another member. Each mark costs a request. A mark on
every member would add one request to the two (nomination and release) that a member costs otherwise.
"""


class WithdrawalReason(Enum):
    """Why members that had started are evicted. The values are reasons of the condition Whole."""

    WITHDRAWN = "Withdrawn"
    RESTARTED = "Restarted"


@dataclass(frozen=True, slots=True)
class LeftDomain:
    """The domain that a restarted gang leaves.

    `path`: the narrowest domain with all nodes of the members that are evicted, as text; "" for the whole cluster.
    `closed`: the nodes of this domain that take no pods, each with the cause, such as `node-7 is cordoned`.
    """

    path: str
    closed: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Why and how the members of a gang that had started are evicted: the gang is withdrawn or restarted.

    `message`: one line for users, which the condition Whole keeps. `refusal`: the API server's message about a refused
    eviction; "" if none was refused. `restarts`: how often the gang has been restarted, this time included; 0 if no
    restart begins. `left`: the domain that a restarted gang leaves, and its closed nodes.
    """

    reason: WithdrawalReason
    message: str
    refusal: str = ""
    restarts: int = field(default=0, compare=False)
    left: "LeftDomain | None" = field(default=None, compare=False)

    @property
    def in_full(self) -> str:
        """The message about the withdrawal or restart, followed by the API server's message about a refused eviction if
        there is one.
        """
        return f"{self.message}; an eviction was refused: {self.refusal}" if self.refusal else self.message


class Wholeness(TypedDict):
    """The values of the condition Whole: `holds` is its status, True or False."""

    holds: bool
    reason: str
    message: str


def was_whole(gang: Gang, status: Status) -> bool:
    """Return whether the gang's minimum runs together now, or ran together with a member that still runs.

    False if no member runs. Evidence for the past is a mark on a running member, or the condition Whole.

    :param status: the status of the gang's Gang object.
    """
    bound = bound_members(gang)
    return bool(bound) and (gang.suffice(bound) or any(map(_mark, bound)) or bool(status_says_whole(status)))


def bound_when_whole(gang: Gang, status: Status) -> int:
    """Return how many members were bound when the gang was last seen whole; 0 if that is not known.

    :param status: the status of the gang's Gang object. It counts if no member carries a mark.
    """
    counts = [int(mark) for mark in map(_mark, gang.members) if mark.isdecimal()]
    return max(counts, default=int(status.get("boundWhenWhole") or 0))


def release_is_marked(members: Iterable[Member]) -> bool:
    """Return whether each of these members has the annotation `phalanx.dev/release-begun`.

    Older versions of Phalanx released members without it. They wrote no marks either, so a missing mark then proves
    nothing.
    """
    return all(RELEASE_BEGUN in member.pod.metadata.annotations for member in members)


def release_begun(members: Iterable[Member]) -> str:
    """Return when the release of the gang began (RFC 3339), as its started members record it: the bound members, or
    released members in a PodGroup.

    "" if no member has started, or if Phalanx did not release one of them.
    """
    started = list(members)
    times = [released(member.pod) for member in started]
    noted = [note for member in started if (note := member.pod.metadata.annotations.get(RELEASE_BEGUN))]
    return min([*noted, *times]) if times and all(times) else ""


def to_mark(gang: Gang, status: Status) -> Sequence[Member]:
    """Return the members on which the mark `phalanx.dev/whole` must be written, because it is missing or outdated.

    Empty for a gang that was never whole, and for a gang that an older version of Phalanx released.

    :param status: the status of the gang's Gang object.
    """
    bound = bound_members(gang)
    if not bound or not release_is_marked(bound) or not was_whole(gang, status):
        return ()
    marked = [member for member in bound if _mark(member)]
    # Only the check for a restart reads how many members ran (docs/decisions/0030).
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
    """Return the value of the mark `phalanx.dev/whole`: how many members were bound when the gang was last seen
    whole.
    """
    bound = bound_members(gang)
    return str(len(bound) if gang.suffice(bound) else bound_when_whole(gang, status))


def status_says_whole(status: Status) -> bool | None:
    """Return whether the condition Whole in a Gang's status is True; None if the status has no such condition."""
    condition = _condition_of(status)
    return condition.get("status") == "True" if condition else None


def wholeness(gang: Gang, before: Status, withdrawal: Withdrawal | None) -> Wholeness:
    """Return the wanted values of the condition Whole.

    :param before: the present status of the Gang object.
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
    """Return the last withdrawal or restart that a Gang's status reports; None if there was none.

    None as well if the gang has been released again since.

    :param released: whether the gang is released now.
    """
    condition = _condition_of(status)
    reasons = {each.value: each for each in WithdrawalReason}
    reason = reasons.get(condition.get("reason", ""))
    return Withdrawal(reason, str(condition.get("message", ""))) if reason is not None and not released else None


def started_members(gang: Gang) -> list[Member]:
    """Return the bound members. If no member is bound, return the released members that are in a PodGroup.

    Such released members wait until kube-scheduler binds their PodGroup, and are pinned to their nodes. So the gang can
    be planned elsewhere only if they are evicted.
    """
    waiting = (member for member in gang.members if group_of(member.pod) and not member.pod.gated_by(GATE))
    return bound_members(gang) or list(waiting)


def bound_members(gang: Gang) -> list[Member]:
    """Return the members of the gang that are bound to a node."""
    return [member for member in gang.members if member.pod.bound]


def _mark(member: Member) -> str:
    """Return the value of the mark `phalanx.dev/whole` on a bound member; "" if it has none or is not bound."""
    return member.pod.metadata.annotations.get(WHOLE_MARK, "") if member.pod.bound else ""


def _condition_of(status: Status) -> Mapping[str, Any]:
    return next((each for each in status.get("conditions") or () if each.get("type") == WHOLE), {})
