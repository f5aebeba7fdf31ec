"""Reports stray pods: pods of no gang that name a scheduler which does not run in the cluster, so they never start.

No other program reports that to users. Phalanx does not change such pods. It records one event on each, at a limited
rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from cluster.caches.cache import ClusterCache
from controller.cluster_view import ClusterView
from controller.telemetry import events
from controller.telemetry.recorder import Recorder
from gangs.coexistence.running_schedulers import runs
from gangs.dialects.claims import dialect_of
from gangs.model import ObjectRef
from kube.keys import STOCK_SCHEDULER
from kube.objects import Pod
from timing.clock import SYSTEM_CLOCK, Clock, seconds_since

PATIENCE_SECONDS = 30.0
"""Seconds before a pod is reported: a scheduler that has never been seen may be trying its first pod."""
INTERVAL_SECONDS = 5.0
"""Seconds between two searches for stray pods."""
MOST_AT_A_TIME = 20
"""The most events that one search records."""
MOST_LOOKED_AT = 1000
"""The most pods that one search checks. It bounds the time of the reconcile."""
MOST_OF_A_NAMESPACE = 20
WINDOW_SECONDS = 600.0
"""In this time at most `MOST_OF_A_NAMESPACE` pods of one namespace are reported. `phalanx doctor` counts all of them.
"""


@dataclass(slots=True)
class _Window:
    """The stray pods of one namespace in the present time window, for the limit of events. A stray pod belongs to no
    gang and names a scheduler that does not run.

    `begun`: the start of the window, in monotonic seconds. `notes`: how many stray pods were found since then.
    """

    begun: float
    notes: int = 0


class Strays:
    """Records one event on each stray pod: a pod that belongs to no gang and names a scheduler which does not run. The
    reported pods are kept in memory, so a new leader reports them again.
    """

    def __init__(
        self,
        cache: ClusterCache,
        recorder: Recorder,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._due = 0.0
        self._seen: set[str] = set()
        self._windows: dict[str, _Window] = {}
        self.unfinished = False
        """Whether some waiting pods have not been checked yet, so that another call is needed without a change."""

    def tell(self, cluster_view: ClusterView) -> None:
        """Record events on stray pods that were not reported yet, at most once in `INTERVAL_SECONDS`."""
        if self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + INTERVAL_SECONDS
        waiting = {pod.metadata.uid: pod for pod in self._waiting(cluster_view)}
        self._seen &= waiting.keys()
        self._windows = {name: each for name, each in self._windows.items() if not self._over(each)}
        count, new = 0, (pod for uid, pod in waiting.items() if uid not in self._seen)
        for pod in list(islice(new, MOST_LOOKED_AT)):
            if count < MOST_AT_A_TIME and self._ripe(pod):
                self._seen.add(pod.metadata.uid)
                count += dialect_of(pod) is None and self._tell(pod)
        self.unfinished = len(self._seen) < len(waiting)

    def _waiting(self, cluster_view: ClusterView) -> Iterator[Pod]:
        for name in self._cache.waiting():
            if not runs(name, cluster_view.sources):
                yield from self._cache.waiting_for(name)

    def _ripe(self, pod: Pod) -> bool:
        waited = seconds_since(pod.metadata.creation_timestamp or "", self._clock.wall())
        return waited is not None and waited > PATIENCE_SECONDS

    def _over(self, window: _Window) -> bool:
        return self._clock.monotonic() - window.begun > WINDOW_SECONDS

    def _tell(self, pod: Pod) -> bool:
        """Record the event on the pod, unless its namespace is over its limit. Return whether it was recorded."""
        meta = pod.metadata
        window = self._windows.setdefault(meta.namespace, _Window(self._clock.monotonic()))
        window.notes += 1
        if window.notes > MOST_OF_A_NAMESPACE:
            return False
        note = (
            f"names scheduler {pod.spec.scheduler_name}, which does not run here: nothing will start it; "
            f"make it again with schedulerName: {STOCK_SCHEDULER}, or none"
        )
        ref = ObjectRef("v1", "Pod", meta.namespace, meta.name, meta.uid)
        self._recorder.record(ref, events.SCHEDULER_ABSENT, note)
        return True
