"""What the controller plans in a round, and what it remembers of a no.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from protocol_scenes import RACK, TOPOLOGY, gang, pod, snapshot

from controller import deciding
from controller.deciding import Planner
from controller.metrics import Metrics
from controller.picture import Picture
from gangs.model import Gang, GangKey, Reading
from gangs.sources import Sources
from kube.objects import Pod
from planning.decision import Decision, Outcome
from solver.problem import Limits


def named(name: str, *pods: Pod, created: str = "2026-01-01T00:00:00Z") -> Gang:
    """A gang that needs all its pods in one rack."""
    return replace(gang(*pods), key=GangKey("phalanx", "default", name), required=RACK, created=created)


def picture(*pods: Pod, version: str = "1") -> Picture:
    """The cluster with these pods; `version` counts its changes."""
    there = replace(snapshot(*pods), version=version)
    return Picture(Sources(), Reading(), [TOPOLOGY], (), there, {}, {})


def pair(stem: str) -> list[Pod]:
    """Two gated pods of 4 cpu."""
    return [pod(f"{stem}-0"), pod(f"{stem}-1")]


def test_the_older_of_two_gangs_that_compete_gets_the_room() -> None:
    young = named("a", *pair("a"), created="2026-01-02T00:00:00Z")
    old = named("b", *pair("b"), created="2026-01-01T00:00:00Z")
    answers = Planner(Limits(), Metrics()).decide([young, old], picture())
    assert {key.name: each.outcome for key, each in answers.items()} == {
        "a": Outcome.UNPLACEABLE,
        "b": Outcome.PLACED,
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The planner's clock: its first element is the time."""
    time = [100.0]
    monkeypatch.setattr(deciding, "monotonic", lambda: time[0])
    return time


def test_a_no_is_kept_while_nothing_has_changed(clock: list[float]) -> None:
    planner, wide = Planner(Limits(), Metrics()), named("wide", *pair("w"), pod("w-2"))
    first = planner.decide([wide], picture())[wide.key]
    clock[0] += 1000
    assert planner.decide([wide], picture())[wide.key] is first


def test_a_no_is_looked_at_again_when_the_cluster_changes_but_not_at_once(clock: list[float]) -> None:
    planner, wide = Planner(Limits(), Metrics()), named("wide", *pair("w"), pod("w-2"))
    first = planner.decide([wide], picture())[wide.key]
    assert planner.decide([wide], picture(version="2"))[wide.key] is first
    clock[0] += deciding.FIRST_PAUSE
    assert planner.decide([wide], picture(version="2"))[wide.key] is not first


def test_a_changed_request_is_planned_at_once(clock: list[float]) -> None:
    planner, wide = Planner(Limits(), Metrics()), named("wide", *pair("w"), pod("w-2"))
    planner.decide([wide], picture())
    relaxed = replace(wide, required=None)
    assert planner.decide([relaxed], picture())[wide.key].outcome is Outcome.PLACED
    assert clock[0] == 100.0


def test_a_gang_whose_plan_was_refused_is_left_alone_for_a_while(clock: list[float]) -> None:
    planner, small = Planner(Limits(), Metrics()), named("small", *pair("s"))
    planner.hold_off(small, "a budget said no", picture())
    assert planner.decide([small], picture())[small.key].message == "a budget said no"
    clock[0] += deciding.HOLD_SECONDS
    assert planner.decide([small], picture())[small.key].outcome is Outcome.PLACED


def test_gangs_that_are_gone_are_forgotten(clock: list[float]) -> None:
    planner, wide = Planner(Limits(), Metrics()), named("wide", *pair("w"), pod("w-2"))
    first = planner.decide([wide], picture())[wide.key]
    planner.forget_others([])
    clock[0] += 1
    assert planner.decide([wide], picture())[wide.key] is not first


def test_a_gang_on_which_planning_fails_stops_no_other(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    real = deciding.plan_all

    def failing(gangs: Sequence[Gang], *arguments: object, **options: object) -> list[Decision]:
        """An error of ours on one gang."""
        if any(gang.key.name == "cursed" for gang in gangs):
            raise RuntimeError("a fault in the planner")
        return real(gangs, *arguments, **options)

    monkeypatch.setattr(deciding, "plan_all", failing)
    cursed, sound = named("cursed", *pair("c")), named("sound", *pair("s"))
    answers = Planner(Limits(), Metrics()).decide([cursed, sound], picture())
    assert answers[sound.key].outcome is Outcome.PLACED
    assert answers[cursed.key].outcome is Outcome.UNPLACEABLE
    assert "an error of Phalanx itself" in answers[cursed.key].message
    assert clock[0] == 100.0
