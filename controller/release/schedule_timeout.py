"""The schedule timeout of a gang, `scheduleTimeoutSeconds`: it counts from the time at which the gang was complete."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from gangs.model import Gang

Status = Mapping[str, Any]


def expired(gang: Gang, status: Status, now: datetime) -> bool:
    """Return whether the gang has been complete, and not released, for longer than its `scheduleTimeoutSeconds`.

    False for a gang without a schedule timeout.

    :param status: the status of the Gang object. Its condition Complete says since when the gang is complete.
    """
    if gang.schedule_timeout_seconds is None:
        return False
    complete = _condition(status, "Complete")
    if _condition(status, "Released").get("status") == "True":
        return False
    since = _time(complete.get("lastTransitionTime")) if complete.get("status") == "True" else None
    return since is not None and (now - since).total_seconds() > gang.schedule_timeout_seconds


def timed_out(status: Status) -> bool | None:
    """Return True if the condition TimedOut in a Gang's status is True; None otherwise."""
    return {"True": True, "False": None}.get(_condition(status, "TimedOut").get("status", ""))


def _time(text: Any) -> datetime | None:
    """Parse an RFC 3339 time; None for any other value, because other clients may write a status, too."""
    with suppress(TypeError, ValueError):
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is not None else None
    return None


def _condition(status: Status, name: str) -> Mapping[str, Any]:
    return next((each for each in status.get("conditions") or () if each.get("type") == name), {})
