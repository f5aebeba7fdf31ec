"""How much one port takes upon itself, in one place. Times in seconds, sizes in bytes."""

from dataclasses import dataclass

LARGEST_BODY = 8 * 1024 * 1024
"""An object and its old self of 1.5 MB each fit, and so does a cluster's worth of files for a dry run."""

MOST_CONNECTIONS = 1000
"""Half of them are for strangers (`serving.connections`)."""
BACKLOG = 4096
"""Connections that the kernel holds until they are accepted, as many as Linux lets be by default. Whoever comes when
there are so many hears nothing, and tries again after 1, 3 and 7 s: 1,005 who come at once must not be that many.
"""
KEEP_SECONDS = 120
"""More than the 90 s for which an API server keeps idle connections: a POST on one that is being closed cannot be
repeated.
"""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`handshake_seconds`: from accepting a connection to the end of its handshake. `request_seconds`: from a request's
    first byte to its last. `answer_seconds`: from there to the end of its answer. `keep_seconds`: how long a connection
    may be silent between requests, and before its first one.

    `body_bytes` may one body have, and `bodies_bytes` all those together that are being received or answered.
    """

    connections: int = MOST_CONNECTIONS
    handshake_seconds: float = 5.0
    request_seconds: float = 10.0
    answer_seconds: float = 60.0
    keep_seconds: int = KEEP_SECONDS
    head_bytes: int = 64 * 1024
    body_bytes: int = LARGEST_BODY
    bodies_bytes: int = 16 * LARGEST_BODY
