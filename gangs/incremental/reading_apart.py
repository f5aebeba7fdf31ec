"""All gangs of a set of pods and objects, even if an internal error occurs on one gang.

If an object of one user causes an exception in Phalanx, the gangs of other users must still be returned.
"""

import logging

from gangs.dialects.reading import read_all
from gangs.incremental.gang_store import GangStore
from gangs.model import Reading
from gangs.sources import Sources

LOG = logging.getLogger(__name__)


def read_apart(sources: Sources) -> Reading:
    """Return all gangs, faults and advice, as `read_all` does.

    If `read_all` raises an exception, read each gang by itself. If the reading of one gang then raises an exception,
    the result has a fault in place of this gang.
    """
    try:
        return read_all(sources)
    except Exception:
        LOG.exception("not all gangs can be read; each is by itself")
        return GangStore(sources).reading()
