"""The forecast at the CREATE of a pod comes at once or not at all. Solves never pile up."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from manual_clock import ManualClock
from pictures import Manifest, StillPicture, node, pod, topology
from waiting import wait_for

from cluster.snapshot import Snapshot
from gangs.dialects.reading import read_all
from gangs.model import Gang, GangKey
from gangs.sources import Sources
from kube.objects import Pod
from timing.clock import SYSTEM_CLOCK, Clock
from webhook.forecasts import quick as quick_forecasts
from webhook.forecasts.quick import QuickForecasts
from webhook.forecasts.recent_gangs import RecentGangs
from webhook.forecasts.slots import SolveSlot
from webhook.metrics import Metrics

NODES = [node(f"node-{number}", rack=f"r{number // 2}") for number in range(4)]
PLAN = "gang default/llm: 4 pods fit in r0: node-0..1, proven optimal"
"""Two pods of 4 cpu fit on a node."""


class Slow(StillPicture):
    """A cluster view that blocks its answers until the test sets `gate`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.asked = 0
        self.gate = threading.Event()

    def sources_about(self, *manifests: Mapping[str, Any]) -> Sources:
        """After a while."""
        self.asked += 1
        assert self.gate.wait(600)
        return super().sources_about(*manifests)


class Changing(StillPicture):
    """A cluster view whose snapshot has a version."""

    version = "1"

    def snapshot(self) -> Snapshot:
        """With the version."""
        return Snapshot(super().snapshot().nodes, version=self.version)


def request(count: int, minimum: int = 4) -> tuple[list[Manifest], Gang]:
    """Return a gang of so many members in one rack: its objects, and the gang read from them."""
    metadata = {"name": "llm", "namespace": "default"}
    spec = {"minMember": minimum, "required": "rack"}
    asked = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": spec}
    objects = [asked, topology("rack")]
    members = [msgspec.convert(pod(f"p{i}", labels={"phalanx.dev/gang": "llm"}), Pod) for i in range(count)]
    still = StillPicture(objects).sources()
    return objects, read_all(Sources(members, still.objects)).gangs[0]


@pytest.fixture(autouse=True)
def _patient_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the solver 600 s, so that a slow machine proves the same. These tests do not test the real time limit."""
    monkeypatch.setattr(quick_forecasts, "SOLVE_SECONDS", 600.0)


def forecasts(clock: Clock = SYSTEM_CLOCK) -> QuickForecasts:
    """Forecasts with a slot of their own."""
    return QuickForecasts(SolveSlot(), Metrics(), RecentGangs(), clock=clock)


def eventually(asked: Callable[[], tuple[str, ...]], wanted: object) -> None:
    """Ask again until the answer is there: how long a solve takes is the machine's affair."""
    wait_for(lambda: asked() == wanted, asked)


@contextmanager
def letting_go(picture: Slow) -> Iterator[None]:
    """Unblock the cluster view at the end, whatever happens."""
    try:
        yield
    finally:
        picture.gate.set()


@pytest.mark.parametrize(("count", "waits"), [(1, "3 more pods: 1 of 4 exist"), (3, "1 more pod: 3 of 4 exist")])
def test_a_gang_that_lacks_members_is_told_so_without_a_solve(count: int, waits: str) -> None:
    objects, gang = request(count)
    picture = Slow(objects, nodes=NODES)
    assert forecasts().messages(gang, picture) == (f"gang default/llm: waits for {waits}",)
    assert picture.asked == 0


def test_the_plan_is_told_as_soon_as_it_is_known() -> None:
    objects, gang = request(4)
    picture, quick = StillPicture(objects, nodes=NODES), forecasts()
    eventually(lambda: quick.messages(gang, picture), (PLAN,))


def test_so_is_the_reason_why_there_is_none() -> None:
    objects, gang = request(6, minimum=6)
    picture, quick = StillPicture(objects, nodes=NODES), forecasts()
    eventually(lambda: quick.messages(gang, picture)[:1] and ("something",), ("something",))
    (reason,) = quick.messages(gang, picture)
    assert reason.startswith("gang default/llm: needs 6 pods in one rack: r0 fits 4")


def test_nobody_waits_longer_than_the_budget_and_one_solve_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    objects, gang = request(4)
    picture, quick = Slow(objects, nodes=NODES), forecasts()
    with letting_go(picture):
        assert quick.messages(gang, picture) == ()
        monkeypatch.setattr(quick_forecasts, "BUDGET_SECONDS", 600.0)  # all have it, and none uses it while one solves
        assert [quick.messages(gang, picture) for _ in range(200)] == [()] * 200
        assert picture.asked == 1
    eventually(lambda: quick.messages(gang, picture), (PLAN,))


def test_a_late_answer_is_told_to_the_next_that_asks_the_same() -> None:
    objects, gang = request(4)
    picture, quick = Slow(objects, nodes=NODES), forecasts()
    with letting_go(picture):
        assert quick.messages(gang, picture) == ()
    eventually(lambda: quick.messages(gang, picture), (PLAN,))
    solved = picture.asked
    assert quick.messages(gang, picture) == (PLAN,)
    assert picture.asked == solved


def remembered(metrics: Metrics) -> list[str]:
    """Return the metric of answers from memory."""
    return [line for line in metrics.text().decode().splitlines() if 'result="remembered"' in line and "_total" in line]


@pytest.mark.parametrize("change", ["nothing", "the cluster", "the request"])
def test_an_answer_is_told_again_only_of_the_very_same(change: str) -> None:
    objects, gang = request(4)
    metrics, picture = Metrics(), Changing(objects, nodes=NODES)
    quick = QuickForecasts(SolveSlot(), metrics, RecentGangs())
    eventually(lambda: quick.messages(gang, picture), (PLAN,))
    before = remembered(metrics)
    if change == "the cluster":
        picture.version = "2"
    if change == "the request":
        gang = request(5)[1]
    quick.messages(gang, picture)
    assert (remembered(metrics) == before) is (change != "nothing")


def test_a_busy_solver_is_not_waited_for() -> None:
    objects, gang = request(4)
    slot = SolveSlot()
    quick = QuickForecasts(slot, Metrics(), RecentGangs())
    picture = StillPicture(objects, nodes=NODES)
    with slot.taken(1.0):
        assert quick.messages(gang, picture) == ()
    eventually(lambda: quick.messages(gang, picture), (PLAN,))


def test_all_members_of_a_gang_are_looked_at_for_a_tenth_of_the_time_at_most() -> None:
    """Otherwise each pod beyond the minimum has the whole gang read again, and a larger gang takes longer to read."""
    objects, gang = request(6)
    clock, looked = ManualClock(), list[float]()
    picture, quick = StillPicture(objects, nodes=NODES), forecasts(clock)

    def all_members() -> Gang:
        clock.sleep(0.05)
        looked.append(clock.monotonic())
        return gang

    while len(looked) < 3:
        quick.messages(gang, picture, all_members)
        clock.sleep(0.01)
    assert [later - earlier for earlier, later in pairwise(looked)] == pytest.approx([0.5, 0.5], abs=0.02)


def test_another_gang_does_not_wait_for_the_first_to_have_rested() -> None:
    objects, gang = request(6)
    clock, looked = ManualClock(), list[GangKey]()
    picture, quick = StillPicture(objects, nodes=NODES), forecasts(clock)

    def all_members_of(asked: Gang) -> Callable[[], Gang]:
        def all_members() -> Gang:
            looked.append(asked.key)
            clock.sleep(0.2)
            return asked

        return all_members

    others = [replace(gang, key=gang.key._replace(name=name)) for name in ("a", "b")]
    for each in (*others, *others):
        quick.messages(each, picture, all_members_of(each))
    assert [key.name for key in looked] == ["a", "b"]
