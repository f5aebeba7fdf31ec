"""Which gangs the controller plans in a round, and how long a rejection holds.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from inline_executors import inline
from manual_clock import ManualClock
from protocol_scenes import RACK, TOPOLOGY, gang, pod, snapshot

from controller.cluster_view import ClusterView
from controller.scheduling import planning_requests as solving
from controller.scheduling import rejections
from controller.scheduling.planning_queue import PlanningQueue
from controller.telemetry.metrics import Metrics
from gangs.model import Gang, GangKey, Reading
from gangs.sources import Sources
from kube.keys import PINNED_DOMAIN
from kube.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, OwnerReference, Pod, Requirement
from planning.decision import Decision, Outcome
from planning.message import Message
from planning.planner import plan_in_turn
from solver.plan import Proof
from solver.problem import Limits


def named(name: str, *pods: Pod, created: str = "2026-01-01T00:00:00Z") -> Gang:
    """A gang that needs all its pods in one rack."""
    return replace(gang(*pods), key=GangKey("phalanx", "default", name), required=RACK, created=created)


def picture(*pods: Pod, version: str = "1") -> ClusterView:
    """The cluster with these pods; `version` counts its changes."""
    there = replace(snapshot(*pods), version=version)
    return ClusterView(Sources(), Reading(), [TOPOLOGY], (), there, {})


def pair(stem: str) -> list[Pod]:
    """Two gated pods of 4 cpu."""
    return [pod(f"{stem}-0"), pod(f"{stem}-1")]


def answer(queue: PlanningQueue, gang: Gang, seen: ClusterView) -> Decision:
    """The planner's answer for one gang."""
    decision = queue.decide([gang], seen)[gang.key]
    assert decision is not None
    return decision


def test_the_older_of_two_gangs_that_compete_gets_the_room() -> None:
    young = named("a", *pair("a"), created="2026-01-02T00:00:00Z")
    old = named("b", *pair("b"), created="2026-01-01T00:00:00Z")
    answers = PlanningQueue(Limits(), Metrics(), inline()).decide([young, old], picture())
    assert {key.name: each and each.outcome for key, each in answers.items()} == {
        "a": Outcome.UNPLACEABLE,
        "b": Outcome.PLACED,
    }


@pytest.fixture
def clock() -> ManualClock:
    """The planner's clock."""
    return ManualClock()


def test_a_no_is_kept_while_nothing_has_changed(clock: ManualClock) -> None:
    queue, wide = PlanningQueue(Limits(), Metrics(), inline(), clock=clock), named("wide", *pair("w"), pod("w-2"))
    first = answer(queue, wide, picture())
    clock.now += 1000
    assert answer(queue, wide, picture()) is first


def test_a_no_is_looked_at_again_when_the_cluster_changes_but_not_at_once(clock: ManualClock) -> None:
    queue, wide = PlanningQueue(Limits(), Metrics(), inline(), clock=clock), named("wide", *pair("w"), pod("w-2"))
    first = answer(queue, wide, picture(pod("gone", bound="n3")))
    assert answer(queue, wide, picture(version="2")) is first
    clock.now += rejections.PROVEN_RETRIES.first
    assert answer(queue, wide, picture(version="2")) is not first


def test_a_changed_request_is_planned_at_once(clock: ManualClock) -> None:
    queue, wide = PlanningQueue(Limits(), Metrics(), inline(), clock=clock), named("wide", *pair("w"), pod("w-2"))
    queue.decide([wide], picture())
    relaxed = replace(wide, required=None)
    assert answer(queue, relaxed, picture()).outcome is Outcome.PLACED
    assert clock.now == 0.0


def test_a_gang_whose_plan_was_refused_is_left_alone_for_a_while(clock: ManualClock) -> None:
    queue, small = PlanningQueue(Limits(), Metrics(), inline(), clock=clock), named("small", *pair("s"))
    queue.hold_off(small, "a budget said no")
    assert answer(queue, small, picture()).message == "a budget said no"
    clock.now += rejections.HOLD_SECONDS
    assert answer(queue, small, picture()).outcome is Outcome.PLACED


def test_gangs_that_are_gone_are_forgotten(clock: ManualClock) -> None:
    queue, wide = PlanningQueue(Limits(), Metrics(), inline(), clock=clock), named("wide", *pair("w"), pod("w-2"))
    first = answer(queue, wide, picture())
    queue.forget([wide.key])
    clock.now += 1
    assert answer(queue, wide, picture()) is not first


def test_a_gang_on_which_planning_fails_stops_no_other(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    real = plan_in_turn

    def failing(gangs: Sequence[Gang], *arguments: Any, **options: Any) -> Iterable[Sequence[Decision]]:
        """Plan with an internal error for one gang."""
        if any(gang.key.name == "cursed" for gang in gangs):
            raise RuntimeError("a fault in the planner")
        return real(gangs, *arguments, **options)

    monkeypatch.setattr(solving, "plan_in_turn", failing)
    cursed, sound = named("cursed", *pair("c")), named("sound", *pair("s"))
    answers = PlanningQueue(Limits(), Metrics(), inline(), clock=clock).decide([cursed, sound], picture())
    placed, failed = answers[sound.key], answers[cursed.key]
    assert placed
    assert placed.outcome is Outcome.PLACED
    assert failed
    assert failed.outcome is Outcome.UNPLACEABLE
    assert "an error of Phalanx itself" in failed.message
    assert clock.now == 0.0


def tied_to(rack: str, name: str, owner: str = "ReplicaSet") -> Pod:
    """Return a gated pod that is pinned to the rack of its old siblings; `owner` "": no controller owns it."""
    term = NodeSelectorTerm(match_expressions=(Requirement(key=RACK, operator="In", values=(rack,)),))
    made = pod(name, affinity=Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(term,)))))
    made.metadata.annotations[PINNED_DOMAIN] = f"{RACK}={rack}"
    version = "apps/v1" if owner == "ReplicaSet" else "batch/v1"
    owners = (OwnerReference(api_version=version, kind=owner, name="x", controller=True),) if owner else ()
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=owners))


@pytest.mark.parametrize(
    ("what", "members", "freed"),
    [
        ("both fit into r1 without the tie", [tied_to("r2", "t"), pod("u")], ["t"]),
        ("there is room where it is tied to", [tied_to("r1", "t"), pod("u")], []),
        ("they would fit nowhere without it, either", [tied_to("r2", "t"), *pair("u")], []),
        ("a Job would count it as failed", [tied_to("r2", "t", "Job"), pod("u")], []),
        ("nobody would make it again", [tied_to("r2", "t", ""), pod("u")], []),
        ("another one, that stays, is tied as well", [tied_to("r2", "t"), tied_to("r2", "u", "")], []),
        ("siblings are still there", [tied_to("r2", "t"), pod("u"), pod("v", bound="n3")], []),
    ],
)
def test_members_are_held_back_where_their_tie_alone_keeps_the_gang_from_a_place(
    what: str, members: list[Pod], freed: list[str]
) -> None:
    queue, asked = PlanningQueue(Limits(), Metrics(), inline()), named("tied", *members)
    seen = picture(*members)
    decision = answer(queue, asked, seen)
    assert [each.metadata.name for each in queue.held_back(decision)] == freed, what


def test_nobody_is_held_back_by_a_no_that_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [tied_to("r2", "t"), pod("u")]
    asked, seen = named("tied", *members), picture(*members)
    queue = PlanningQueue(Limits(), Metrics(), inline())
    assert not queue.held_back(queue.hold_off(asked, "a budget said no"))

    def unproven(gangs: Sequence[Gang], *_: object, **__: object) -> Iterable[Sequence[Decision]]:
        """No plan was found in time."""
        return [
            [
                Decision(each, each.key, Outcome.UNPLACEABLE, Message.of("?"), proof=Proof.UNPROVEN.value)
                for each in gangs
            ]
        ]

    monkeypatch.setattr(solving, "plan_in_turn", unproven)
    queue = PlanningQueue(Limits(), Metrics(), inline())
    assert not queue.held_back(answer(queue, asked, seen))


def test_whether_a_tie_holds_a_gang_back_is_looked_at_once_for_each_no(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [tied_to("r2", "t"), pod("u")]
    asked, seen = named("tied", *members), picture(*members)
    queue, plans = PlanningQueue(Limits(), Metrics(), inline()), []
    real = plan_in_turn

    def counted(gangs: Sequence[Gang], *arguments: Any, **options: Any) -> Iterable[Sequence[Decision]]:
        """Plan with the real planner, and count the call."""
        plans.append(list(gangs))
        return real(gangs, *arguments, **options)

    monkeypatch.setattr(solving, "plan_in_turn", counted)
    for _ in range(3):
        assert len(queue.held_back(answer(queue, asked, seen))) == 1
    assert len(plans) == 2


def test_an_error_of_ours_sets_nobody_free(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [tied_to("r2", "t"), pod("u")]
    asked, seen = named("tied", *members), picture(*members)
    real, plans = plan_in_turn, list[object]()

    def failing(gangs: Sequence[Gang], *arguments: Any, **options: Any) -> Iterable[Sequence[Decision]]:
        """Plan with an internal error from the second call on, when the gang is planned without its pin."""
        plans.append(gangs)
        if len(plans) > 1:
            raise ArithmeticError
        return real(gangs, *arguments, **options)

    monkeypatch.setattr(solving, "plan_in_turn", failing)
    queue = PlanningQueue(Limits(), Metrics(), inline())
    decision = answer(queue, asked, seen)
    assert decision.proof == Proof.INFEASIBLE.value
    assert not queue.held_back(decision)
    faulty = PlanningQueue(Limits(), Metrics(), inline())
    assert not faulty.held_back(answer(faulty, asked, seen))
