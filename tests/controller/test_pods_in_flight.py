"""For which pods a plan waits before it takes devices: those that the scheduler may have tried before the probe."""

import pytest
from manual_clock import ManualClock
from protocol_scenes import pod

from controller.acting.pods_in_flight import APPEARS_WITHIN_SECONDS, LONGEST_BINDING_SECONDS, PodsInFlight
from kube.objects import Pod

EARLY, LATE = (pod(name, gated=False, nominated="n1") for name in ("early", "late"))


@pytest.fixture
def clock() -> ManualClock:
    """A clock that the test advances."""
    return ManualClock()


@pytest.fixture
def waits(clock: ManualClock) -> PodsInFlight:
    """No plan waits yet."""
    return PodsInFlight(clock)


def first(waits: PodsInFlight, *pods: Pod) -> str:
    """The name of the pod that the plan waits for."""
    found = waits.first("plan", pods)
    return found.metadata.name if found is not None else ""


def test_a_pod_that_was_nominated_at_the_probe_is_waited_for(waits: PodsInFlight, clock: ManualClock) -> None:
    assert first(waits, EARLY) == "early"
    assert not waits.is_long("plan")
    clock.now += 60.0
    assert first(waits, EARLY) == "early"
    assert waits.is_long("plan")
    assert first(waits) == ""


def test_a_pod_that_the_scheduler_tried_after_the_probe_is_not_waited_for(
    waits: PodsInFlight, clock: ManualClock
) -> None:
    """Otherwise a gang might wait for ever on a node that other pods with claims come to all the time."""
    assert first(waits) == ""
    clock.now += APPEARS_WITHIN_SECONDS + 1
    assert first(waits, LATE) == ""


def test_a_nomination_may_appear_a_little_after_the_condition_of_the_probe(
    waits: PodsInFlight, clock: ManualClock
) -> None:
    assert first(waits) == ""
    clock.now += APPEARS_WITHIN_SECONDS / 2
    assert first(waits, LATE) == "late"
    clock.now += 60.0
    assert first(waits, LATE) == "late"


def test_no_pod_is_waited_for_for_longer_than_a_binding_cycle_lasts(waits: PodsInFlight, clock: ManualClock) -> None:
    assert first(waits, EARLY) == "early"
    clock.now += LONGEST_BINDING_SECONDS - 1
    assert first(waits, EARLY) == "early"
    clock.now += 1
    assert first(waits, EARLY) == ""


def test_further_writes_begin_the_wait_again(waits: PodsInFlight, clock: ManualClock) -> None:
    assert first(waits, EARLY) == "early"
    clock.now += LONGEST_BINDING_SECONDS
    waits.forget("plan")
    assert first(waits, EARLY) == "early"
    waits.keep(["another"])
    assert not waits.is_long("plan")
