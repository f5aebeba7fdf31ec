"""Every gang in one go, where one that cannot be read keeps no other from being read.

That an object makes a reader of ours fail is an error of ours. Whoever asks about his own gangs must not get it for
what somebody else wrote.
"""

import logging

from gangs.dialects.reading import read_all
from gangs.incremental.readings import KeptReadings
from gangs.model import Reading
from gangs.sources import Sources

LOG = logging.getLogger(__name__)


def read_apart(sources: Sources) -> Reading:
    """`read_all`; where that fails, each gang by itself, with a fault for those that fail."""
    try:
        return read_all(sources)
    except Exception:
        LOG.exception("not all gangs can be read; each is by itself")
        return KeptReadings(sources).reading()
