"""Memory that has been used, given back to the system.

The C library keeps what was freed between pieces that are still in use: after a crowd of handshakes, some 300 KB each,
or of plans in large clusters, a process would stay as large as it was then.
"""

import ctypes
import logging

LOG = logging.getLogger(__name__)

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of glibc's malloc.h."""
_LARGE = 64 * 1024
"""Bytes from which on a piece is a mapping of its own, which goes back as soon as it is freed."""
_LOOSE = 128 * 1024
"""Bytes at the end of the heap that may stay."""
_ARENAS = 2
"""Heaps of one process. Each thread having its own, every one of them would stay as large as it ever was."""


def keep_little() -> None:
    """From now on keep little of what was freed, where the C library lets itself be told (glibc's mallopt). Threads
    that run already keep the heap that they have, and processes that are forked do as this one. Allocating much in
    pieces of 64 KiB and more becomes slower.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError) as error:  # another C library
        LOG.debug("free memory is kept: %s", error)
        return
    for option, value in ((_ARENA_MAX, _ARENAS), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LOOSE)):
        set_option(option, value)


def give_back() -> None:
    """Hand free pages of the heap to the system, where the C library knows how (glibc's malloc_trim). Takes some ms."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError) as error:  # another C library
        LOG.debug("free memory is kept: %s", error)
