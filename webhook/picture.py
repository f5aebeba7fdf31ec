"""What the webhook knows while it answers: the live picture, read from memory."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.cache import ClusterCache
from cluster.snapshot import Snapshot
from gangs.dialects import dialect_of
from gangs.model import GangKey
from gangs.sources import Sources
from kube.objects import Pod

INDEX_SECONDS = 0.5
"""How old the index of pods by gang may be: a burst of pods must not sort all pods of the cluster for each of them."""


class Picture(Protocol):
    """The cluster as the watch caches hold it now. Every call answers at once."""

    def synced(self) -> bool:
        """Whether everything has been listed once."""

    def sources(self) -> Sources:
        """What is asked for: pods, group objects, topologies, workloads, namespaces."""

    def sources_of(self, key: GangKey) -> Sources:
        """The same with the pods of one gang only, which may lag behind by half a second."""

    def snapshot(self) -> Snapshot:
        """What there is: nodes, their room, and who holds it."""

    def age(self) -> float:
        """Seconds since the caches last heard from the API server."""


class LivePicture:
    """A `Picture` over watch caches. Safe to share between threads."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._indexed = float("-inf")
        self._pods: Mapping[GangKey, Sequence[Pod]] = {}
        self._claims: dict[str, tuple[str, GangKey | None]] = {}

    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return self._cache.synced()

    def sources(self) -> Sources:
        """What is asked for, as of one instant."""
        with self._cache.still():
            return self._with(self._cache.pods())

    def sources_of(self, key: GangKey) -> Sources:
        """What is asked for, with the pods of one gang only."""
        return self._with(self._pods_of(key))

    def snapshot(self) -> Snapshot:
        """What there is."""
        return self._cache.snapshot()

    def age(self) -> float:
        """Seconds since the API server was last heard of, on the watch that has been silent longest."""
        return self._cache.age()

    def _with(self, pods: Sequence[Pod]) -> Sources:
        cache = self._cache
        return Sources(pods, cache.objects(), cache.namespaces(), cache.found())

    def _pods_of(self, key: GangKey) -> Sequence[Pod]:
        with self._lock:
            if time.monotonic() - self._indexed > INDEX_SECONDS:
                self._index(self._cache.pods())
                self._indexed = time.monotonic()
            return self._pods.get(key, ())

    def _index(self, pods: Sequence[Pod]) -> None:
        """Sort the pods by gang; a pod that has not changed since is not read again."""
        by_gang: defaultdict[GangKey, list[Pod]] = defaultdict(list)
        claims: dict[str, tuple[str, GangKey | None]] = {}
        for pod in pods:
            version = pod.metadata.resource_version
            known = self._claims.get(pod.metadata.uid)
            if known is None or known[0] != version:
                claim = dialect_of(pod)
                known = version, claim[1] if claim else None
            claims[pod.metadata.uid] = known
            if known[1] is not None:
                by_gang[known[1]].append(pod)
        self._pods, self._claims = by_gang, claims
