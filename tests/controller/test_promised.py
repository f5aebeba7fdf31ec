"""Recorded plans that are about to evict: which of them still may when all plans are taken together.

n1: web-1    n2: web-2    n3: web-3        each with 4 cpu, as much as a member wants
"""

from dataclasses import replace

import pytest
from protocol_scenes import PLAN_ID, gang, node, pod, record

from cluster.capturing import snapshot_of
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import Cause, Evict, NeedPlan, Release, Step
from controller.scheduling.eviction_checks import beside_promises, drop_unlawful
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet, Reading
from gangs.sources import Sources
from kube.objects import (
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
)

NODES = ("n1", "n2", "n3")


def web(number: int) -> Pod:
    made = pod(f"web-{number}", bound=f"n{number}", priority=0)
    return Pod(metadata=ObjectMeta(name=f"web-{number}", namespace="default", uid=f"uid-web-{number}"), spec=made.spec)


def picture(allowed: int, minimum: int = 0) -> ClusterView:
    """The pods under a budget over all; with a `minimum` they are a running gang."""
    pods = [web(number) for number in (1, 2, 3)]
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=DisruptionBudgetSpec(selector=LabelSelector()),
        status=DisruptionBudgetStatus(disruptions_allowed=allowed),
    )
    running = Gang(
        key=GangKey("phalanx", "default", "web"),
        source=ObjectRef("phalanx.dev/v1alpha1", "Gang", "default", "web"),
        members=tuple(Member(each, "main", None) for each in pods),
        pod_sets=(PodSet("main", 3, minimum),),
        expected=3,
        min_member=minimum,
    )
    there = snapshot_of(map(node, NODES), pods, budgets=[budget])
    live = {each.metadata.uid: each for each in pods}
    return ClusterView(Sources(), Reading((running,) if minimum else ()), (), (), there, live, {})


def evicting(name: str, victims: list[int], priority: int = 10) -> ReconcileState:
    """Return a gang whose plan is about to evict these pods."""
    member = pod(name, nominated=f"n{victims[0]}", priority=priority)
    plan = record([(name, f"n{victims[0]}")], [(f"web-{each}", f"n{each}") for each in victims])
    asked = replace(gang(member), key=GangKey("phalanx", "default", name))
    return ReconcileState(asked, {"metadata": {"namespace": "default", "name": name}}, plan, Evict(plan.victims))


def falls(step: Step) -> bool:
    return isinstance(step, NeedPlan) and step.cause is Cause.EVICTION_REFUSED


@pytest.mark.parametrize(
    ("allowed", "minimum", "victims", "fallen"),
    [
        (1, 0, {"a": [1]}, []),
        (1, 0, {"a": [1, 2]}, ["a"]),
        (2, 0, {"a": [1], "b": [2]}, []),
        (1, 0, {"a": [1], "b": [2]}, ["b"]),  # b is of lower priority
        (1, 0, {"a": [1], "b": [1]}, []),  # both plans take the same pod
        (3, 2, {"a": [1]}, []),
        (3, 3, {"a": [1]}, ["a"]),  # its gang needs more by now
        (3, 3, {"a": [1, 2, 3]}, []),
        (3, 2, {"a": [1], "b": [2]}, ["b"]),
        (3, 2, {"a": [1, 2], "b": [3]}, []),  # together all of it goes
    ],
)
def test_a_plan_falls_that_takes_too_much(
    allowed: int, minimum: int, victims: dict[str, list[int]], fallen: list[str]
) -> None:
    cases = [evicting(name, gone, 20 if name == "a" else 10) for name, gone in victims.items()]
    there, after = drop_unlawful(picture(allowed, minimum), cases)
    assert [case.gang.key.name for case in after if falls(case.step)] == fallen
    staying = {f"default/web-{each}" for name in victims.keys() - set(fallen) for each in victims[name]}
    assert there.snapshot.leaving == staying


def test_plans_that_have_fallen_promise_nothing() -> None:
    case = replace(evicting("a", [1]), step=NeedPlan("member a-1 is gone"))
    assert beside_promises(picture(1), [case]).snapshot.leaving == frozenset()
    assert case.record is not None
    assert case.record.plan_id == PLAN_ID


@pytest.mark.parametrize(("minimum", "step"), [(4, NeedPlan), (3, Release)], ids=["too few are left", "enough stay"])
def test_a_plan_falls_whose_own_gang_is_evicted_for_another(minimum: int, step: type[Step]) -> None:
    more = pod("web-4", nominated="n2", priority=0)
    there = picture(3)
    members = [*(web(number) for number in (1, 2, 3)), more]
    mending = replace(gang(*members), min_member=minimum, pod_sets=(PodSet("main", 4, minimum),))
    plan = record([("web-4", "n2")])
    case = ReconcileState(mending, {"metadata": {"namespace": "default", "name": "llm"}}, plan, Release(()))
    _, (after, _) = drop_unlawful(there, [case, evicting("a", [1])])
    assert isinstance(after.step, step)
