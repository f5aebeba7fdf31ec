"""Times of an election that could not be kept."""

import threading

import pytest
from manual_clock import ManualClock

from controller.defaults import LEASE_SECONDS
from controller.leadership.election import Term, keep_renewing
from controller.leadership.lease import Lease, LeaseTiming, Tenure, timing_of


@pytest.mark.parametrize(("lease", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 2)])
def test_times_that_would_let_two_lead_are_refused(lease: float, deadline: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must hold: lease"):
        LeaseTiming(lease, deadline, retry)


def test_the_usual_times_leave_a_leader_three_tries() -> None:
    usual = timing_of(LEASE_SECONDS)
    assert usual.lease == 4
    assert 3 * usual.retry < usual.renew_deadline


class SlowLease(Lease):
    """A Lease whose renewals take the given seconds; the answer to the first one does not arrive."""

    def __init__(self, clock: ManualClock, *seconds: float) -> None:
        self.ours = Tenure("us", "", 0)
        self._left, self._manual = list(seconds), clock
        self.begun: list[float] = []

    def renew(self) -> bool:
        """Advance the clock by the duration of a request."""
        self.begun.append(round(self._manual.now, 3))
        self._manual.sleep(self._left.pop(0))
        return len(self.begun) > 1


def test_a_renewal_that_hangs_leaves_time_for_another_one() -> None:
    clock, timing = ManualClock(), timing_of(LEASE_SECONDS)
    term, over = Term(timing.renew_deadline, 0.0, clock.since_boot), threading.Event()
    hanging = timing.renew_deadline / 2
    lease = SlowLease(clock, hanging, 0.3, 0.3, 3 * LEASE_SECONDS)
    keep_renewing(lease, term, timing, over, clock)
    second = round(timing.retry + hanging, 3)
    assert lease.begun == [timing.retry, second, second + timing.retry, second + 2 * timing.retry]
