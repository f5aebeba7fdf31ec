"""Memory that has been used for connections, given back to the system.

The C library keeps what was freed between pieces that are still in use: after a crowd of handshakes, some 300 KB each,
a process would stay as large as it was then.
"""

import ctypes
import logging

LOG = logging.getLogger(__name__)


def give_back() -> None:
    """Hand free pages of the heap to the system, where the C library knows how (glibc's malloc_trim). Takes some ms."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError) as error:  # another C library
        LOG.debug("free memory is kept: %s", error)
