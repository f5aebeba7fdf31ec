"""All limits of an HTTP port. Times are in seconds, sizes in bytes."""

from dataclasses import dataclass

LARGEST_BODY = 8 * 1024 * 1024
"""The most bytes of a request's body. An API server sends an object and its old version for review, 1.5 MB each. A user
may send the files of a whole cluster for a dry run.
"""

MOST_CONNECTIONS = 1000
"""The most open connections. Half of them are for clients that have sent no whole request yet (`serving.connections`).
"""
BACKLOG = 4096
"""The most connections that the kernel queues until they are accepted: the maximum that Linux allows by default.

A client that connects when the queue is full gets no answer, and retries after 1, 3 and 7 s. So the queue must hold
more than 1,005 simultaneous clients.
"""
KEEP_SECONDS = 120
"""How long an idle connection is kept. An API server keeps one for 90 s, so it closes the connection first. A POST on a
connection that the server is closing would fail, and could not be repeated.
"""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of a port's connections. A connection that exceeds a time is closed.

    `connections`: the most open connections. `handshake_seconds`: from accepting a connection to the end of its TLS
    handshake. `request_seconds`: from a request's first byte to its last. `answer_seconds`: from a request's last byte
    to the end of its answer. `keep_seconds`: how long a connection may be silent between requests, and before its first
    one.

    `head_bytes`: the most bytes of a request's line and headers. `body_bytes`: the most bytes of one body.
    `bodies_bytes`: the most bytes of all bodies together that are being received or answered.
    """

    connections: int = MOST_CONNECTIONS
    handshake_seconds: float = 5.0
    request_seconds: float = 10.0
    answer_seconds: float = 60.0
    keep_seconds: int = KEEP_SECONDS
    head_bytes: int = 64 * 1024
    body_bytes: int = LARGEST_BODY
    bodies_bytes: int = 16 * LARGEST_BODY
