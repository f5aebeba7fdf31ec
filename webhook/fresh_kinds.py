"""Reads WorkloadKinds from the API server when the caches do not have the WorkloadKind of a new workload yet.

One `kubectl apply` may create a WorkloadKind and the first workload of its kind. Without this read, the workload would
be admitted as an object of an unknown kind, and would never become a gang. A client that creates many objects of
unknown kinds must not cause one API call for each, so all reviews share one list a second.
"""

import logging
import threading

from cluster.api.single import UnreadError, read_list
from cluster.api.transport import Transport
from gangs.model import Manifest
from gangs.workloads.user_defined_kinds import RESOURCE
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

EVERY = 1.0
"""The least seconds between two list requests."""
SECONDS = 1.0
"""The timeout of one list request."""
WAITING = 4
"""The most reviews that wait for a list request. Other reviews are answered without it."""


class FreshKinds:
    """Reads all WorkloadKinds, at most once in `EVERY` seconds. Safe to share between threads."""

    def __init__(self, transport: Transport, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._transport = transport
        self._turns = threading.BoundedSemaphore(WAITING)
        self._lock = threading.Lock()
        self._listed = float("-inf")
        """The monotonic time at which the last list began, in seconds."""
        self._found: tuple[Manifest, ...] = ()

    def describing(self, group: str, kind: str) -> Manifest | None:
        """Return the WorkloadKind that describes this kind. Unless the last list has it, wait for a new list.

        None if there is no such WorkloadKind, the list cannot be read, or `WAITING` reviews wait already.
        """
        came = self._clock.monotonic()
        if came - self._listed < EVERY and (known := self._naming(group, kind)) is not None:
            return known
        if not self._turns.acquire(blocking=False):
            return None
        try:
            with self._lock:
                if self._listed < came:
                    self._clock.sleep(max(0.0, self._listed + EVERY - self._clock.monotonic()))
                    self._listed = self._clock.monotonic()
                    self._found = self._list()
        finally:
            self._turns.release()
        return self._naming(group, kind)

    def _naming(self, group: str, kind: str) -> Manifest | None:
        specs = ((each, each.get("spec") or {}) for each in self._found)
        return next((each for each, spec in specs if (spec.get("group"), spec.get("kind")) == (group, kind)), None)

    def _list(self) -> tuple[Manifest, ...]:
        path = f"/apis/{RESOURCE.group}/{RESOURCE.versions[0]}/{RESOURCE.plural}"
        try:
            return read_list(self._transport, path, RESOURCE.kind, seconds=SECONDS)
        except UnreadError as error:
            LOG.info("WorkloadKinds are not read again: %s", error)
            return ()
