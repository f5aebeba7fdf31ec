"""Gang objects of our own: what is written, and the gang that is read from it."""

from typing import Any

import pytest
from written import DATACENTER, documents, pod, sources

from gangs.dialects.reading import read_all
from gangs.incremental.dependencies import MARKS_OF_PLANS
from gangs.manifests import key_of
from gangs.model import CapRule, Gang, MultipleRule, PodSet, SliceRule, TogetherRule
from gangs.sources import Sources
from kube.objects import Pod

HEAD = """
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: llm, creationTimestamp: "2026-01-01T00:00:00Z"}
    spec:
"""


def gang_with(spec: str, *pods: object, others: tuple[str, ...] = (DATACENTER,)) -> Gang:
    reading = read_all(_with_pods(sources(f"{HEAD}      {spec}", *others), *pods))
    assert reading.faults == ()
    return reading.gangs[0]


def _with_pods(written: Sources, *pods: Any) -> Sources:
    return Sources(pods=pods, objects=written.objects)


def member(name: str, **kwargs: Any) -> Pod:
    labels = {"phalanx.dev/gang": "llm", **kwargs.pop("labels", {})}
    return pod(name, labels=labels, **kwargs)


CASES = {
    "a minimum alone makes one set of that many": (
        "{minMember: 4}",
        {"min_member": 4, "expected": 4, "pod_sets": (PodSet("main", 4, 4),)},
    ),
    "required and preferred are kept as written, by name or by label": (
        "{minMember: 4, required: block, preferred: example.com/rack}",
        {"required": "block", "preferred": "example.com/rack"},
    ),
    "without a minimum all members of all sets must start": (
        "{podSets: [{name: a, count: 2}, {name: b, count: 3}]}",
        {"min_member": 5, "expected": 5, "pod_sets": (PodSet("a", 2, 2), PodSet("b", 3, 3))},
    ),
    "a minimum below the count leaves the rest for later": (
        "{minMember: 4, podSets: [{name: a, count: 6, minCount: 4}]}",
        {"min_member": 4, "expected": 6, "pod_sets": (PodSet("a", 6, 4),)},
    ),
    "every rule of a set is read": (
        (
            "{podSets: [{name: a, count: 8, required: block, preferred: rack, slices: [{level: block, size: 4},"
            " {level: rack, size: 2}], multiples: [{level: rack, of: 2}], maxPerDomain: [{level: rack, count: 4}]}]}"
        ),
        {
            "pod_sets": (
                PodSet(
                    "a",
                    8,
                    8,
                    required="block",
                    preferred="rack",
                    slices=(SliceRule("block", 4), SliceRule("rack", 2)),
                    multiples=(MultipleRule("rack", 2),),
                    max_per_domain=(CapRule("rack", 4),),
                ),
            )
        },
    ),
    "sets may be tied together": (
        "{podSets: [{name: a, count: 1}, {name: b, count: 1}], together: [{podSets: [a, b], level: rack}]}",
        {"together": (TogetherRule(("a", "b"), "rack"),)},
    ),
    "multiples of all sets together, and evicting nobody": (
        "{podSets: [{name: a, count: 1}, {name: b, count: 3}], multiples: [{level: rack, of: 2}], preempts: false}",
        {"multiples": (MultipleRule("rack", 2),), "preempts": False},
    ),
    "the rest is passed on": (
        "{minMember: 2, topology: datacenter, scheduleTimeoutSeconds: 60, queue: team-a, onFailure: Wait}",
        {"topology": "datacenter", "schedule_timeout_seconds": 60, "queue": "team-a", "on_failure": "Wait"},
    ),
    "nulls are as good as nothing": (
        "{minMember: 2, topology: null, podSets: null, nodeAffinity: null, multiples: null, preempts: null}",
        {"topology": None, "pod_sets": (PodSet("main", 2, 2),), "node_affinity": None, "preempts": True},
    ),
    "an empty affinity asks for nothing": ("{minMember: 2, nodeAffinity: {}}", {"node_affinity": None}),
    "its age is the object's": ("{minMember: 2}", {"created": "2026-01-01T00:00:00Z"}),
}


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES)
def test_a_gang_object_is_read_as_written(spec: str, expected: dict[str, object]) -> None:
    gang = gang_with(spec)
    assert str(gang.source) == "Gang default/llm"
    assert gang.key.dialect == "phalanx"
    assert {name: getattr(gang, name) for name in expected} == expected


def test_the_affinity_of_a_gang_is_that_of_a_pod() -> None:
    term = "{matchExpressions: [{key: gpu, operator: In, values: [h100]}]}"
    gang = gang_with(
        "{minMember: 2, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        f"[{term}]}}, preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 7, preference: {term}}}]}}}}"
    )
    assert gang.node_affinity is not None
    assert gang.node_affinity.required is not None
    (required,) = gang.node_affinity.required.node_selector_terms
    assert (required.match_expressions[0].key, required.match_expressions[0].values) == ("gpu", ("h100",))
    assert [each.weight for each in gang.node_affinity.preferred] == [7]


def test_members_are_the_live_pods_that_carry_the_name() -> None:
    gang = gang_with(
        "{minMember: 2}",
        member("llm-0"),
        member("llm-10"),
        member("llm-9"),
        member("other/llm-1"),
        pod("stranger"),
        member("done", status={"phase": "Succeeded"}),
        member("failed", status={"phase": "Failed"}),
    )
    assert [each.pod.metadata.name for each in gang.members] == ["llm-0", "llm-9", "llm-10"]


def test_more_pods_than_declared_are_members_beyond_the_minimum() -> None:
    gang = gang_with("{minMember: 2}", member("llm-0"), member("llm-1"), member("llm-2"))
    assert (gang.expected, gang.min_member, gang.pod_sets) == (3, 2, (PodSet("main", 3, 2),))


def test_sets_stand_in_the_order_of_the_object_whatever_the_names_of_the_pods() -> None:
    gang = gang_with(
        "{podSets: [{name: worker, count: 2}, {name: leader, count: 1}]}",
        member("a", labels={"phalanx.dev/pod-set": "leader"}),
        member("c", labels={"phalanx.dev/pod-set": "worker"}),
        member("b", labels={"phalanx.dev/pod-set": "worker"}),
    )
    assert [(each.pod_set, each.pod.metadata.name) for each in gang.members] == [
        ("worker", "b"),
        ("worker", "c"),
        ("leader", "a"),
    ]


def test_a_gang_expects_all_pods_of_the_jobs_whose_pods_name_it() -> None:
    job = """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: %s}
        spec: {parallelism: %s, template: {metadata: {labels: {phalanx.dev/gang: llm}}, spec: {}}}
    """
    gang = gang_with("{minMember: 2, required: rack}", others=(DATACENTER, job % ("a", 3), job % ("b", 1)))
    assert (gang.expected, gang.min_member, gang.waiting_for) == (4, 2, ())


WAITS = {
    "the topology it names": ("{minMember: 2, topology: hall}", (DATACENTER,), ("Topology hall",)),
    "any topology with its level": ("{minMember: 2, required: rack}", (), ('Topology with a level "rack"',)),
    "nothing for the node's own level": ("{minMember: 1, required: kubernetes.io/hostname}", (), ()),
    "nothing where it names no level": ("{minMember: 2}", (), ()),
}


@pytest.mark.parametrize(("spec", "others", "waiting_for"), WAITS.values(), ids=WAITS)
def test_a_gang_waits_for(spec: str, others: tuple[str, ...], waiting_for: tuple[str, ...]) -> None:
    assert gang_with(spec, others=others).waiting_for == waiting_for


def test_pods_that_come_before_their_gang_wait_for_it() -> None:
    reading = read_all(Sources(pods=[member("llm-0", annotations={"phalanx.dev/index": "3"}), member("llm-1")]))
    (gang,) = reading.gangs
    assert gang.waiting_for == ("Gang default/llm",)
    assert [each.index for each in gang.members] == [3, None]


def test_a_mirror_is_no_gang_of_its_own() -> None:
    (mirror,) = documents(f"{HEAD}      {{minMember: 2}}")
    mirror["metadata"] |= {"namespace": "default", "annotations": {"phalanx.dev/mirrors": "koordinator/default/llm"}}
    assert read_all(Sources().having(mirror)).gangs == ()


def test_marks_of_a_plan_on_members_cause_no_advice() -> None:
    """The controller writes them, so the user of the gang cannot mean anything by them."""
    gang, *_ = documents("""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {name: llm, namespace: default, uid: u1}
        spec: {minMember: 1}
    """)
    marks = dict.fromkeys(sorted(MARKS_OF_PLANS), "x")
    member = pod("llm-0", labels={"phalanx.dev/gang": "llm"}, annotations=marks)
    reading = read_all(Sources([member], {key_of(gang): gang}))
    assert [each.pod for each in reading.gangs[0].members] == [member]
    assert reading.advice == ()
