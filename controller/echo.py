"""Waiting until the watch caches show what was written, so that no round decides on a picture from before the last one.

This is no state: a controller that forgets it all only has to be told again by the caches.
"""

import threading
from time import monotonic

from cluster.cache import ClusterCache

PATIENCE_SECONDS = 5.0
"""How long a write may take to come back; a watch that is slower than this is behind for everything else, too."""
RESOURCES = ("pods", "gangs")
"""What rounds decide on and write themselves."""

_STEP_SECONDS = 0.01


class Echo:
    """The latest version written of each resource."""

    def __init__(self) -> None:
        self._written = dict.fromkeys(RESOURCES, 0)
        self._lock = threading.Lock()

    def expect(self, path: str, version: str) -> None:
        """Note a write. `path`: of the request; `version`: the object's resource version after it."""
        resource = next((each for each in RESOURCES if f"/{each}/" in f"{path}/"), None)
        if resource and version.isdigit():
            with self._lock:
                self._written[resource] = max(self._written[resource], int(version))

    def wait(self, cache: ClusterCache) -> bool:
        """Wait until everything written is seen. False where that takes too long."""
        deadline = monotonic() + PATIENCE_SECONDS
        while self._late(cache):
            if monotonic() > deadline:
                return False
            cache.wait_for_change(cache.version(), _STEP_SECONDS)
        return True

    def _late(self, cache: ClusterCache) -> bool:
        with self._lock:
            return any(cache.seen(resource) < version for resource, version in self._written.items())
