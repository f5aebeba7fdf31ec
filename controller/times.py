"""Whether a gang's members are being created right now."""

from datetime import datetime

from gangs.model import Gang
from timing.clock import seconds_since

BURST_SECONDS = 2.5
"""If a gang's youngest member is younger than this number of seconds, the gang will probably get more members.

Creation times are whole seconds, so this is at least 1.5 s. On a busy machine, a Job's pods are up to 1.5 s apart. A
gang without members is measured by its own creation.
"""

LONGEST_BURST_SECONDS = 10.0
"""Seconds after a gang's creation for which reports of its missing members may be delayed, while members arrive."""


def created_now(gang: Gang, now: datetime) -> bool:
    """Return whether the gang is younger than `LONGEST_BURST_SECONDS` and its members are still being created."""
    age = seconds_since(gang.created, now)
    return age is not None and age < LONGEST_BURST_SECONDS and still_coming(gang, now)


def still_coming(gang: Gang, now: datetime) -> bool:
    """Return whether the gang's youngest member, or a gang without members, is younger than `BURST_SECONDS`."""
    youngest = max((member.pod.metadata.creation_timestamp or "" for member in gang.members), default=gang.created)
    age = seconds_since(youngest, now)
    return age is not None and age < BURST_SECONDS
