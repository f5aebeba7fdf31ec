"""A plan is invalidated when the gang's request has changed, as long as no member is released.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from dataclasses import replace
from typing import Any

import pytest
from gang_builders import placed
from protocol_scenes import gang, pod, record, situation

from controller.release.next_step import Cause, NeedPlan, Nominate, Release, next_step
from controller.release.records import PlanRecord, record_of
from controller.release.request_digest import asks_as_in, request_digest
from gangs.model import CapRule, Gang, MultipleRule, PodSet, SliceRule, TogetherRule
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, Requirement

H100 = NodeSelectorTerm(match_expressions=(Requirement(key="gpu", operator="In", values=("h100",)),))
N1 = NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=("n1",)),))
AFFINITY = NodeAffinity(
    required=NodeSelector(node_selector_terms=(H100,)),
    preferred=(PreferredSchedulingTerm(weight=3, preference=N1),),
)
HELD = {"a": "n1", "b": "n2"}


def planned(of: Gang) -> PlanRecord:
    """The record of a plan for the gang as it asks now."""
    return replace(record(list(HELD.items())), plan_id=f"plan.{request_digest(of)}")


def members(plan: str) -> list[Any]:
    """Both members nominated as planned."""
    return [pod(name, nominated=node, plan=plan) for name, node in HELD.items()]


CHANGES: dict[str, dict[str, Any]] = {
    "the required level": {"required": "rack"},
    "the preferred level": {"preferred": "rack"},
    "the topology": {"topology": "other"},
    "the node affinity": {"node_affinity": AFFINITY},
    "the queue that it is charged to": {"queue": "z", "queue_dialect": "kueue"},
    "a rule of a set": {"pod_sets": (PodSet("main", 2, 2, slices=(SliceRule("rack", 2),)),)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_plan_for_another_request_falls_and_gives_back_its_room(change: dict[str, Any]) -> None:
    of = gang()
    plan = planned(of)
    pods = members(plan.plan_id)
    step = next_step(situation(replace(gang(*pods), **change), plan))
    assert step == NeedPlan("what it asks for has changed", tuple(pods), Cause.REQUEST_CHANGED)


def test_a_plan_for_the_same_request_stands() -> None:
    plan = planned(gang())
    assert isinstance(next_step(situation(gang(*members(plan.plan_id)), plan)), Release)


def test_a_plan_that_has_begun_to_be_released_is_finished() -> None:
    """A released member stays on its node, so the others have to follow."""
    plan = planned(gang())
    released = pod("a", bound="n1")
    step = next_step(situation(replace(gang(released, pod("b")), required="rack"), plan))
    assert isinstance(step, Nominate)


def test_fewer_pods_near_the_end_of_a_workload_are_no_other_request() -> None:
    of = gang(pod("a"), pod("b"))
    fewer = replace(of, min_member=1, expected=1, pod_sets=(PodSet(of.pod_sets[0].name, 1, 1),))
    assert request_digest(fewer) == request_digest(of)


def test_a_record_knows_the_request_that_its_decision_was_for() -> None:
    of = gang(pod("a"), pod("b"))
    assert record_of(placed(of, "n1", "n2")).request == request_digest(of)


EVERYTHING: dict[str, Any] = {
    "topology": "dc",
    "topology_kind": "Topology",
    "required": "block",
    "node_affinity": AFFINITY,
    "preempts": False,
    "together": (TogetherRule(("a", "b"), "rack"),),
    "multiples": (MultipleRule("rack", 2),),
    "pod_sets": (
        PodSet("a", 4, 2, "rack", None, (SliceRule("rack", 2),), (MultipleRule("rack", 2),), (CapRule("rack", 3),)),
        PodSet("b", 4, 4),
    ),
}
WRITTEN = {
    "a gang that asks for everything, by the first version": (EVERYTHING, "f3fbd8315fb1"),
    "the same, by the second": (EVERYTHING, "2-0f8ab5750f7e"),
    "a gang that asks for nothing, by the first version": ({}, "6aacd10982c6"),
    "the same, by the second version": ({}, "2-885b362706be"),
}
"""Digests that exist in clusters: every version of the program must compute the same ones."""


@pytest.mark.parametrize(("asked", "digest"), WRITTEN.values(), ids=WRITTEN)
def test_an_upgrade_plans_nobody_anew(asked: dict[str, Any], digest: str) -> None:
    of = replace(gang(pod("a"), pod("b")), **asked)
    assert asks_as_in(of, digest)
    assert not asks_as_in(replace(of, required="rack"), digest)


def test_a_field_that_says_nothing_is_no_part_of_a_digest() -> None:
    """Then a field of a later version does not change the digest of a gang that does not use the field."""
    assert request_digest(replace(gang(), node_affinity=NodeAffinity())) == request_digest(gang())
