"""Observes the cluster repeatedly for the live page. It reads again only the gangs that may have changed."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from cluster.snapshot import Snapshot
from gangs.incremental.gang_store import GangStore
from gangs.model import Gang
from gangs.sources import Sources
from kube.topology import Topology


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at one instant: its objects, gangs, topologies and snapshot. `version`: of the watch caches.

    A part that has not changed since the last observation is the same Python object.
    """

    version: int
    sources: Sources
    gangs: Sequence[Gang]
    topologies: Sequence[Topology]
    snapshot: Snapshot


class Follower(Protocol):
    """Returns the state of the cluster on request, if something has changed since the last request. Only one thread may
    use a follower.
    """

    def look(self) -> Observation | None:
        """Return the cluster as it is now; None if nothing has changed since the last call."""


class CacheFollower:
    """A `Follower` of watch caches. `journal` records the changes in the caches between two calls of `look`."""

    def __init__(self, cache: ClusterCache, journal: Journal) -> None:
        self._cache = cache
        self._journal = journal
        self._kept = GangStore(Sources())
        self._version = -1

    def look(self) -> Observation | None:
        """The current observation. None if nothing has changed since the last call.

        The cost is proportional to the number of changes since then.
        """
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
            self._kept = GangStore(sources)
        kept = self._kept
        return Observation(self._version, sources, kept.gangs(), kept.topologies, snapshot)


@contextlib.contextmanager
def following(cache: ClusterCache) -> Iterator[Follower]:
    """Yield a follower of these caches. The caches record their changes for it until the `with` block ends."""
    with cache.journal() as journal:
        yield CacheFollower(cache, journal)
