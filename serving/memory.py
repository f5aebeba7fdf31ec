"""Returns freed memory to the system.

The C library keeps freed memory between pieces that are still in use. After many handshakes, of some 300 KB each, or
many plans in large clusters, a process would keep its largest size.
"""

import ctypes
import logging

LOG = logging.getLogger(__name__)

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of mallopt, from glibc's malloc.h."""
_LARGE = 64 * 1024
"""The least bytes of a piece that gets a mapping of its own, which returns to the system as soon as it is freed."""
_LOOSE = 128 * 1024
"""The most free bytes that stay at the end of the heap."""
_ARENAS = 2
"""The most heaps of one process. If each thread had its own, each heap would keep its largest size."""


def keep_little() -> None:
    """Make the C library keep little freed memory from now on, if it supports that (glibc's mallopt).

    Threads that already run keep their heaps, and forked processes inherit the setting. Many allocations of 64 KiB or
    more become slower.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError) as error:  # another C library
        LOG.debug("free memory is kept: %s", error)
        return
    for option, value in ((_ARENA_MAX, _ARENAS), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LOOSE)):
        set_option(option, value)


def give_back() -> None:
    """Return free pages of the heap to the system, if the C library can (glibc's malloc_trim). Takes some ms."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError) as error:  # another C library
        LOG.debug("free memory is kept: %s", error)
