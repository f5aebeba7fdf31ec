"""Leader election by a Lease: one controller leads, the others wait.

The rules are client-go's (tools/leaderelection). A lease counts as expired if this process has not seen its record
change for the lease duration, on its own monotonic clock. So clocks of different machines are never compared.
The elector of the official Python client compares wall clocks, cannot be stopped, does not release the lease, has no
request timeout, and ends at a network error. Therefore Phalanx has a loop of its own, over plain requests.

A leader writes within its term only (`Term.allowance`). If its process was stopped or its machine slept for longer
than the lease, the leader finds its term over before it sends a write (docs/decisions/0007).
"""

import logging
import threading
from collections.abc import Callable

from cluster.api.transport import Transport
from controller.leadership.lease import Lease, LeaseTiming
from kube.keys import CONTROLLER_LEASE, SYSTEM_NAMESPACE
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
"""Seconds between two checks whether the leader must stop or its term is over."""


class LeadershipLostError(Exception):
    """The term of this leader is over, so it must not write any more."""


class Term:
    """One term of a leader: the time in which it may write. Safe to share between threads.

    The term ends for good when the Lease was not renewed for `renew_deadline` seconds, or when another candidate holds
    it. The deadline counts from the start of the last successful renewal request. The event `lost` is set at the end of
    the term. It is also set when the process has to stop; then the leader may still finish the writes it has begun.

    :param renewed_at: the start of the request that took the Lease, by `clock`.
    """

    def __init__(self, renew_deadline: float, renewed_at: float, clock: Callable[[], float]) -> None:
        self.lost = threading.Event()
        self._seconds = renew_deadline
        self._clock = clock
        self._renewed_at = renewed_at
        self._over = False
        self._lock = threading.Lock()

    def allowance(self) -> float:
        """Return the seconds that a request sent now may take.

        :raises LeadershipLostError: if the term is over.
        """
        left = self.left()
        if left <= 0:
            raise LeadershipLostError("the lease is lost: nothing is written any more")
        return left

    def left(self) -> float:
        """Return the seconds until the term ends unless the Lease is renewed; 0 if it is over."""
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
        """Extend the term after a successful renewal. A term that is over stays over.

        :param begun: when the renewal request was sent, by the clock of the term.
        """
        if self.left() > 0:
            with self._lock:
                self._renewed_at = max(self._renewed_at, begun)

    def end(self) -> None:
        """End the term, so that no write is sent any more."""
        with self._lock:
            self._over = True
        self.lost.set()


Lead = Callable[[Term], None]
"""The work of a leader. It returns soon after `lost` of its term was set."""


class Election:
    """One candidate in the leader election by one Lease: this process."""

    def __init__(
        self,
        transport: Transport,
        *,
        identity: str,
        timing: LeaseTiming,
        namespace: str = SYSTEM_NAMESPACE,
        name: str = CONTROLLER_LEASE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._identity = identity
        self._timing = timing
        self._lease = Lease(transport, identity, namespace, name, self._timing, clock=clock)
        self._leading = threading.Event()

    @property
    def leading(self) -> bool:
        """Whether this replica holds the lease, so that it is the leader now."""
        return self._leading.is_set()

    def run(self, lead: Lead, stop: threading.Event) -> None:
        """Wait to be elected, then run `lead(term)` in this thread, again and again until `stop` is set.

        `lead` must return soon after `term.lost` was set, which happens when leadership is lost or `stop` is set. When
        it has returned, the Lease is released, so that another candidate need not wait for it to expire. An exception
        of `lead` is raised from here, after the Lease was released.
        """
        while (term := self._elected(stop)) is not None:
            LOG.info("%s leads", self._identity)
            self._leading.set()
            try:
                with _Office(self._lease, term, self._timing, stop, self._clock):
                    lead(term)
            finally:
                self._leading.clear()
                LOG.info("%s leads no more", self._identity)
            self._lease.pause(stop)

    def _elected(self, stop: threading.Event) -> Term | None:
        while not stop.is_set():
            begun = self._clock.since_boot()
            if self._lease.take():
                return Term(self._timing.renew_deadline, begun, self._clock.since_boot)
            self._lease.await_turn(stop)
        return None


class _Office:
    """A context manager that holds the Lease: one thread renews it, another one detects the end of the term.

    There are two threads because a renewal request may hang longer than the deadline. At the end of the context the
    term ends and the Lease is released.
    """

    def __init__(
        self, lease: Lease, term: Term, timing: LeaseTiming, stop: threading.Event, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
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
        keep_renewing(self._lease, self._term, self._timing, self._over, self._clock)

    def _watch(self) -> None:
        while not self._clock.wait(self._over, _TICK_SECONDS):
            self._term.left()
            if self._stop.is_set():
                self._term.lost.set()


def keep_renewing(
    lease: Lease, term: Term, timing: LeaseTiming, over: threading.Event, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Renew the Lease every `timing.retry` seconds until `over` is set or the term ends.

    The seconds count from the start of a renewal, not from its answer. Otherwise a renewal that hangs leaves no time
    for a second one. For example, with a lease of 4 s a renewal may take 1.3 s, and the term ends after 2.7 s.
    """
    pause = timing.retry
    while not clock.wait(over, pause) and term.left() > 0:
        begun = clock.monotonic()
        renew(lease, term, clock)
        pause = max(0.0, timing.retry - (clock.monotonic() - begun))


def renew(lease: Lease, term: Term, clock: Clock) -> None:
    """Renew the Lease once. If another candidate holds it, end the term."""
    begun = clock.since_boot()
    if lease.renew():
        term.renewed(begun)
    elif lease.ours is None:
        LOG.warning("the lease is another's")
        term.end()
