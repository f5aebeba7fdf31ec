"""Leader election by a Lease: one controller leads, the others wait.

The rules are client-go's (tools/leaderelection): a lease counts as expired when its record has not changed for its
duration *as observed here*, on our own monotonic clock, so clocks of different machines are never compared. The
official Python client's elector compares wall clocks, has no stop, no release, no request timeout, and dies of a
network error; therefore the loop is ours, over plain requests.

Whoever leads writes within its term only (`Term.allowance`): a process that was stopped, or a machine that slept, for
longer than the lease finds its term over before it sends anything (docs/decisions/0007).
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


class LeadershipLostError(Exception):
    """The term is over: nothing may be written any more."""


class Term:
    """One term of office: until when this leader may write. Safe to share between threads.

    It ends for good when the Lease was not renewed for `renew_deadline`, counted from when the request for the last
    renewal was begun, or when it turns out to be another's. `lost` is set then, and also when this leader is only to
    stop: what it has begun it may still finish.

    :param renewed_at: by `clock`, when the request that took the Lease was begun.
    """

    def __init__(self, renew_deadline: float, renewed_at: float, clock: Callable[[], float]) -> None:
        self.lost = threading.Event()
        self._seconds = renew_deadline
        self._clock = clock
        self._renewed_at = renewed_at
        self._over = False
        self._lock = threading.Lock()

    def allowance(self) -> float:
        """Seconds that a request which is sent now may take. Raises `LeadershipLostError` when the term is over."""
        left = self.left()
        if left <= 0:
            raise LeadershipLostError("the lease is lost: nothing is written any more")
        return left

    def left(self) -> float:
        """Seconds until it is over unless the Lease is renewed, 0 from then on."""
        with self._lock:
            left = 0.0 if self._over else self._renewed_at + self._seconds - self._clock()
            if left > 0:
                return left
            known, self._over = self._over, True
        if not known:
            LOG.warning("the lease could not be renewed for %g s", self._seconds)
        self.lost.set()
        return 0.0

    def renewed(self, begun: float) -> None:
        """The Lease was renewed by a request begun then. That comes too late for a term that is over."""
        if self.left() > 0:
            with self._lock:
                self._renewed_at = max(self._renewed_at, begun)

    def end(self) -> None:
        """Let nothing be written any more."""
        with self._lock:
            self._over = True
        self.lost.set()


Lead = Callable[[Term], None]
"""The work of a leader. It returns soon after `lost` of its term was set."""


def since_boot() -> float:
    """Seconds that also pass while the machine sleeps (CLOCK_BOOTTIME), where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


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
        """Until `stop` is set: wait to be elected, then run `lead(term)` in this thread.

        `term.lost` is set when leadership is lost or `stop` is set; the Lease is kept until `lead` has returned, and is
        given up then, so that another candidate need not wait for it to expire. Whatever `lead` raises is raised
        here, after the Lease was given up.
        """
        while (term := self._elected(stop)) is not None:
            LOG.info("%s leads", self._identity)
            self._leading.set()
            try:
                with _Office(self._lease, term, self._timing, stop):
                    lead(term)
            finally:
                self._leading.clear()
                LOG.info("%s leads no more", self._identity)
            self._pause(stop)

    def _elected(self, stop: threading.Event) -> Term | None:
        while not stop.is_set():
            begun = since_boot()
            if self._lease.take():
                return Term(self._timing.renew_deadline, begun, since_boot)
            self._pause(stop)
        return None

    def _pause(self, stop: threading.Event) -> None:
        stop.wait(self._timing.retry * random.uniform(1.0, 1.2))  # noqa: S311 - spreads candidates, hides nothing


class _Office:
    """What goes on beside the leader's work: a thread renews the Lease, another sees to it that the end is noticed.

    They are two because a request may hang longer than the deadline.
    """

    def __init__(self, lease: "_Lease", term: Term, timing: Timing, stop: threading.Event) -> None:
        self._lease = lease
        self._term = term
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
        self._term.end()
        self._lease.release()

    def _renew(self) -> None:
        while not self._over.wait(self._timing.retry) and self._term.left() > 0:
            begun = since_boot()
            if self._lease.renew():
                self._term.renewed(begun)
            elif self._lease.ours is None:
                LOG.warning("the lease is another's")
                self._term.end()

    def _watch(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            self._term.left()
            if self._stop.is_set():
                self._term.lost.set()


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
        self.ours: _Tenure | None = None
        """What the Lease says of our present term; None: we do not hold it, as far as we know."""

    def take(self) -> bool:
        """Acquire the Lease. False: another holds it, or the API server did not agree in time."""
        return self._agreed(self._take)

    def renew(self) -> bool:
        """Renew the Lease that was taken. False: the API server did not agree in time, or `ours` is gone.

        What counts is the tenure, not the name alone: another may have held it, and given it up, in between.
        """
        return self._agreed(self._renew)

    def _agreed(self, ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except ConflictException:
            return False  # another candidate was faster; the next try reads who
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("lease %s: %s", self._name, message_of(error))
            return False

    def release(self) -> None:
        """Give the Lease up if it is ours, so that the next candidate takes it at once."""
        try:
            lease = self._read()
            spec = _spec(lease)
            if lease is None or self.ours is None or _tenure(spec) != self.ours:
                return
            given_up = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
            self._write("PUT", self._path, {**lease, "spec": given_up})
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("lease %s was not released and will expire: %s", self._name, message_of(error))
        finally:
            self.ours = None

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._name}"

    def _take(self) -> bool:
        lease, now = self._read(), _now()
        spec = _spec(lease)
        if spec.get("holderIdentity") not in (None, "", self._identity) and not self._expired(spec):
            return False
        transitions = 0 if lease is None else (spec.get("leaseTransitions") or 0) + 1
        ours = _Tenure(self._identity, now, transitions)
        claim = {
            **spec,
            "holderIdentity": ours.holder,
            "leaseDurationSeconds": max(1, round(self._timing.lease)),
            "acquireTime": ours.since,
            "renewTime": now,
            "leaseTransitions": ours.transitions,
        }
        if lease is None:
            self._write("POST", self._collection, self._new(claim))
        else:
            self._write("PUT", self._path, {**lease, "spec": claim})
        self.ours = ours
        return True

    def _renew(self) -> bool:
        lease = self._read()
        spec = _spec(lease)
        if lease is None or _tenure(spec) != self.ours:
            self.ours = None
            return False
        self._write("PUT", self._path, {**lease, "spec": {**spec, "renewTime": _now()}})
        return True

    def _expired(self, spec: Mapping[str, Any]) -> bool:
        record = tuple(spec.get(key) for key in ("holderIdentity", "acquireTime", "renewTime", "leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_at = record, time.monotonic()
        return time.monotonic() > self._seen_at + float(spec.get("leaseDurationSeconds") or self._timing.lease)

    def _new(self, claim: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": claim,
        }

    def _read(self) -> Mapping[str, Any] | None:
        try:
            lease: Mapping[str, Any] = self._transport.request("GET", self._path, timeout=self._timeout)
        except NotFoundException:
            return None
        return lease

    def _write(self, method: str, path: str, lease: Mapping[str, Any]) -> None:
        self._transport.request(method, path, body=lease, timeout=self._timeout)


@dataclass(frozen=True, slots=True)
class _Tenure:
    """Who holds a Lease, since when (its `acquireTime`), and after how many others."""

    holder: str
    since: str
    transitions: int


def _tenure(spec: Mapping[str, Any]) -> _Tenure:
    return _Tenure(
        spec.get("holderIdentity") or "", spec.get("acquireTime") or "", int(spec.get("leaseTransitions") or 0)
    )


def _spec(lease: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (lease or {}).get("spec") or {}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
