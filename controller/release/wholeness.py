"""Whether a gang has been whole since it was begun, as the condition Whole of its Gang object says. Pure.

A gang that has been whole and loses members is mended. One that never was, because its controller died between two
patches of its release, say, is to be made whole, or to be withdrawn (`controller.acting.withdrawing`,
docs/decisions/0015).
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from gangs.model import Gang

Status = Mapping[str, Any]

WHOLE = "Whole"
WITHDRAWN = "Withdrawn"


class Wholeness(TypedDict):
    """What the condition says."""

    holds: bool
    reason: str
    message: str


def ever_whole(status: Status) -> bool | None:
    """Whether it has been whole since it was begun; None where that was never said."""
    condition = _told(status)
    return condition.get("status") == "True" if condition else None


def wholeness(gang: Gang, before: Status, withdrawn: str) -> Wholeness:
    """What is to be said of it now. `withdrawn`: why those that had started were evicted, where they were."""
    bound = [member for member in gang.members if member.pod.bound]
    if gang.suffice(bound) or (bound and ever_whole(before)):
        return Wholeness(holds=True, reason="HasRun", message="as many as must run together have run")
    if withdrawn:
        return Wholeness(holds=False, reason=WITHDRAWN, message=withdrawn)
    return Wholeness(holds=False, reason="NotYet", message="as many as must run together have never run")


def still_withdrawn(status: Status, *, released: bool) -> str:
    """Why it was withdrawn; "" where it was not, or has been let go again since."""
    condition = _told(status)
    return str(condition.get("message", "")) if condition.get("reason") == WITHDRAWN and not released else ""


def _told(status: Status) -> Mapping[str, Any]:
    return next((each for each in status.get("conditions") or () if each.get("type") == WHOLE), {})
