"""What fails at one gang is an error of ours: it is told on that gang, and no other waits for it.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from controller_scene import GANGS, PODS, Scene, gang, member, place
from planning_bench import Bench, clocked, members, named, picture
from protocol_scenes import pod
from test_pods_to_come import coming

from controller import gang_rounds
from controller.cluster_view import ClusterView
from controller.release.next_step import Situation, Step
from controller.scheduling.questions import FAULTY
from controller.scheduling.taking import Taking
from gangs.model import Gang
from gangs.quota_model import Account, ClusterQueue, Flavor, FlavorQuotas, Quota, ResourceGroup
from kube.objects import Container, LabelSelector, Pod, ResourceQuota, ResourceRequirements
from planning.decision import Outcome


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Its clock is the planner's."""
    return clocked(monkeypatch)


def unreadable(made: Pod) -> Pod:
    """The pod, as no reader would let it in."""
    asking = Container(name="c", resources=ResourceRequirements(requests={"cpu": "abc"}))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=(asking,)))


def with_quota() -> ClusterView:
    """A namespace with a quota that has room."""
    written = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"cpu": "100"}}}
    there = picture()
    quotas = {"default": (msgspec.convert(written, ResourceQuota),)}
    return replace(there, snapshot=replace(there.snapshot, quotas=quotas))


def odd(**more: Any) -> Gang:
    """One whose pod to come asks for an amount that is none."""
    return replace(named("odd", pod("o-0"), unreadable(coming("o-1"))), **more)


def test_whoever_can_be_planned_is(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    pair = named("pair", *members("p", 2))
    with caplog.at_level(logging.ERROR):
        assert bench.round(odd(), pair, on=with_quota()) == {"odd": Outcome.UNPLACEABLE, "pair": None}
    assert "gang default/odd" in caplog.text
    told = bench.last[odd().key]
    assert told is not None
    assert told.message == FAULTY
    bench.prompt.run()
    assert bench.round(odd(), pair, on=with_quota()) == {"odd": Outcome.UNPLACEABLE, "pair": Outcome.PLACED}


def test_it_is_looked_at_again_after_a_pause_only(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        bench.round(odd(), on=with_quota())
    assert caplog.text.count("gang default/odd") == 1


def test_in_a_strict_queue_the_others_do_not_stand_behind_it(bench: Bench) -> None:
    queue = ClusterQueue("pool", (ResourceGroup(("cpu",), (FlavorQuotas("any", (Quota("cpu", "12"),)),)),), strict=True)
    account = Account(replace(queue, namespaces=LabelSelector()), (Flavor("any", (), topology="t"),))
    late = replace(named("late", *members("l", 1)), account=account, created="2026-01-01T00:00:01Z")
    told = bench.round(odd(account=account), late, on=with_quota())
    assert told == {"odd": Outcome.UNPLACEABLE, "late": None}
    bench.prompt.run()
    assert bench.round(late, on=with_quota()) == {"late": Outcome.PLACED}


def test_a_plan_that_nobody_can_look_through_is_not_taken_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = named("first", *members("p", 1)), named("second", *members("q", 1))
    bench.round(first, second)
    bench.prompt.run()
    monkeypatch.setattr(Taking, "fault", failing_at("first", Taking.fault))
    assert bench.round(first, second) == {"first": Outcome.UNPLACEABLE, "second": Outcome.PLACED}


@pytest.mark.usefixtures("leader")
def test_a_gang_whose_next_step_nobody_can_tell_stays_as_it_is(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = gang_rounds.next_step

    def next_step(situation: Situation) -> Step:
        if situation.gang.key.name == "odd":
            raise KeyError("an error of ours")
        return real(situation)

    scene.api.create(GANGS, gang("odd", minMember=1))
    monkeypatch.setattr(gang_rounds, "next_step", next_step)
    scene.api.create(PODS, member("o", "odd"))
    place(scene)
    scene.finish("a", "b")
    assert scene.gated("o")
    assert "gang default/odd" in caplog.text
    monkeypatch.setattr(gang_rounds, "next_step", real)
    scene.gone("a")
    scene.finish("o")


def failing_at(name: str, real: Callable[..., str]) -> Callable[..., str]:
    """An error of ours, which shows at one gang."""

    def fault(taking: Taking, decision: Any, gang: Gang, question: Any) -> str:
        if gang.key.name == name:
            raise KeyError("an error of ours")
        return real(taking, decision, gang, question)

    return fault
