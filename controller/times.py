"""The present time as Kubernetes writes it, and what is too recent to be told of."""

from contextlib import suppress
from datetime import UTC, datetime

from gangs.model import Gang

BURST_SECONDS = 1.5
"""A gang whose youngest member is younger than this may well be getting more."""


def seconds_since(time: str, until: datetime) -> float | None:
    """How long ago it was; None for what is no time with its zone (anybody may have written it)."""
    with suppress(ValueError):
        then = datetime.fromisoformat(time)
        return (until - then).total_seconds() if then.tzinfo is not None else None
    return None


def now() -> str:
    """RFC 3339, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def still_coming(gang: Gang) -> bool:
    """Whether the gang's members are being created right now."""
    youngest = max((member.pod.metadata.creation_timestamp or "" for member in gang.members), default="")
    return bool(youngest) and (datetime.now(UTC) - datetime.fromisoformat(youngest)).total_seconds() < BURST_SECONDS
