"""Formats times as ages such as "5m", and durations such as "1h30m"."""

from datetime import UTC, datetime

from cluster.times import instant

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def age(text: str, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was, in one unit, such as "90s" or "5m"; "?" for any other text."""
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
    """Return the duration from `start` to `later` in at most two units, such as "1h30m"."""
    return lasting((later - start).total_seconds())


def lasting(duration: float) -> str:
    """Return a duration, given in seconds, in at most two units, such as "1h30m" or "45s"."""
    seconds = max(0, int(duration))
    parts: list[str] = []
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def ahead(at: datetime, now: datetime) -> str:
    """Return how long from now a time is, such as `in 2h13m`."""
    return f"in {since(now, at)}"


def clock(at: datetime, now: datetime) -> str:
    """Return a time of the day in UTC, such as `14:13 UTC`; with the date if it is not the day of `now`."""
    there, today = at.astimezone(UTC), now.astimezone(UTC).date()
    return there.strftime("%H:%M UTC" if there.date() == today else "%Y-%m-%d %H:%M UTC")
