"""Wrong requests that Koordinator itself accepts silently, and the exact answer to each."""

import json
from typing import Any

import pytest
from koordinator_objects import GROUPS, INDEX, SPEC, gather, group
from written import NETWORK, documents, pod, sources

from gangs.dialects import read_all, review
from gangs.model import MultipleRule
from gangs.sources import Sources

AT = f"metadata.annotations[{SPEC}]"
PREFIX = "metadata.annotations[gang.scheduling.koordinator.sh/"
LAYERS = (
    "its levels are SpineLayer (example.com/spine), BlockLayer (example.com/block), "
    "NodeTopologyLayer (kubernetes.io/hostname)"
)


def spec_of(*entries: Any) -> str:
    return json.dumps({"gatherStrategy": list(entries)})


GROUPS_WRONG = {
    "broken JSON": (
        group(network_topology_spec='{\n "gatherStrategy": [\n'),
        (
            f"{AT}: is not JSON: line 3, column 1: Expecting value; "
            'write {"gatherStrategy": [{"layer": "…", "strategy": "MustGather"}]}'
        ),
    ),
    "JSON of another shape": (
        group(network_topology_spec="[]"),
        f"{AT}: is not an object with a list gatherStrategy; correct it",
    ),
    "an entry of another shape": (
        group(network_topology_spec=spec_of("SpineLayer")),
        f"{AT}.gatherStrategy[0]: is not an object; write layer and strategy",
    ),
    "a layer that the network lacks": (
        group(network_topology_spec=gather(("SpineLayr", "MustGather"))),
        (f'{AT}.gatherStrategy[0].layer: "SpineLayr" is not a level of ClusterNetworkTopology default; {LAYERS}'),
    ),
    "no layer": (
        group(network_topology_spec=spec_of({"strategy": "MustGather"})),
        f"{AT}.gatherStrategy[0].layer: is missing; name a layer of the ClusterNetworkTopology",
    ),
    "a strategy nobody knows": (
        group(network_topology_spec=gather(("SpineLayer", "ShouldGather"))),
        f'{AT}.gatherStrategy[0].strategy: "ShouldGather" is not known; write MustGather or PreferGather',
    ),
    "no strategy": (
        group(network_topology_spec=spec_of({"layer": "SpineLayer"})),
        f"{AT}.gatherStrategy[0].strategy: is missing; write MustGather or PreferGather",
    ),
    "a layer listed twice": (
        group(network_topology_spec=gather(("SpineLayer", "MustGather"), ("SpineLayer", "PreferGather"))),
        (
            f'{AT}.gatherStrategy[1].layer: layer "SpineLayer" is listed twice; '
            "keep one of MustGather and PreferGather for it"
        ),
    ),
    "a multiple of nothing": (
        group(network_topology_spec=gather(("SpineLayer", "MustGather", 0))),
        f"{AT}.gatherStrategy[0].podCountMultiple: 0 is not a whole number from 1 up; correct it or leave it out",
    ),
    "a multiple that cannot come out even": (
        group(minimum=5, total_number="7", network_topology_spec=gather(("SpineLayer", "MustGather", 4))),
        (
            f"{AT}.gatherStrategy: no number of pods from 5 to 7 is a multiple of 4; "
            "change minMember, total-number or podCountMultiple"
        ),
    ),
    "a minimum of none": (
        group(minimum=0),
        "spec.minMember: 0 is less than 1; write the number of pods that must start together",
    ),
    "a minimum above the total": (
        group(minimum=5, total_number="4"),
        (
            "spec.minMember: 5 is more than the 4 of gang.scheduling.koordinator.sh/total-number; "
            "lower it to 4 or raise the total"
        ),
    ),
    "a total that is no number": (
        group(total_number="many"),
        f'{PREFIX}total-number]: "many" is not a whole number from 1 up; correct it or leave it out',
    ),
    "a mode nobody knows": (
        group(mode="Lax"),
        f'{PREFIX}mode]: "Lax" is not known; write one of Strict, NonStrict',
    ),
    "a match policy nobody knows": (
        group(match_policy="always"),
        (
            f'{PREFIX}match-policy]: "always" is not known; '
            "write one of once-satisfied, only-waiting, waiting-and-running"
        ),
    ),
    "groups that are no JSON": (
        group(groups="default/g"),
        (
            f"{PREFIX}groups]: is not JSON: line 1, column 1: Expecting value; "
            'write a list such as ["default/g", "default/…"]'
        ),
    ),
    "groups without namespaces": (
        group(groups='["g", "h"]'),
        f'{PREFIX}groups]: is not a list of "namespace/name"; write a list such as ["default/g", "default/…"]',
    ),
    "groups that leave it out": (
        group(groups='["default/h"]'),
        f'{PREFIX}groups]: does not list default/g itself; write a list such as ["default/g", "default/…"]',
    ),
}


@pytest.mark.parametrize(("text", "fault"), GROUPS_WRONG.values(), ids=GROUPS_WRONG)
def test_a_pod_group_is_refused_for(text: str, fault: str) -> None:
    (manifest,) = documents(text)
    manifest["metadata"]["namespace"] = "default"
    faults, _ = review(manifest, sources(NETWORK))
    assert [str(each) for each in faults] == [f"PodGroup default/g: {fault}"]
    reading = read_all(sources(NETWORK, text))
    assert (reading.gangs, list(reading.faults)) == ((), faults)


def test_a_pod_group_without_a_minimum_is_refused() -> None:
    (manifest,) = documents(group())
    manifest["metadata"]["namespace"] = "default"
    del manifest["spec"]["minMember"]
    faults, _ = review(manifest, Sources())
    assert [str(each) for each in faults] == [
        "PodGroup default/g: spec.minMember: is missing; write the number of pods that must start together"
    ]


BOTH = '["default/a", "default/b"]'
MUST, PREFER = (gather(("SpineLayer", strategy)) for strategy in ("MustGather", "PreferGather"))
PAIRS = {
    "another list": (
        group("a", groups=BOTH),
        group("b", groups='["default/b"]'),
        (
            f"metadata.annotations[{GROUPS}]: lists [default/b], "
            "but PodGroup default/a lists [default/a, default/b]; write the same list on all of them"
        ),
    ),
    "no list": (
        group("a", groups=BOTH),
        group("b"),
        (
            f"metadata.annotations[{GROUPS}]: lists [default/b], "
            "but PodGroup default/a lists [default/a, default/b]; write the same list on all of them"
        ),
    ),
    "another wish": (
        group("a", groups=BOTH, network_topology_spec=MUST),
        group("b", groups=BOTH, network_topology_spec=PREFER),
        f"{AT}: differs from that of PodGroup default/a, which is in the same group; write the same on all of them",
    ),
}


@pytest.mark.parametrize(("first", "second", "fault"), PAIRS.values(), ids=PAIRS)
def test_the_second_of_two_groups_is_refused_for(first: str, second: str, fault: str) -> None:
    (manifest,) = documents(second)
    manifest["metadata"]["namespace"] = "default"
    standing = sources(NETWORK, first)
    for each in standing.objects.values():
        each["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    faults, _ = review(manifest, standing)
    assert [str(each) for each in faults] == [f"PodGroup default/b: {fault}"]
    assert read_all(standing.having(manifest)).gangs == ()


def test_the_first_of_two_groups_is_admitted_alone_and_may_be_mended_first() -> None:
    """Mending goes from the older to the younger: else neither could be changed while both stand."""
    standing = sources(group("a", groups=BOTH), group("b", groups=BOTH, network_topology_spec=MUST), NETWORK)
    for name, each in zip("ab", list(standing.objects.values())[:2], strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{'ab'.index(name) + 1}T00:00:00Z"
    older = standing.get("scheduling.sigs.k8s.io", "PodGroup", "default", "a")
    assert older is not None
    faults, advice = review(older, standing)
    assert faults == []
    assert [each.text for each in advice] == [
        (
            f"the gang default/a cannot be planned: PodGroup default/b: {AT}: differs from that of PodGroup default/a, "
            "which is in the same group; write the same on all of them"
        )
    ]


def member(name: str, *, created: str | None = None, priority: int = 0, **annotations: str) -> dict[str, Any]:
    written = {f"gang.scheduling.koordinator.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"pod-group.scheduling.sigs.k8s.io": "g"},
            "annotations": written,
            "creationTimestamp": created,
        },
        "spec": {"priority": priority},
    }


def light(name: str, **settings: str) -> dict[str, Any]:
    """A member of a gang that its pods alone describe."""
    manifest = member(name, **{"min_available": "2", **settings})
    manifest["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
    return manifest


PODS_WRONG = {
    "a rank that is no number": (
        member("p", network_topology_index="one"),
        (
            f'metadata.annotations[{INDEX}]: "one" is not a whole number from 0 up; '
            "write the member's rank, or leave it out"
        ),
    ),
    "a rank below none": (
        member("p", network_topology_index="-1"),
        (
            f'metadata.annotations[{INDEX}]: "-1" is not a whole number from 0 up; '
            "write the member's rank, or leave it out"
        ),
    ),
    "a rank that a sibling holds": (
        member("p", network_topology_index="0"),
        (
            f"metadata.annotations[{INDEX}]: rank 0 is already held by Pod default/first; "
            "give each live member a rank of its own"
        ),
    ),
    "another priority than its siblings'": (
        member("p", priority=9),
        (
            "spec.priority: 9 differs from 0 of Pod default/first in PodGroup default/g; "
            "give all members of a gang one priority"
        ),
    ),
}


@pytest.mark.parametrize(("manifest", "fault"), PODS_WRONG.values(), ids=PODS_WRONG)
def test_a_pod_of_a_group_is_refused_for(manifest: dict[str, Any], fault: str) -> None:
    first = pod(
        "first",
        labels={"pod-group.scheduling.sigs.k8s.io": "g"},
        annotations={INDEX: "0"},
        created="2026-01-01T00:00:00Z",
        priority=0,
    )
    faults, _ = review(manifest, Sources(pods=[first], objects=sources(group()).objects))
    assert [str(each) for each in faults] == [f"Pod default/p: {fault}"]


LIGHT_WRONG = {
    "a minimum that is no number": (
        light("p", min_available="few"),
        f'{PREFIX}min-available]: "few" is not a whole number from 1 up; correct it',
    ),
    "another minimum than its siblings'": (
        light("p", min_available="3"),
        f"{PREFIX}min-available]: 3 differs from 2 of Pod default/first; write the same number on every member",
    ),
}


@pytest.mark.parametrize(("manifest", "fault"), LIGHT_WRONG.values(), ids=LIGHT_WRONG)
def test_a_pod_of_a_gang_without_an_object_is_refused_for(manifest: dict[str, Any], fault: str) -> None:
    first = pod(
        "first",
        labels={"pod-group.scheduling.sigs.k8s.io/name": "g"},
        annotations={"gang.scheduling.koordinator.sh/min-available": "2"},
        created="2026-01-01T00:00:00Z",
    )
    faults, _ = review(manifest, Sources(pods=[first]))
    assert [str(each) for each in faults] == [f"Pod default/p: {fault}"]


@pytest.mark.parametrize("text", ["soon", "-5s", "10", "", "5m x"])
def test_a_waiting_time_must_be_a_duration(text: str) -> None:
    faults, _ = review(light("p", waiting_time=text), Sources())
    assert [each.problem for each in faults] == [f'"{text}" is not a duration above 0']


ADVICE = {
    "an annotation nobody reads": (
        group(totalnumber="4"),
        (
            f"PodGroup default/g: {PREFIX}totalnumber]: is ignored: the known ones are "
            + ", ".join(
                f"gang.scheduling.koordinator.sh/{key}"
                for key in ("total-number", "mode", "match-policy", "groups", "network-topology-spec", "timeout")
            )
        ),
    ),
    "a field nobody knows in the JSON": (
        group(network_topology_spec=spec_of({"layer": "SpineLayer", "strategy": "MustGather", "podCount": 4})),
        (
            f"PodGroup default/g: {AT}.gatherStrategy[0].podCount: is ignored: "
            "the known fields are layer, strategy, podCountMultiple"
        ),
    ),
    "a strategy that asks for nothing": (
        group(network_topology_spec="{}"),
        f"PodGroup default/g: {AT}.gatherStrategy: is empty: it asks for nothing",
    ),
    "a wish that is implied": (
        group(network_topology_spec=gather(("BlockLayer", "MustGather"), ("SpineLayer", "PreferGather"))),
        (
            f'PodGroup default/g: {AT}.gatherStrategy[1]: adds nothing: MustGather of "BlockLayer" '
            'implies that "SpineLayer" is shared'
        ),
    ),
    "the other half of a group": (
        group(groups='["default/g", "default/h"]'),
        "PodGroup default/g: metadata.name: the gang default/g waits for PodGroup default/h",
    ),
    "a multiple that the minimum does not reach": (
        group(minimum=6, network_topology_spec=gather(("BlockLayer", "MustGather", 4))),
        (
            f"PodGroup default/g: {AT}.gatherStrategy: no number of pods from 6 to 6 is a multiple of 4: "
            "the gang needs more pods than its minimum"
        ),
    ),
}


@pytest.mark.parametrize(("text", "advice"), ADVICE.values(), ids=ADVICE)
def test_a_warning_is_given_for(text: str, advice: str) -> None:
    (manifest,) = documents(text)
    manifest["metadata"]["namespace"] = "default"
    faults, given = review(manifest, sources(NETWORK))
    assert faults == []
    assert [str(each) for each in given] == [advice]


def test_a_layer_is_only_waited_for_while_there_is_no_network() -> None:
    (manifest,) = documents(group(network_topology_spec=gather(("SpineLayr", "MustGather"))))
    manifest["metadata"]["namespace"] = "default"
    faults, advice = review(manifest, Sources())
    assert faults == []
    assert [each.text for each in advice] == ["the gang default/g waits for ClusterNetworkTopology default"]


def test_a_wish_on_a_pod_of_a_group_is_said_to_be_ignored() -> None:
    _, advice = review(member("p", network_topology_spec=MUST), sources(group()))
    assert [str(each) for each in advice] == [
        f"Pod default/p: {AT}: is ignored on a pod of a PodGroup: write it on the PodGroup"
    ]


def test_multiples_over_several_groups_count_the_pods_of_all() -> None:
    """Two groups of 2 pods are 4, of which no number is a multiple of 3; with a declared total that is a fault."""
    strategy = gather(("SpineLayer", "MustGather", 3))
    written = {"groups": BOTH, "network_topology_spec": strategy}
    advice = "no number of pods from 4 to 4 is a multiple of 3"
    reading = read_all(sources(NETWORK, *(group(name, **written) for name in "ab")))
    assert reading.faults == ()
    assert [each.text for each in reading.advice] == [f"{advice}: the gang needs more pods than its minimum"]
    reading = read_all(sources(NETWORK, *(group(name, total_number="2", **written) for name in "ab")))
    assert [str(each) for each in reading.faults] == [
        f"PodGroup default/a: {AT}.gatherStrategy: {advice}; change minMember, total-number or podCountMultiple"
    ]


def test_multiples_over_several_groups_are_rules_of_the_gang() -> None:
    strategy = gather(("SpineLayer", "MustGather", 2))
    first, second = (group(name, groups=BOTH, network_topology_spec=strategy) for name in "ab")
    (gang,) = read_all(sources(NETWORK, first, second)).gangs
    assert gang.multiples == (MultipleRule("SpineLayer", 2),)
    assert [each.multiples for each in gang.pod_sets] == [(), ()]
