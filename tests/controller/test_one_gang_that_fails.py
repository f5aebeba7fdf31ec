"""An exception at one gang is an internal error: it is reported on that gang, and no other gang waits for it.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from controller_scene import GANGS, PODS, Leader, Scene, gang, member, place
from kubernetes.client.exceptions import ApiException
from planning_bench import Bench, members, named, picture
from protocol_scenes import pod
from test_pods_to_come import coming

from controller import reconcile_states
from controller.acting.executing import PlanExecutor
from controller.acting.restarting import Restarter
from controller.acting.withdrawing import PartialGangRollback
from controller.cluster_view import ClusterView
from controller.error_backoff import FAILED, Activity, ErrorBackoff
from controller.leadership.election import LeadershipLostError
from controller.reconcile_state import Effects, ReconcileState
from controller.scheduling.plan_revalidation import PlanRevalidation
from controller.scheduling.planning_requests import FAULTY
from controller.status.reporting import Reporter
from controller.telemetry.metrics import Metrics
from controller.writes.writer import Writer
from gangs.model import Gang, GangKey
from gangs.quota_model import Account, ClusterQueue, Flavor, FlavorQuotas, Quota, ResourceGroup
from kube.objects import Container, LabelSelector, Pod, ResourceQuota, ResourceRequirements
from planning.decision import Outcome


@pytest.fixture
def bench() -> Bench:
    """Its clock is the planner's."""
    return Bench()


def unreadable(made: Pod) -> Pod:
    """Return the pod with a value that no reader accepts."""
    asking = Container(name="c", resources=ResourceRequirements(requests={"cpu": "abc"}))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=(asking,)))


def with_quota() -> ClusterView:
    """Return a namespace's ResourceQuota that is not used up."""
    written = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"cpu": "100"}}}
    there = picture()
    quotas = {"default": (msgspec.convert(written, ResourceQuota),)}
    return replace(there, snapshot=replace(there.snapshot, quotas=quotas))


def odd(**more: Any) -> Gang:
    """Return a gang whose expected pod requests an invalid amount."""
    return replace(named("odd", pod("o-0"), unreadable(coming("o-1"))), **more)


def test_whoever_can_be_planned_is(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    pair = named("pair", *members("p", 2))
    with caplog.at_level(logging.ERROR):
        assert bench.round(odd(), pair, on=with_quota()) == {"odd": Outcome.UNPLACEABLE, "pair": None}
    assert "gang default/odd" in caplog.text
    told = bench.last[odd().key]
    assert told is not None
    assert told.message == FAULTY
    assert bench.metrics.registry.get_sample_value("phalanx_gang_errors_total", {"doing": "planning"}) == 1
    bench.fast.run()
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
    bench.fast.run()
    assert bench.round(late, on=with_quota()) == {"late": Outcome.PLACED}


def test_a_plan_that_nobody_can_look_through_is_not_taken_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = named("first", *members("p", 1)), named("second", *members("q", 1))
    bench.round(first, second)
    bench.fast.run()
    monkeypatch.setattr(PlanRevalidation, "fault", failing_at("first", PlanRevalidation.fault))
    assert bench.round(first, second) == {"first": Outcome.UNPLACEABLE, "second": Outcome.PLACED}


CASES = [
    (reconcile_states, "next_step", lambda situation: situation.gang.key, "what is due for it cannot be told"),
    (
        PlanExecutor,
        "_act",
        lambda _, gang_state, _cluster_view: gang_state.gang.key,
        "what is due for it cannot be done",
    ),
    (
        PartialGangRollback,
        "_withdraw_if_due",
        lambda _, gang_state, _cluster_view: gang_state.gang.key,
        "what is due for it cannot be done",
    ),
    (Restarter, "_await", lambda _, gang_state: gang_state.gang.key, "what is due for it cannot be done"),
    (Reporter, "_status", lambda _, gang_state, _phase, _notes: gang_state.gang.key, "how it stands cannot be told"),
    (Reporter, "_untold", lambda _, gang_state, _cluster_view: gang_state.gang.key, "how it stands cannot be told"),
]
"""The function that fails, how to get the gang of its call, and the reported text."""


@pytest.mark.parametrize(("owner", "name", "of", "said"), CASES, ids=[each[1] for each in CASES])
def test_a_gang_at_which_a_round_fails_is_left_alone_and_says_so(
    scene: Scene,
    leader: Leader,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: Any,
    name: str,
    of: Callable[..., GangKey],
    said: str,
) -> None:
    scene.api.create(GANGS, gang("odd", minMember=1))
    monkeypatch.setattr(owner, name, raising(getattr(owner, name), of))
    with caplog.at_level(logging.INFO):
        scene.api.create(PODS, member("o", "odd"))
        place(scene)
        scene.finish("a", "b")
        scene.api.wait(lambda: scene.status("odd").get("message") == FAILED, "it to be said")
        scene.api.wait(lambda: errors(leader) > 1, "it to be tried again")
    assert caplog.text.count(f"gang default/odd: {said}") == 1
    assert "round failed" not in caplog.text
    if name in ("next_step", "_act", "_status"):
        assert scene.gated("o")
    monkeypatch.undo()
    scene.gone("a")
    scene.finish("o")
    scene.await_phase("Placed", "odd")
    scene.api.wait(lambda: scene.status("odd")["message"] != FAILED, "it to stand as others")


def test_where_not_even_that_can_be_written_it_stands_in_the_log(
    scene: Scene, leader: Leader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def path(_writer: Writer, path: str, *_args: Any) -> str:
        return path.rpartition("/gangs/")[2]

    scene.api.create(GANGS, gang("odd", minMember=1))
    monkeypatch.setattr(Writer, "merge", raising(Writer.merge, path, "odd/status"))
    scene.api.create(PODS, member("o", "odd"))
    place(scene)
    scene.finish("a", "b")
    assert errors(leader) > 0
    assert "gang default/odd: " in caplog.text
    assert "round failed" not in caplog.text


def test_a_term_that_ends_while_a_gang_is_acted_for_ends_the_round(
    scene: Scene, leader: Leader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, after = vars(PlanExecutor)["_act"], []

    def act(executor: PlanExecutor, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects:
        if gang_state.gang.key.name == "llm":
            leader.die()
        if leader.over:
            after.append(gang_state.gang.key.name)
        effects: Effects = real(executor, gang_state, cluster_view)
        return effects

    monkeypatch.setattr(PlanExecutor, "_act", act)
    with caplog.at_level(logging.INFO):
        place(scene)
        scene.api.wait(lambda: "the round ends here" in caplog.text, "the round to end")
    assert errors(leader) == 0
    assert set(after) == {"llm"}
    assert scene.gated("a")


@pytest.mark.parametrize("error", [LeadershipLostError("x"), ApiException(500), ConnectionResetError()], ids=repr)
def test_what_concerns_everybody_goes_through(error: Exception) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)):
        ErrorBackoff(cast("Writer", None), Metrics()).run(odd().key, Activity.ACTING, call)


def errors(leader: Leader) -> float:
    """How often something failed at a gang."""
    return sum(
        sample.value
        for family in leader.metrics.gang_errors.collect()
        for sample in family.samples
        if sample.name == "phalanx_gang_errors_total"
    )


def raising(real: Callable[..., Any], of: Callable[..., object], at: object = "odd") -> Callable[..., Any]:
    """Return `real` with an internal error for one gang, the one for which `of` returns `at`."""

    def call(*args: Any, **more: Any) -> Any:
        found = of(*args)
        if (found.name if isinstance(found, GangKey) else found) == at:
            raise KeyError("an error of ours")
        return real(*args, **more)

    return call


def failing_at(name: str, real: Callable[..., str]) -> Callable[..., str]:
    """Return `real` with an internal error for the gang of this name."""

    def fault(revalidation: PlanRevalidation, decision: Any, gang: Gang, planning_request: Any) -> str:
        if gang.key.name == name:
            raise KeyError("an error of ours")
        return real(revalidation, decision, gang, planning_request)

    return fault
