"""Decides how a terminating pod counts: as gone, so that its capacity is free, or as running.

A terminating pod's `deletionTimestamp` is the end of its grace period (apimachinery, ObjectMeta). Until a finalizer is
removed, or while its node does not answer, the pod outlives that time.
"""

from datetime import datetime, timedelta
from enum import Enum

from cluster.times import instant
from kube.objects import Pod

SOON = timedelta(seconds=30)
"""A terminating pod counts as gone if its grace period ends within this time."""
OVERDUE = timedelta(seconds=30)
"""A terminating pod counts as running again this long after the end of its grace period."""


class Departure(Enum):
    """As what a terminating pod counts, depending on the end of its grace period."""

    SOON = "soon"
    """The pod's grace period ends within `SOON` or has just ended. The pod counts as gone, so its capacity is free."""
    LATER = "later"
    """The pod's grace period ends in more than `SOON`. The pod counts as running."""
    OVERDUE = "overdue"
    """The pod's grace period ended more than `OVERDUE` ago. The pod counts as running."""


def departure_of(pod: Pod, now: datetime) -> Departure | None:
    """Return how a terminating pod counts at the time `now`; None if the pod does not terminate."""
    if not pod.terminating:
        return None
    end = grace_end(pod)
    if end is None:
        return Departure.SOON
    if end - now > SOON:
        return Departure.LATER
    return Departure.OVERDUE if now - end > OVERDUE else Departure.SOON


def next_change(pod: Pod, now: datetime) -> datetime | None:
    """Return when the capacity of a terminating pod will next count as another `Departure` without a change of the pod;
    None if never.
    """
    end = grace_end(pod)
    if end is None:
        return None
    return next((time for time in (end - SOON, end + OVERDUE + _MOMENT) if time > now), None)


def grace_end(pod: Pod) -> datetime | None:
    """Return the end of a terminating pod's grace period; None if the pod has none, or if the text is no time."""
    return instant(pod.metadata.deletion_timestamp)


_MOMENT = timedelta(milliseconds=1)
"""Added to the end of the time `OVERDUE`, because a pod counts as overdue only after that time, not at it."""
