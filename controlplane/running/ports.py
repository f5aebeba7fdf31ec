"""Finds free ports for servers on loopback."""

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_OURS = set[int]()
"""The ports that this process has reserved for its servers."""


def free_ports(count: int) -> list[int]:
    """Return different loopback ports on which no process listens, and which no other call has returned.

    A port belongs to this process until the process ends, because its server may start to listen only minutes later.
    Other processes of the user that call this function get other ports.

    They lie below the range from which the kernel serves outgoing connections. From within it, a client of another
    program could take the port before our server listens there, or while that server is being restarted.
    :raises OSError: there are fewer than `count` such ports.
    """
    end = int(_EPHEMERAL.read_text().split()[0])
    candidates = random.SystemRandom().sample(range(_LOWEST, end), k=end - _LOWEST)
    free: list[int] = []
    for port in candidates:
        if len(free) == count:
            break
        if _claimed(port) and _is_free(port):
            free.append(port)
    if len(free) < count:
        raise OSError(f"fewer than {count} free ports between {_LOWEST} and {end}")
    return free


def _claimed(port: int) -> bool:
    """Reserve the port for this process, by a lock on one byte of a file. Return False if another process has reserved
    it.

    The kernel frees the locks of a process that ends.
    """
    if port in _OURS:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _OURS.add(port)
    return True


@cache
def _claims() -> int:
    """Open the file in which a locked byte reserves a port for a process, and return its descriptor.

    The file stays open, because a process that closes it loses its locks.
    """
    path = Path(tempfile.gettempdir()) / f"phalanx-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
