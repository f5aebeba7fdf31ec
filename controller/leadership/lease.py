"""The Lease by which controllers elect their leader, as one candidate sees and writes it.

A waiting candidate watches the Lease. It takes a released Lease at once, and any other Lease at the moment it expires.
As in client-go, the time to expiry counts from the moment at which this process saw the record change last, on its own
monotonic clock. So clocks of different machines are never compared.
"""

import logging
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec
import urllib3
from kubernetes.client.exceptions import ApiException, ConflictException, NotFoundException

from cluster.api.transport import UNREACHABLE, Timeout, Transport, lines_of, message_of
from timing.clock import SYSTEM_CLOCK, Clock, micro_time

LOG = logging.getLogger(__name__)

_SILENT_RENEWALS = 1.5
"""After so many retry intervals without an event, the watch is opened again, because it may have failed."""
_AFTER_EXPIRY = 0.01
"""Seconds after the end of a lease at which it is checked, so that the check never comes too early."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The times of a lease, in seconds.

    `lease`: after this time without a renewal another candidate may take the Lease. `renew_deadline`: a leader that
    could not renew for this time stops. It is shorter than `lease`, so two leaders never overlap. `retry`: the pause
    between two renewals or tries.

    :raises ValueError: unless lease > renew_deadline > retry > 0.
    """

    lease: float
    renew_deadline: float
    retry: float

    def __post_init__(self) -> None:
        if not self.lease > self.renew_deadline > self.retry > 0:
            message = f"lease ({self.lease} s) > renew deadline ({self.renew_deadline} s) > retry ({self.retry} s) > 0"
            raise ValueError(f"must hold: {message}")


def timing_of(lease: float) -> LeaseTiming:
    """Return the times for a lease of this many seconds. A leader can try three renewals before its term ends."""
    return LeaseTiming(lease=lease, renew_deadline=lease * 2 / 3, retry=lease / 5)


@dataclass(frozen=True, slots=True)
class Tenure:
    """One period in which one candidate holds the Lease, as the fields of its spec identify it.

    `holder`: holderIdentity. `since`: acquireTime. `transitions`: leaseTransitions, the number of changes of holder.
    """

    holder: str
    since: str
    transitions: int


class Lease:
    """The coordination.k8s.io/v1 Lease as one candidate sees it. Use an object from one thread at a time."""

    def __init__(
        self,
        transport: Transport,
        identity: str,
        namespace: str,
        name: str,
        timing: LeaseTiming,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._identity = identity
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._timing = timing
        self._timeout: Timeout = (timing.retry, timing.renew_deadline / 2)
        self._known: Mapping[str, Any] | None = None
        """The object as it was last read or written."""
        self._seen: tuple[Any, ...] = ()
        self._expires = 0.0
        self.ours: Tenure | None = None
        """The present tenure of this candidate; None if it does not hold the Lease as far as it knows."""

    def take(self) -> bool:
        """Try to acquire the Lease. False if another candidate holds it, or the API server gave no answer in time."""
        return self._agreed(self._take)

    def renew(self) -> bool:
        """Renew the Lease that this candidate holds. False if the API server gave no answer in time, or if the Lease is
        lost.

        If the Lease is lost, `ours` is None. The whole tenure must match, not only the holder, because another
        candidate may have held and released the Lease in between.
        """
        return self._agreed(self._renew)

    def release(self) -> None:
        """Release the Lease if this candidate holds it, so that the next candidate takes it at once."""
        try:
            lease = self._read()
            if lease is None or self.ours is None or _tenure(_spec(lease)) != self.ours:
                return
            given_up = {
                **_spec(lease),
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "renewTime": self._now,
            }
            self._write("PUT", self._path, {**lease, "spec": given_up})
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("lease %s was not released and will expire: %s", self._name, message_of(error))
        finally:
            self.ours = None

    def pause(self, stop: threading.Event) -> None:
        """Wait for one retry interval, or until `stop` is set. A random factor keeps candidates from trying at once."""
        self._clock.wait(stop, self._timing.retry * random.uniform(1.0, 1.2))  # noqa: S311 - spreads candidates, hides nothing

    def await_turn(self, stop: threading.Event) -> None:
        """Wait until a try to take the Lease may succeed: it is free, expired, or its state is unknown.

        Return soon after `stop` is set.
        """
        if self._known is None:
            self.pause(stop)
            return
        try:
            begun = self._clock.monotonic()
            while not stop.is_set() and not self._free():
                if not self._watched(stop):
                    self._clock.wait(stop, begun + self._timing.retry - self._clock.monotonic())
                    return
        except (ApiException, *UNREACHABLE, msgspec.MsgspecError) as error:
            LOG.warning("lease %s cannot be watched: %s", self._name, message_of(error))
            self.pause(stop)

    def _agreed(self, ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except ConflictException:
            return False  # another candidate was faster; the next try reads the Lease again
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("lease %s: %s", self._name, message_of(error))
            return False

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._name}"

    def _take(self) -> bool:
        self._known = None
        lease, now = self._read(), self._now
        spec = _spec(lease)
        if lease is not None and not self._free():
            return False
        transitions = 0 if lease is None else (spec.get("leaseTransitions") or 0) + 1
        ours = Tenure(self._identity, now, transitions)
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
        """Renew the Lease if this candidate still holds it. Return whether this candidate holds the Lease.

        The renewal takes one request, as long as no other client writes the Lease.
        """
        if self._known is not None and _tenure(_spec(self._known)) == self.ours:
            try:
                self._put_off(self._known)
            except ConflictException:
                # Perhaps this candidate itself changed it, if the answer to an earlier request was lost.
                LOG.debug("lease %s was changed by somebody", self._name)
            except NotFoundException:
                LOG.warning("lease %s is gone", self._name)
            else:
                return True
        lease = self._read()
        if lease is None or _tenure(_spec(lease)) != self.ours:
            self.ours = None
            return False
        self._put_off(lease)
        return True

    @property
    def _now(self) -> str:
        return micro_time(self._clock.wall())

    def _put_off(self, lease: Mapping[str, Any]) -> None:
        """Write a new renew time, so that the Lease expires later."""
        self._write("PUT", self._path, {**lease, "spec": {**_spec(lease), "renewTime": self._now}})

    def _watched(self, stop: threading.Event) -> bool:
        """Watch the Lease until it is free, `stop` is set, or no event has come for a while.

        Return False if the watch ended or the Lease was deleted, so that the Lease must be read again.
        """
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "resourceVersion": (self._known or {}).get("metadata", {}).get("resourceVersion"),
        }
        silence = min(self._timing.retry * _SILENT_RENEWALS, max(0.0, self._expires - self._clock.monotonic()))
        timeout = (self._timing.retry, silence + _AFTER_EXPIRY)
        try:
            response = self._transport.open("GET", self._collection, query=query, timeout=timeout)
            with closing(lines_of(response)) as lines:
                for line in lines:
                    event = msgspec.json.decode(line)
                    if event["type"] not in ("ADDED", "MODIFIED"):
                        return False
                    self._note(event["object"])
                    if self._free() or stop.is_set():
                        return True
        except urllib3.exceptions.ReadTimeoutError:
            return True
        return False

    def _free(self) -> bool:
        """Return whether this candidate may take the Lease, by the Lease's content as last read.

        True if the Lease has no holder, is held in this candidate's name, or has expired.
        """
        holder = _spec(self._known).get("holderIdentity")
        return holder in (None, "", self._identity) or self._clock.monotonic() > self._expires

    def _note(self, lease: Mapping[str, Any]) -> None:
        self._known, spec = lease, _spec(lease)
        record = tuple(spec.get(key) for key in ("holderIdentity", "acquireTime", "renewTime", "leaseTransitions"))
        if record != self._seen:
            lasting = float(spec.get("leaseDurationSeconds") or self._timing.lease)
            self._seen, self._expires = record, self._clock.monotonic() + lasting

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
        self._note(lease)
        return lease

    def _write(self, method: str, path: str, lease: Mapping[str, Any]) -> None:
        self._known = self._transport.request(method, path, body=lease, timeout=self._timeout)


def _tenure(spec: Mapping[str, Any]) -> Tenure:
    return Tenure(
        spec.get("holderIdentity") or "", spec.get("acquireTime") or "", int(spec.get("leaseTransitions") or 0)
    )


def _spec(lease: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (lease or {}).get("spec") or {}
