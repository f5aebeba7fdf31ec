"""Whether the watch caches show the controller's last writes, so that no reconcile decides on an older snapshot.

This is not durable state: a restarted controller only has to fill its caches again.
"""

import logging
import threading

from cluster.caches.cache import ClusterCache
from kube.objects import Pod
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""Seconds after which the caches count as late: evictions are not waited for any longer, and a warning is logged."""
RESOURCES = ("pods", "gangs", "poddisruptionbudgets", "resourceclaims", "devicetaintrules")
"""The resources that reconciles both read and write. An eviction writes to its disruption budget."""


class ReadYourWrites:
    """The writes that the caches must show before the next reconcile begins.

    They are the latest resourceVersion that the controller has written of each resource, and the pods that it has
    evicted. The methods are safe to call from several threads.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._late_since: float | None = None
        """Since when the cache has been late, in monotonic seconds; None if it was not late at the last call."""
        self._written = dict.fromkeys(RESOURCES, 0)
        self._evicted: dict[tuple[str, str], str] = {}
        """Evicted pods that the cache does not show as terminating yet: the UID by namespace and name."""
        self._lock = threading.Lock()

    def expect(self, path: str, version: str) -> None:
        """Record a write, so that `late` waits for it.

        :param path: the API path of the request, which names the resource.
        :param version: the object's resourceVersion after the write.
        """
        resource = next((each for each in RESOURCES if f"/{each}/" in f"{path}/"), None)
        if resource and version.isdigit():
            with self._lock:
                self._written[resource] = max(self._written[resource], int(version))

    def covers(self, resource: str, version: str) -> bool:
        """Return whether this resourceVersion is at most that of the controller's last write to the resource.

        Then a change with this version is probably the controller's own write, as the watch returns it.
        """
        with self._lock:
            return version.isdigit() and int(version) <= self._written[resource]

    def expect_end(self, namespace: str, name: str, uid: str) -> None:
        """Record an accepted eviction. The answer to an eviction contains no resource version."""
        with self._lock:
            self._evicted[namespace, name] = uid

    def late(self, cache: ClusterCache) -> bool:
        """Return whether the cache lacks some of the recorded writes, so that a reconcile must wait.

        After `PATIENCE_SECONDS`, evictions are not waited for any more. Another client may have replaced an evicted
        pod, and one pod must not hold up all gangs.
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
    """Return whether the pod has this UID and is neither terminating nor finished."""
    return pod is not None and pod.metadata.uid == uid and not (pod.terminating or pod.finished)
