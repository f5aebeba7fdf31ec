"""PodGroups of KAI with subgroups: pod sets with minimums and places of their own, and what holds them together.

datacenter: block > rack > node
"""

from typing import Any

import pytest
from kai_objects import POD_GROUP
from written import DATACENTER, documents, pod, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.model import Gang, PodSet, TogetherRule
from gangs.sources import Sources
from kube.objects import Pod

SUB_GROUP = "kai.scheduler/subgroup-name"


def group(*parts: str, more: str = "") -> str:
    """A PodGroup of these subgroups."""
    return f"""
        apiVersion: scheduling.run.ai/v2alpha2
        kind: PodGroup
        metadata: {{name: g}}
        spec: {{subGroups: [{", ".join(parts)}]{more}}}
    """


def part(name: str, minimum: int | None = 1, parent: str = "", **levels: str) -> str:
    """A subgroup; levels by `required` and `preferred`."""
    fields = [f"name: {name}", f"minMember: {minimum}" if minimum is not None else ""]
    fields += [f"parent: {parent}" if parent else ""]
    places = [f"{key}TopologyLevel: {level}" for key, level in levels.items()]
    fields += [f"topologyConstraint: {{topology: datacenter, {', '.join(places)}}}" if places else ""]
    return f"{{{', '.join(filter(None, fields))}}}"


def member(name: str, of: str = "", **more: Any) -> Pod:
    """A pod of the group that joins a subgroup."""
    return pod(name, annotations={POD_GROUP: "g"}, labels={SUB_GROUP: of} if of else {}, **more)


def gang_of(text: str, *pods: Pod) -> Gang:
    """The one gang; nothing may be wrong."""
    there = sources(DATACENTER, text)
    reading = read_all(Sources(pods, there.objects))
    assert not reading.faults, reading.faults
    (gang,) = reading.gangs
    return gang


def faults(text: str, *pods: Pod) -> list[str]:
    """Return all faults of reading these objects and pods."""
    there = sources(DATACENTER, text)
    return [str(each) for each in read_all(Sources(pods, there.objects)).faults]


def test_leaves_are_pod_sets_with_their_own_minimums_and_places() -> None:
    text = group(part("prefill", 2, required="rack"), part("decode", 3, preferred="rack"), part("router", 0))
    gang = gang_of(text, member("p0", "prefill"), member("d0", "decode"), member("r0", "router"))
    assert gang.pod_sets == (
        PodSet("prefill", 2, 2, required="rack"),
        PodSet("decode", 3, 3, preferred="rack"),
        PodSet("router", 1, 0),
    )
    assert (gang.min_member, gang.expected, gang.topology) == (5, 6, "datacenter")
    assert [(each.pod.metadata.name, each.pod_set) for each in gang.members] == [
        ("p0", "prefill"),
        ("d0", "decode"),
        ("r0", "router"),
    ]


def test_what_a_wider_subgroup_requires_holds_its_leaves_together() -> None:
    text = group(
        part("replica", None, required="block"),
        part("prefill", 2, "replica", required="rack"),
        part("decode", 2, "replica"),
        part("router", 1),
        more=", topologyConstraint: {topology: datacenter, preferredTopologyLevel: block}",
    )
    gang = gang_of(text, member("p0", "prefill"))
    assert gang.together == (TogetherRule(("prefill", "decode"), "block"),)
    assert [(each.name, each.required) for each in gang.pod_sets] == [
        ("prefill", "rack"),
        ("decode", None),
        ("router", None),
    ]
    assert (gang.required, gang.preferred, gang.min_member) == (None, "block", 5)


@pytest.mark.parametrize(
    ("outer", "inner", "required"), [("block", "rack", "rack"), ("rack", "block", "rack"), ("rack", "", "rack")]
)
def test_around_one_leaf_alone_the_narrower_level_counts(outer: str, inner: str, required: str) -> None:
    leaf = part("a", 2, "around", **({"required": inner} if inner else {}))
    gang = gang_of(group(part("around", None, required=outer), leaf, part("b")), member("x", "a"))
    assert (gang.pod_sets[0].required, gang.together) == (required, ())


def test_a_minimum_of_the_whole_group_may_be_higher_than_its_parts() -> None:
    gang = gang_of(group(part("a", 1), part("b", 1), more=", minMember: 4"), member("x", "a"))
    assert (gang.min_member, gang.expected, [each.min_count for each in gang.pod_sets]) == (4, 4, [1, 1])


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        ("", "is missing, and PodGroup default/g has subgroups"),
        ("c", '"c" is no subgroup of PodGroup default/g that pods join'),
        ("around", '"around" is no subgroup of PodGroup default/g that pods join'),
    ],
)
def test_a_pod_joins_a_leaf(of: str, problem: str) -> None:
    text = group(part("around", None), part("a", 1, "around"), part("b"))
    answer = f"Pod default/x: metadata.labels[{SUB_GROUP}]: {problem}; write one of a, b"
    assert faults(text, member("x", of)) == [answer]


def test_a_circle_is_refused_wherever_it_is_entered() -> None:
    text = group(part("a", 1, "b"), part("b", 1, "a"))
    assert [each for each in faults(text) if "parent" in each] == [
        'PodGroup default/g: spec.subGroups[0].parent: "b" is in "a" itself; name another one',
        'PodGroup default/g: spec.subGroups[1].parent: "a" is in "b" itself; name another one',
    ]


def test_roles_beside_subgroups_and_preferences_above_them_are_said_to_count_for_nothing() -> None:
    text = group(part("around", None, preferred="block"), part("a", 1, "around"), part("b", 1, "around"))
    told = [each.text for each in review({**documents(text)[0]}, sources(DATACENTER, text))[1]]
    assert any(each.startswith("has no effect: a preferred level counts") for each in told)
    there = sources(DATACENTER, group(part("a")))
    mine = pod("x", annotations={POD_GROUP: "g", "scheduling.run.ai/topology-role": "prefill"}, labels={SUB_GROUP: "a"})
    advice = read_all(Sources([mine], there.objects)).advice
    assert any(each.text == "is ignored: the subgroups of PodGroup default/g are its pod sets" for each in advice)


def test_pods_that_jobs_make_count_for_the_subgroup_that_their_template_names() -> None:
    job = f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: j}}
        spec:
          parallelism: 3
          completions: 3
          template:
            metadata: {{annotations: {{{POD_GROUP}: g}}, labels: {{{SUB_GROUP}: a}}}}
            spec: {{restartPolicy: Never, containers: [{{name: main}}]}}
        status: {{succeeded: 1}}
    """
    there = sources(DATACENTER, group(part("a", 3), part("b", 1)), job)
    (gang,) = read_all(Sources([member("x", "a"), member("y", "b")], there.objects)).gangs
    assert [(each.name, each.count, each.min_count) for each in gang.pod_sets] == [("a", 2, 2), ("b", 1, 1)]
    assert gang.min_member == 3
