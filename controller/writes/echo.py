"""Whether the watch caches show what was written, so that no round decides on a snapshot from before the last one.

This is no state: a controller that forgets it all only has to be told again by the caches.
"""

import logging
import threading

from cluster.caches.cache import ClusterCache
from kube.objects import Pod
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""How long a write may take to come back; a watch that is slower than this is behind for everything else, too."""
RESOURCES = ("pods", "gangs", "poddisruptionbudgets")
"""What rounds decide on and write themselves; an eviction writes to its budget."""


class Echo:
    """The latest version written of each resource, and the pods that have been evicted."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._late_since: float | None = None
        """Since when (monotonic seconds) the cache has been late; None if it was not when it was last asked."""
        self._written = dict.fromkeys(RESOURCES, 0)
        self._evicted: dict[tuple[str, str], str] = {}
        """By namespace and name, the uid: pods that are not seen to end yet."""
        self._lock = threading.Lock()

    def expect(self, path: str, version: str) -> None:
        """Note a write. `path`: of the request; `version`: the object's resource version after it."""
        resource = next((each for each in RESOURCES if f"/{each}/" in f"{path}/"), None)
        if resource and version.isdigit():
            with self._lock:
                self._written[resource] = max(self._written[resource], int(version))

    def covers(self, resource: str, version: str) -> bool:
        """Whether an object of that resource version is from before our last write to such an object, or is that."""
        with self._lock:
            return version.isdigit() and int(version) <= self._written[resource]

    def expect_end(self, namespace: str, name: str, uid: str) -> None:
        """Note an eviction that was accepted. What it answers tells no version."""
        with self._lock:
            self._evicted[namespace, name] = uid

    def late(self, cache: ClusterCache) -> bool:
        """Return whether the cache does not show everything written yet.

        After `PATIENCE_SECONDS` of lateness, the echo stops waiting for evictions. Another client may have replaced
        such a pod, and one pod must not hold up all gangs.
        """
        now = self._clock.monotonic()
        if not self._late(cache):
            self._late_since = None
            return False
        self._late_since = now if self._late_since is None else self._late_since
        if now - self._late_since > PATIENCE_SECONDS:
            self._late_since = None
            LOG.warning("the watch caches are late by more than %g s", PATIENCE_SECONDS)
            with self._lock:
                self._evicted.clear()
        return True

    def _late(self, cache: ClusterCache) -> bool:
        with self._lock:
            self._evicted = {at: uid for at, uid in self._evicted.items() if _runs_on(cache.pod(*at), uid)}
            behind = any(cache.seen(resource) < version for resource, version in self._written.items())
            return behind or bool(self._evicted)


def _runs_on(pod: Pod | None, uid: str) -> bool:
    """Whether it is this very pod, and it does not end."""
    return pod is not None and pod.metadata.uid == uid and not (pod.terminating or pod.finished)
