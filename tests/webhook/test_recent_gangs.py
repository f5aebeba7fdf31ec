"""All gangs for forecasts: they are read again while that is cheap, and never for most of the time."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from manual_clock import ManualClock
from pictures import Manifest, StillPicture, job, node, pod, pod_group

from gangs.dialects.reading import described
from gangs.manifests import key_of
from gangs.sources import Sources
from webhook.forecasts.forecasting import forecast, waits
from webhook.forecasts.recent_gangs import CHEAP_SECONDS, REST, RecentGangs
from webhook.forecasts.slots import BusyError, SolveSlot

MEMBERS = [pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "llm"})]


class Asked(StillPicture):
    """A cluster view that counts the requests for all its sources."""

    times = 0

    def sources(self) -> Sources:
        """Return all given objects."""
        self.times += 1
        return super().sources()


class Clocks(ManualClock):
    """A clock that is set by hand, and a processor on which each reading costs as much."""

    def __init__(self, cost: float) -> None:
        super().__init__(100.0)
        self._spent = self._costs(cost)

    def processor(self) -> float:
        """Return the processor time used so far."""
        return next(self._spent)

    def _costs(self, cost: float) -> Iterator[float]:
        total = 0.0
        while True:
            yield total
            total += cost
            yield total


def test_cheap_readings_are_made_anew_every_time() -> None:
    clocks, picture = Clocks(CHEAP_SECONDS / 2), Asked([pod_group()], pods=MEMBERS)
    recent = RecentGangs(clocks)
    for _ in range(3):
        assert [each.key.name for each in recent.of(picture, 60.0).reading.gangs] == ["llm"]
    assert picture.times == 3


def test_a_dear_one_is_kept_for_a_while_that_its_cost_decides() -> None:
    clocks, picture = Clocks(2.0), Asked([pod_group()], pods=MEMBERS)
    recent = RecentGangs(clocks)
    first = recent.of(picture, 60.0)
    clocks.now += REST.pause(2.0) - 1
    assert recent.of(picture, 60.0) is first
    assert picture.times == 1
    clocks.now += 2
    assert [each.key.name for each in recent.of(picture, 60.0).reading.gangs] == ["llm"]
    assert picture.times == 2


class Slow(Asked):
    """A cluster view that blocks its answers until the test sets `let`."""

    def __init__(self, *objects: Manifest, **more: Any) -> None:
        super().__init__(objects, **more)
        self.let = threading.Event()

    def sources(self) -> Sources:
        """Return all given objects once `let` is set."""
        self.let.wait(60.0)
        return super().sources()


def test_who_has_no_time_for_a_reading_goes_without_and_the_next_one_finds_it() -> None:
    recent, picture = RecentGangs(), Slow(pod_group(), pods=MEMBERS)
    for _ in range(3):
        with pytest.raises(BusyError):
            recent.of(picture, 0.01)
    picture.let.set()
    assert [each.key.name for each in recent.of(picture, 60.0).reading.gangs] == ["llm"]
    assert picture.times <= 2, "three have waited for one reading"


def test_a_reading_that_fails_is_not_the_last_one() -> None:
    class Failing(Asked):
        """A cluster view that fails at the first request."""

        def sources(self) -> Sources:
            """Return all given objects from the second call on."""
            found = super().sources()
            if self.times == 1:
                raise ValueError("broken")
            return found

    recent, picture = RecentGangs(), Failing([pod_group()], pods=MEMBERS)
    with pytest.raises(ValueError, match="broken"):
        recent.of(picture, 60.0)
    assert recent.of(picture, 60.0).reading.gangs


def test_a_group_without_its_pods_is_told_what_it_waits_for_while_nobody_can_read_the_others() -> None:
    """5,000 of them come in as one does: no reading, no turn at the solver."""
    picture = Slow(nodes=[node("n1")])
    with SolveSlot(waiting=0).taken(1.0):
        assert waits(pod_group("late", 3), picture) == ("gang default/late: waits for 3 more pods: 0 of 3 exist",)
    assert picture.times == 0


@pytest.mark.parametrize(
    ("cpu", "priority", "readings"),
    [
        pytest.param(1, 0, 0, id="fits beside pods of its own priority"),
        pytest.param(6, 0, 0, id="does not fit beside pods of its own priority"),
        pytest.param(6, 5, 1, id="fits if a pod of lower priority is evicted"),
    ],
)
def test_a_forecast_reads_all_gangs_only_if_its_plan_depends_on_them(cpu: int, priority: int, readings: int) -> None:
    running = pod("p", nodeName="n1", priority=0, labels={"pod-group.scheduling.sigs.k8s.io": "llm"})
    picture = Asked([pod_group()], nodes=[node("n1")], pods=[running])
    asking = job(pods=1, annotations={"phalanx.dev/gang": "true"})
    asking["spec"]["template"]["spec"]["priority"] = priority
    asking["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
    (said, *_) = forecast(asking, picture, RecentGangs(), 10.0)
    assert (" fits " in said) == (cpu == 1 or priority > 0), said
    assert picture.times == readings


def test_the_gang_of_one_object_is_found_without_reading_the_others() -> None:
    """A forecast reads only its own object. The other objects are not read, whatever faults they have."""
    objects = [pod_group(f"g{number}", number) for number in range(5)]
    sources = Sources(objects={key_of(each): each for each in objects})
    for number, group in enumerate(objects):
        gang = described(group, sources)
        assert (gang and (gang.key.name, gang.min_member)) == (("g" + str(number), number) if number else None)
    assert described({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "g1"}}, sources) is None
