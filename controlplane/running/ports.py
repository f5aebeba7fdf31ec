"""Finds free ports for servers on loopback."""

import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_ports(count: int) -> list[int]:
    """Return different loopback ports on which no process listens now.

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
        if _is_free(port):
            free.append(port)
    if len(free) < count:
        raise OSError(f"fewer than {count} free ports between {_LOWEST} and {end}")
    return free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
