"""Formats the API server's times as ages and as times since a start."""

from datetime import datetime

from cluster.times import instant

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def age(text: str, now: datetime) -> str:
    """How long ago an RFC 3339 time was, in one unit; "?" for any other text."""
    if (start := instant(text)) is None:
        return "?"
    seconds = max(0, int((now - start).total_seconds()))
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    return f"{seconds // _DAY}d"


def since(start: datetime, later: datetime) -> str:
    """How long after the start, in whole seconds, minutes, hours or days, two of these at most."""
    return lasting((later - start).total_seconds())


def lasting(duration: float) -> str:
    """A duration in seconds as whole seconds, minutes, hours or days, two of these at most."""
    seconds = max(0, int(duration))
    parts: list[str] = []
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def ahead(at: datetime, now: datetime) -> str:
    """How far ahead a time is, as `in 2h13m`."""
    return f"in {since(now, at)}"
