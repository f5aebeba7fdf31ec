"""One look after the other at what changes: gangs are kept as they were read, only those that may differ read again."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from cluster.snapshot import Snapshot
from gangs.incremental.readings import KeptReadings
from gangs.model import Gang
from gangs.sources import Sources
from kube.topology import Topology


@dataclass(frozen=True, slots=True)
class Observation:
    """What there is at one instant. What has not changed since the last look is the same object as then."""

    version: int
    sources: Sources
    gangs: Sequence[Gang]
    topologies: Sequence[Topology]
    snapshot: Snapshot


class Follower(Protocol):
    """Looks again and again. For one thread."""

    def look(self) -> Observation | None:
        """What there is; None where nothing has changed since the last look."""


class CacheFollower:
    """Follows watch caches. `journal` tells what has changed in them between two looks."""

    def __init__(self, cache: ClusterCache, journal: Journal) -> None:
        self._cache = cache
        self._journal = journal
        self._kept = KeptReadings(Sources())
        self._version = -1

    def look(self) -> Observation | None:
        """What there is; costs in proportion to what has changed since the last look."""
        cache = self._cache
        with cache.still():
            if cache.version() == self._version:
                return None
            entries, self._version = self._journal.take(), cache.version()
            sources = Sources(
                cache.pods(), cache.objects(), cache.namespaces(), cache.found(), cache.tried(), cache.sharing()
            )
            snapshot = cache.snapshot()
            pods = {f"{at[0]}/{at[1]}": cache.pod(*at) for at in entries.pods}
        if entries.everything or self._kept.update(sources, pods, entries.objects) is None:
            self._kept = KeptReadings(sources)
        kept = self._kept
        return Observation(self._version, sources, kept.gangs(), kept.topologies, snapshot)


@contextlib.contextmanager
def following(cache: ClusterCache) -> Iterator[Follower]:
    """A follower of these caches; they keep note of what changes until the end."""
    with cache.journal() as journal:
        yield CacheFollower(cache, journal)
