"""Parses times in Kubernetes objects (RFC 3339, as apimachinery's `metav1.Time` and `metav1.MicroTime` write them).

Users and operators may write any text into a status, so a time may have any format.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")


def instant(text: Any) -> datetime | None:
    """Parse an RFC 3339 time. Return it in UTC; None for any other value, and for years that `datetime` lacks."""
    if isinstance(text, str) and _RFC_3339.fullmatch(text):
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(text).astimezone(UTC)
    return None
