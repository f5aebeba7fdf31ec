"""Times of an election that could not be kept."""

import pytest

from controller.election import Timing


@pytest.mark.parametrize(("lease", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 2)])
def test_times_that_would_let_two_lead_are_refused(lease: float, deadline: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must hold: lease"):
        Timing(lease, deadline, retry)


def test_the_usual_times_hold() -> None:
    assert (Timing().lease, Timing().renew_deadline, Timing().retry) == (15, 10, 2)
