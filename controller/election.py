"""Leader election by a Lease: one controller leads, the others wait.

The rules are client-go's (tools/leaderelection): a lease counts as expired when its record has not changed for its
duration *as observed here*, on our own monotonic clock, so clocks of different machines are never compared. The
official Python client's elector compares wall clocks, has no stop, no release, no request timeout, and dies of a
network error; therefore the loop is ours, over plain requests.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubernetes.client.exceptions import ApiException, ConflictException, NotFoundException

from cluster.transport import UNREACHABLE, Timeout, Transport, message_of
from kube.keys import CONTROLLER_LEASE, SYSTEM_NAMESPACE

LOG = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
"""How soon a stop or a missed deadline is noticed."""

Lead = Callable[[threading.Event], None]
"""The work of a leader. It returns soon after the event it is given was set."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. A leader that could not renew for `renew_deadline` stops before another may take over.

    :raises ValueError: if two leaders could overlap (lease <= deadline) or a leader had no second try.
    """

    lease: float = 15
    renew_deadline: float = 10
    retry: float = 2

    def __post_init__(self) -> None:
        if not self.lease > self.renew_deadline > self.retry > 0:
            message = f"lease ({self.lease} s) > renew deadline ({self.renew_deadline} s) > retry ({self.retry} s) > 0"
            raise ValueError(f"must hold: {message}")


class Election:
    """One candidate for one Lease."""

    def __init__(
        self,
        transport: Transport,
        *,
        identity: str,
        namespace: str = SYSTEM_NAMESPACE,
        name: str = CONTROLLER_LEASE,
        timing: Timing | None = None,
    ) -> None:
        self._identity = identity
        self._timing = timing or Timing()
        self._lease = _Lease(transport, identity, namespace, name, self._timing)
        self._leading = threading.Event()

    @property
    def leading(self) -> bool:
        """Whether this candidate leads now."""
        return self._leading.is_set()

    def run(self, lead: Lead, stop: threading.Event) -> None:
        """Until `stop` is set: wait to be elected, then run `lead(lost)` in this thread.

        `lost` is set when leadership is lost or `stop` is set; the Lease is kept until `lead` has returned, and is
        given up then, so that another candidate need not wait for it to expire. Whatever `lead` raises is raised
        here, after the Lease was given up.
        """
        while self._elected(stop):
            term = _Term(self._lease, self._timing, stop)
            LOG.info("%s leads", self._identity)
            self._leading.set()
            try:
                with term:
                    lead(term.lost)
            finally:
                self._leading.clear()
                LOG.info("%s leads no more", self._identity)
            self._pause(stop)

    def _elected(self, stop: threading.Event) -> bool:
        while not stop.is_set():
            if self._lease.take():
                return True
            self._pause(stop)
        return False

    def _pause(self, stop: threading.Event) -> None:
        stop.wait(self._timing.retry * random.uniform(1.0, 1.2))  # noqa: S311 - spreads candidates, hides nothing


class _Term:
    """One term of office: a thread renews the Lease, another sees to it that `lost` is set in time.

    They are two because a request may hang longer than the deadline.
    """

    def __init__(self, lease: "_Lease", timing: Timing, stop: threading.Event) -> None:
        self.lost = threading.Event()
        self._lease = lease
        self._timing = timing
        self._stop = stop
        self._over = threading.Event()
        self._threads = (
            threading.Thread(target=self._renew, name="lease-renew", daemon=True),
            threading.Thread(target=self._watch, name="lease-watch", daemon=True),
        )

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.lost.set()
        self._lease.release()

    def _renew(self) -> None:
        while not self._over.wait(self._timing.retry):
            if not self._lease.take() and self._lease.held_by_another:
                self.lost.set()
                return

    def _watch(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            late = time.monotonic() > self._lease.renewed_at + self._timing.renew_deadline
            if late and not self.lost.is_set():
                LOG.warning("the lease could not be renewed for %g s", self._timing.renew_deadline)
            if late or self._stop.is_set():
                self.lost.set()


class _Lease:
    """The coordination.k8s.io/v1 Lease as one candidate sees it."""

    def __init__(self, transport: Transport, identity: str, namespace: str, name: str, timing: Timing) -> None:
        self._transport = transport
        self._identity = identity
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._timing = timing
        self._timeout: Timeout = (timing.retry, timing.renew_deadline / 2)
        self._seen: tuple[Any, ...] = ()
        self._seen_at = 0.0
        self.renewed_at = float("-inf")
        """When, on the monotonic clock, the last successful request to take or renew the Lease was begun."""
        self.held_by_another = False
        """Whether the Lease named another holder when it was last read."""

    def take(self) -> bool:
        """Acquire the Lease or renew it. False: another holds it, or the API server did not agree in time."""
        begun = time.monotonic()
        try:
            taken = self._take()
        except ConflictException:
            return False  # another candidate was faster; the next try reads who
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("lease %s: %s", self._name, message_of(error))
            return False
        if taken:
            self.renewed_at = begun
        return taken

    def release(self) -> None:
        """Give the Lease up if it is ours, so that the next candidate takes it at once."""
        try:
            lease = self._read()
            spec = _spec(lease)
            if lease is None or spec.get("holderIdentity") != self._identity:
                return
            given_up = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
            self._write("PUT", self._path, {**lease, "spec": given_up})
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("lease %s was not released and will expire: %s", self._name, message_of(error))
        self.renewed_at = float("-inf")

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._name}"

    def _take(self) -> bool:
        lease = self._read()
        if lease is None:
            self._write("POST", self._collection, self._new())
            return True
        spec = _spec(lease)
        holder = spec.get("holderIdentity") or ""
        self.held_by_another = holder not in ("", self._identity)
        if self.held_by_another and not self._expired(spec):
            return False
        self._write("PUT", self._path, {**lease, "spec": {**spec, **self._claim(spec)}})
        self.held_by_another = False
        return True

    def _expired(self, spec: Mapping[str, Any]) -> bool:
        record = tuple(spec.get(key) for key in ("holderIdentity", "acquireTime", "renewTime", "leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_at = record, time.monotonic()
        return time.monotonic() > self._seen_at + float(spec.get("leaseDurationSeconds") or self._timing.lease)

    def _claim(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        now = _now()
        claim = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.lease)),
            "renewTime": now,
        }
        if spec.get("holderIdentity") == self._identity:
            return claim
        return {**claim, "acquireTime": now, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1}

    def _new(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": {**self._claim({}), "leaseTransitions": 0},
        }

    def _read(self) -> Mapping[str, Any] | None:
        try:
            lease: Mapping[str, Any] = self._transport.request("GET", self._path, timeout=self._timeout)
        except NotFoundException:
            return None
        return lease

    def _write(self, method: str, path: str, lease: Mapping[str, Any]) -> None:
        self._transport.request(method, path, body=lease, timeout=self._timeout)


def _spec(lease: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (lease or {}).get("spec") or {}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
