"""Times of an election that could not be kept."""

import pytest

from controller.defaults import LEASE_SECONDS
from controller.leadership.lease import LeaseTiming, timing_of


@pytest.mark.parametrize(("lease", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 2)])
def test_times_that_would_let_two_lead_are_refused(lease: float, deadline: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must hold: lease"):
        LeaseTiming(lease, deadline, retry)


def test_the_usual_times_leave_a_leader_three_tries() -> None:
    usual = timing_of(LEASE_SECONDS)
    assert usual.lease == 4
    assert 3 * usual.retry < usual.renew_deadline
