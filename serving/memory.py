"""Makes the process return freed memory to the operating system.

The C library keeps freed memory between pieces that are still in use. After many handshakes, of some 300 KB each, or
many plans in large clusters, a process would keep the largest size that it ever had.
"""

import ctypes
import logging

LOG = logging.getLogger(__name__)

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""The numbers of mallopt's options, from glibc's malloc.h."""
_LARGE = 64 * 1024
"""From this size in bytes, an allocation gets a memory mapping of its own, which is returned as soon as it is freed."""
_LOOSE = 128 * 1024
"""The most free bytes that the C library keeps at the end of the heap."""
_ARENAS = 2
"""The most heaps (arenas) of the process. If each thread had its own, each heap would keep its largest size."""


def keep_little() -> None:
    """Make the C library return most freed memory to the system from now on, if it supports that (glibc's mallopt).

    Call it before threads start, because threads that run keep their heaps. Forked processes inherit the setting.
    Allocations of 64 KiB or more become slower.
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
