"""How far a build is, and how long it may still take."""

import pytest
from manual_clock import ManualClock

from controlplane.programs.compiling import Remaining


@pytest.mark.parametrize(
    ("seconds", "done", "text"),
    [
        (60.0, 0, "0 %"),
        (60.0, 4, "4 %"),  # too early for an estimate
        (60.0, 10, "10 %, about 9 min left"),
        (300.0, 50, "50 %, about 5 min left"),
        (300.0, 100, "100 %, about 1 min left"),  # the programs are linked
    ],
)
def test_the_estimate_follows_from_the_packages_that_are_compiled(seconds: float, done: int, text: str) -> None:
    clock = ManualClock()
    remaining = Remaining(clock.monotonic)
    clock.now = seconds
    remaining.report(done, 100)
    assert str(remaining) == text
