"""PodGroups, gangs on pods alone, and GangGroups: what is written, and the gang that is read from it."""

from typing import Any

import msgspec
import pytest
from koordinator_objects import INDEX, SPEC, gather, group, member
from written import DATACENTER, NETWORK, example, pod, sources

from gangs.dialects.reading import read_all
from gangs.model import Gang, GangKey, MultipleRule, PodSet
from gangs.sources import Sources


def gangs_of(*texts: str, pods: tuple[Any, ...] = ()) -> tuple[Gang, ...]:
    written = sources(*texts)
    reading = read_all(Sources([*written.pods, *pods], written.objects, sharing={"*": "*"}))
    assert reading.faults == ()
    return reading.gangs


def test_the_first_example_of_the_document() -> None:
    """Two PreferGather layers: the narrower one is the wish, the order of the members is that of the index."""
    (gang,) = read_all(example("cluster-network-topology.yaml", "topology-demo-job.yaml")).gangs
    assert str(gang.source) == "PodGroup default/topology-demo-job"
    assert gang.key == GangKey("koordinator", "default", "topology-demo-job")
    assert (gang.required, gang.preferred) == (None, "BlockLayer")
    assert (gang.topology, gang.topology_kind) == ("default", "ClusterNetworkTopology")
    assert (gang.expected, gang.min_member, gang.pod_sets) == (4, 4, (PodSet("main", 4, 4),))
    assert [(each.pod.metadata.name, each.index) for each in gang.members] == [
        (f"training-pod-{index}", index) for index in range(4)
    ]
    assert (gang.exact_nodes, gang.messages, gang.schedule_timeout_seconds) == (True, "koordinator", 300)


def test_the_second_example_of_the_document() -> None:
    reading = read_all(
        example(
            "cluster-network-topology.yaml",
            "priorityclasses.yaml",
            "low-priority-pods.yaml",
            "high-priority-training.yaml",
        )
    )
    (gang,) = reading.gangs
    assert (gang.required, gang.preferred) == ("SpineLayer", None)
    assert [each.pod.metadata.name for each in gang.members] == [f"hp-training-pod-{index}" for index in range(4)]
    assert (reading.faults, reading.advice) == ((), ())


WISHES = {
    "the narrowest layer that must": (
        (("SpineLayer", "MustGather"), ("BlockLayer", "MustGather")),
        ("BlockLayer", None),
    ),
    "whatever the order": ((("BlockLayer", "MustGather"), ("SpineLayer", "MustGather")), ("BlockLayer", None)),
    "the narrowest layer that should": (
        (("BlockLayer", "PreferGather"), ("SpineLayer", "PreferGather")),
        (None, "BlockLayer"),
    ),
    "one that must and a narrower one that should": (
        (("SpineLayer", "MustGather"), ("BlockLayer", "PreferGather")),
        ("SpineLayer", "BlockLayer"),
    ),
    "nothing from a wish that the must implies": (
        (("BlockLayer", "MustGather"), ("SpineLayer", "PreferGather")),
        ("BlockLayer", None),
    ),
    "the node": ((("NodeTopologyLayer", "MustGather"),), ("NodeTopologyLayer", None)),
    "nothing from the root": ((("ClusterTopologyLayer", "MustGather"),), (None, None)),
    "nothing from nothing": ((), (None, None)),
}


@pytest.mark.parametrize(("entries", "levels"), WISHES.values(), ids=WISHES)
def test_a_strategy_asks_for(entries: tuple[Any, ...], levels: tuple[str | None, str | None]) -> None:
    (gang,) = gangs_of(NETWORK, group(network_topology_spec=gather(*entries)))
    assert (gang.required, gang.preferred) == levels


def test_multiples_are_rules_of_the_set() -> None:
    strategy = gather(("BlockLayer", "PreferGather", 4), ("SpineLayer", "PreferGather", 1))
    (gang,) = gangs_of(NETWORK, group(minimum=8, network_topology_spec=strategy))
    assert gang.pod_sets == (PodSet("main", 8, 8, multiples=(MultipleRule("BlockLayer", 4),)),)


TOPOLOGIES = {
    "its own kind, whatever else there is": ((NETWORK, DATACENTER), ("default", "ClusterNetworkTopology"), ()),
    "the only one there is": ((DATACENTER,), ("datacenter", "Topology"), ()),
    "none": ((), (None, "ClusterNetworkTopology"), ()),
}


@pytest.mark.parametrize(("objects", "topology", "waiting_for"), TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_gang_without_a_wish_uses(
    objects: tuple[str, ...], topology: tuple[str | None, str], waiting_for: tuple[str, ...]
) -> None:
    (gang,) = gangs_of(*objects, group())
    assert (gang.topology, gang.topology_kind) == topology
    assert gang.waiting_for == waiting_for


def test_a_gang_with_a_wish_waits_for_the_network() -> None:
    (gang,) = gangs_of(DATACENTER, group(network_topology_spec=gather(("SpineLayer", "MustGather"))))
    assert gang.waiting_for == ("ClusterNetworkTopology default",)


NUMBERS = {
    "the minimum": ({}, 0, (2, 2)),
    "the total": ({"total_number": "5"}, 0, (5, 2)),
    "the pods, where there are more": ({"total_number": "5"}, 6, (6, 2)),
    "the pods beyond the minimum": ({}, 3, (3, 2)),
}


@pytest.mark.parametrize(("annotations", "pods", "numbers"), NUMBERS.values(), ids=NUMBERS)
def test_the_number_expected_is(annotations: dict[str, Any], pods: int, numbers: tuple[int, int]) -> None:
    (gang,) = gangs_of(group(**annotations), pods=tuple(member(f"p-{number}") for number in range(pods)))
    assert (gang.expected, gang.min_member) == numbers


def test_pods_that_come_before_their_group_wait_for_it() -> None:
    (gang,) = gangs_of(pods=(member("p-0"), member("p-1")))
    assert gang.waiting_for == ("PodGroup default/g",)
    assert (str(gang.source), len(gang.members)) == ("Pod default/p-0", 2)


LIGHT = "pod-group.scheduling.sigs.k8s.io"
NAMED = "gang.scheduling.koordinator.sh"

POD_GANGS = {
    "by labels": ({f"{LIGHT}/name": "g", f"{LIGHT}/min-available": "2"}, {}),
    "by annotations": ({}, {f"{NAMED}/name": "g", f"{NAMED}/min-available": "2"}),
    "by a label and an annotation": ({f"{LIGHT}/name": "g"}, {f"{NAMED}/min-available": "2"}),
    "by both, where the label counts": (
        {f"{LIGHT}/name": "g", f"{LIGHT}/min-available": "2"},
        {f"{NAMED}/name": "h", f"{NAMED}/min-available": "9"},
    ),
}


@pytest.mark.parametrize(("labels", "annotations"), POD_GANGS.values(), ids=POD_GANGS)
def test_a_gang_needs_no_object(labels: dict[str, str], annotations: dict[str, str]) -> None:
    settings = {f"{NAMED}/waiting-time": "1m30s", SPEC: gather(("SpineLayer", "MustGather"))}
    pods = tuple(pod(f"p-{i}", labels=labels, annotations={**annotations, **settings}) for i in range(3))
    (gang,) = gangs_of(NETWORK, pods=pods)
    assert gang.key == GangKey("koordinator", "default", "g")
    assert str(gang.source) == "Pod default/p-0"
    assert (gang.min_member, gang.expected, gang.required) == (2, 3, "SpineLayer")
    assert gang.schedule_timeout_seconds == 90
    assert gang.waiting_for == ()


def test_a_gang_name_without_a_number_waits_for_its_group_and_takes_it() -> None:
    pods = (pod("p-0", labels={f"{LIGHT}/name": "g"}),)
    assert gangs_of(pods=pods)[0].waiting_for == ("PodGroup default/g",)
    (gang,) = gangs_of(group(), pods=pods)
    assert (str(gang.source), gang.waiting_for, len(gang.members)) == ("PodGroup default/g", (), 1)


BOTH = '["default/llm-worker", "default/llm-master"]'


def test_groups_make_one_gang_with_a_set_each() -> None:
    strategy = gather(("SpineLayer", "MustGather"))
    (gang,) = gangs_of(
        NETWORK,
        group("llm-worker", 3, groups=BOTH, network_topology_spec=strategy),
        group("llm-master", 1, groups=BOTH, network_topology_spec=strategy),
        pods=(member("w-1", "llm-worker"), member("m-0", "llm-master"), member("w-0", "llm-worker")),
    )
    assert gang.key == GangKey("koordinator", "default", "llm-master")
    assert [str(each) for each in gang.groups] == ["PodGroup default/llm-master", "PodGroup default/llm-worker"]
    assert gang.source == gang.groups[0]
    assert gang.pod_sets == (PodSet("llm-master", 1, 1), PodSet("llm-worker", 3, 3))
    assert (gang.min_member, gang.expected, gang.required) == (4, 4, "SpineLayer")
    assert [(each.pod_set, each.pod.metadata.name) for each in gang.members] == [
        ("llm-master", "m-0"),
        ("llm-worker", "w-0"),
        ("llm-worker", "w-1"),
    ]


def test_half_a_group_waits_for_the_other_half_and_keeps_its_name() -> None:
    (gang,) = gangs_of(group("llm-worker", 3, groups=BOTH))
    assert gang.waiting_for == ("PodGroup default/llm-master",)
    assert gang.key.name == "llm-master"
    assert gang.pod_sets == (PodSet("llm-worker", 3, 3),)


@pytest.mark.parametrize(("there", "late"), [("llm-worker", "llm-master"), ("llm-master", "llm-worker")])
def test_pods_of_the_other_half_contradict_nothing_while_its_group_has_not_been_seen(there: str, late: str) -> None:
    """A webhook may learn of a PodGroup a moment after it judges the first pods that were applied with it."""
    (gang,) = gangs_of(group(there, 1, groups=BOTH), pods=(member("p-0", late),))
    assert gang.waiting_for == (f"PodGroup default/{late}",)
    assert [each.pod.metadata.name for each in gang.members] == ["p-0"]


def test_groups_over_namespaces_have_sets_with_namespaces() -> None:
    both = '["a/g", "b/g"]'
    text = group("g", 1, groups=both)
    (gang,) = gangs_of(
        text.replace("name: g", "name: g, namespace: a"), text.replace("name: g", "name: g, namespace: b")
    )
    assert [each.name for each in gang.pod_sets] == ["a.g", "b.g"]


def test_the_same_rank_may_stand_in_each_set() -> None:
    (gang,) = gangs_of(
        group("llm-worker", 1, groups=BOTH),
        group("llm-master", 1, groups=BOTH),
        pods=tuple(
            member(name, of, annotations={INDEX: "0"}) for name, of in (("w", "llm-worker"), ("m", "llm-master"))
        ),
    )
    assert [(each.pod_set, each.index) for each in gang.members] == [("llm-master", 0), ("llm-worker", 0)]


def test_a_terminating_predecessor_may_have_the_same_rank() -> None:
    old = member("p-0", annotations={INDEX: "0"})
    leaving = Sources(pods=[_leaving(old), member("p-0b", annotations={INDEX: "0"})], objects=sources(group()).objects)
    reading = read_all(leaving)
    assert reading.faults == ()
    assert [each.pod.metadata.name for each in reading.gangs[0].members] == ["p-0b"]


def _leaving(old: Any) -> Any:
    meta = msgspec.structs.replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(old, metadata=meta)
