"""The reading of every gang at once, in which an internal error on one gang does not affect other gangs.

If an object makes the reading fail, that is an internal error of Phalanx. Users must not get this error for objects of
other users.
"""

import logging

from gangs.dialects.reading import read_all
from gangs.incremental.gang_store import GangStore
from gangs.model import Reading
from gangs.sources import Sources

LOG = logging.getLogger(__name__)


def read_apart(sources: Sources) -> Reading:
    """Return the result of `read_all`. If it fails, read each gang by itself, with a fault for each failing gang."""
    try:
        return read_all(sources)
    except Exception:
        LOG.exception("not all gangs can be read; each is by itself")
        return GangStore(sources).reading()
