"""Waiting until the watch caches show what was written, so that no round decides on a picture from before the last one.

This is no state: a controller that forgets it all only has to be told again by the caches.
"""

import threading
from collections.abc import Mapping
from time import monotonic

from cluster.cache import ClusterCache
from kube.keys import GROUP

PATIENCE_SECONDS = 5.0
"""How long a write may take to come back; a watch that is slower than this is behind for everything else, too."""

_STEP_SECONDS = 0.5


class Echo:
    """Versions that were written and not seen yet."""

    def __init__(self) -> None:
        self._expected: dict[str, tuple[int, bool]] = {}
        self._lock = threading.Lock()

    def expect(self, uid: str, version: str, *, created: bool) -> None:
        """Note a write. `created`: an object that is not seen at all is late, not gone."""
        if uid and version.isdigit():
            with self._lock:
                self._expected[uid] = (int(version), created)

    def wait(self, cache: ClusterCache) -> bool:
        """Wait until everything written is seen. False where that takes too long; it is not waited for again."""
        deadline = monotonic() + PATIENCE_SECONDS
        while self._late(cache):
            version = cache.version()
            if not self._late(cache):
                break
            if monotonic() > deadline:
                with self._lock:
                    self._expected.clear()
                return False
            cache.wait_for_change(version, _STEP_SECONDS)
        return True

    def _late(self, cache: ClusterCache) -> bool:
        with self._lock:
            if not self._expected:
                return False
            seen = _versions(cache)
            self._expected = {
                uid: (version, created)
                for uid, (version, created) in self._expected.items()
                if seen.get(uid, -1 if created else version) < version
            }
            return bool(self._expected)


def _versions(cache: ClusterCache) -> Mapping[str, int]:
    """Resource versions by uid, of pods and Gang objects. They are comparable numbers (KEP-5504)."""
    seen = {pod.metadata.uid: int(pod.metadata.resource_version) for pod in cache.pods()}
    for key, manifest in cache.objects().items():
        if key[:2] == (GROUP, "Gang"):
            seen[manifest["metadata"]["uid"]] = int(manifest["metadata"]["resourceVersion"])
    return seen
