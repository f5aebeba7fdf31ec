"""Whether a gang's members are being created right now."""

from datetime import datetime

from gangs.model import Gang
from timing.clock import seconds_since

BURST_SECONDS = 1.5
"""If a gang's youngest member is younger than this number of seconds, the gang will probably get more members."""


def still_coming(gang: Gang, now: datetime) -> bool:
    """Return whether the gang's youngest member is younger than `BURST_SECONDS`."""
    youngest = max((member.pod.metadata.creation_timestamp or "" for member in gang.members), default="")
    age = seconds_since(youngest, now)
    return age is not None and age < BURST_SECONDS
