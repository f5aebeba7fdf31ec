"""Whether a gang has been whole since it was begun, as the condition Whole of its Gang object says. Pure.

A gang that has been whole and loses members is mended, or restarted where it asks for that (docs/decisions/0030). One
that never was, because its controller died between two patches of its release, say, is to be made whole, or to be
withdrawn (`controller.acting.withdrawing`, docs/decisions/0015).
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from gangs.model import Gang

Status = Mapping[str, Any]

WHOLE = "Whole"
WITHDRAWN = "Withdrawn"
RESTARTED = "Restarted"
AS_A_WHOLE = "restarted as a whole"
"""With this begins what is said of members that were evicted so that all of the gang can start anew."""


class Wholeness(TypedDict):
    """What the condition says."""

    holds: bool
    reason: str
    message: str


def ever_whole(status: Status) -> bool | None:
    """Whether it has been whole since it was begun; None where that was never said."""
    condition = _condition_of(status)
    return condition.get("status") == "True" if condition else None


def wholeness(gang: Gang, before: Status, withdrawn: str) -> Wholeness:
    """What is to be said of it now. `withdrawn`: why those that had started were evicted, where they were."""
    bound = [member for member in gang.members if member.pod.bound]
    has_run = Wholeness(holds=True, reason="HasRun", message="as many as must run together have run")
    if gang.suffice(bound):
        return has_run
    if withdrawn:
        return Wholeness(holds=False, reason=RESTARTED if is_restart(withdrawn) else WITHDRAWN, message=withdrawn)
    if bound and ever_whole(before):
        return has_run
    return Wholeness(holds=False, reason="NotYet", message="as many as must run together have never run")


def still_withdrawn(status: Status, *, released: bool) -> str:
    """Why it was withdrawn; "" where it was not, or has been let go again since."""
    condition = _condition_of(status)
    taken_back = condition.get("reason") in (WITHDRAWN, RESTARTED)
    return str(condition.get("message", "")) if taken_back and not released else ""


def is_restart(withdrawn: str) -> bool:
    """Whether members were evicted to restart their gang, by what is said of it."""
    return withdrawn.startswith(AS_A_WHOLE)


def _condition_of(status: Status) -> Mapping[str, Any]:
    return next((each for each in status.get("conditions") or () if each.get("type") == WHOLE), {})
