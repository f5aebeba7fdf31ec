"""The present time as Kubernetes writes it."""

from datetime import UTC, datetime


def now() -> str:
    """RFC 3339, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
