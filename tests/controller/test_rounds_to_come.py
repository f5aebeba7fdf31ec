"""When the planner asks for another round though nothing changes in the cluster: neither never nor all the time.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import pytest
from inline_executors import HeldExecutor
from msgspec import structs
from planning_bench import FULL, Bench, members, named, picture
from protocol_scenes import pod

from controller.scheduling import planning_queue
from controller.scheduling.capacity_bound import CapacityBound
from controller.scheduling.demand import MinimumDemand
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.rejections import HOLD_SECONDS
from controller.scheduling.single_slot_executor import Lanes
from kube.objects import Container, ResourceRequirements
from planning.decision import Outcome

LATE = "2026-02-01T00:00:00Z"
ALL = [pod(f"x-{name}", bound=name) for name in ("n1", "n2", "n3")]


@pytest.fixture
def bench() -> Bench:
    """A planner whose clock also counts the time of solves."""
    return Bench()


class EndingExecutor(HeldExecutor):
    """Its work ends right after it was seen busy, if so told."""

    ends = False

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        seen = not self.works
        if self.ends:
            self.ends = False
            self.run()
        return seen


def test_rounds_do_not_chase_each_other_while_the_lane_is_busy(bench: Bench) -> None:
    """A gang that fits nowhere waits for the lane, in which another gang is planned."""
    wide, pair = named("wide", *members("w", 9)), named("pair", *members("p", 2), created=LATE)
    bench.round(wide, pair)
    assert bench.queue.due > bench.clock.now
    assert bench.queue.pausing, "it is looked again in half a second"


def test_a_lane_that_becomes_idle_within_a_round_is_not_overlooked() -> None:
    """Capacity has become free for a rejected gang. The round finds the lane busy, and reads the end of its work."""
    bench, lane = Bench(), EndingExecutor()
    bench.queue = PlanningQueue(FULL, bench.metrics, Lanes(lane, bench.slow))
    old, young = named("old", *members("o", 2)), named("young", *members("y", 1), created=LATE)
    bench.round(old, on=picture(*ALL))
    lane.run()
    bench.round(old, on=picture(*ALL))
    bench.round(old, young, on=picture(*ALL[:2], version="2"))
    bench.clock.now += 10.0
    lane.ends = True
    told = bench.round(old, young, on=picture(version="3"))
    assert told["young"] is Outcome.PLACED
    assert told["old"] is Outcome.UNPLACEABLE, "as before: it has not been asked"
    assert lane.idle
    assert bench.queue.pausing


def test_an_error_at_one_gang_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again although nothing has changed since, and the gang has already got the message."""

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(planning_queue, "waiting", fail)
    pair = named("pair", *members("p", 2))
    for _ in range(3):
        assert bench.round(pair)["pair"] is Outcome.UNPLACEABLE
        assert bench.queue.pausing
        bench.clock.now += HOLD_SECONDS


def test_an_error_in_counting_stops_no_other_gang(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CapacityBound.may_hold

    def fail(bound: CapacityBound, demand: MinimumDemand) -> bool:
        if demand.gang.key.name == "odd":
            raise OverflowError
        return counted(bound, demand)

    monkeypatch.setattr(CapacityBound, "may_hold", fail)
    odd, pair = named("odd", *members("o", 1)), named("pair", *members("p", 2), created=LATE)
    assert bench.round(odd, pair)["odd"] is Outcome.UNPLACEABLE
    bench.fast.run()
    assert bench.round(odd, pair)["pair"] is Outcome.PLACED


def test_resources_that_no_node_has_are_not_looked_for_on_each_of_them() -> None:
    """Users can invent resource names: with 5,000 nodes each one would take a millisecond in every round."""
    bound = CapacityBound().update(picture().snapshot, ())
    for number in range(3):
        asking = Container(name="c", resources=ResourceRequirements(requests={f"example.com/{number}": "1"}))
        odd = pod("odd", priority=0)
        odd = structs.replace(odd, spec=structs.replace(odd.spec, containers=(asking,)))
        assert not bound.may_hold(MinimumDemand(named("odd", odd)))
    assert bound._at(0)._columns.keys() <= {"cpu", "memory", "pods"}  # noqa: SLF001 -- what it costs is not told
