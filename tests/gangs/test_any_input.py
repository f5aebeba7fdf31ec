"""Whatever is written, reading it ends with gangs, faults and advice, never with an exception, and always the same."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from koordinator_objects import GROUPS, SPEC
from thorough import mostly
from written import DATACENTER, NETWORK, sources

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.manifests import key_of
from gangs.sources import Sources
from kube.objects import ObjectMeta, Pod

pytestmark = pytest.mark.repetitive

SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(-2, 2) | st.sampled_from(["", "rack", "a", "a/b"])
LEVELS = st.sampled_from(["SpineLayer", "BlockLayer", "NodeTopologyLayer", "ClusterTopologyLayer", "x", ""])


def objects_with(*fields: str) -> st.SearchStrategy[Any]:
    """Values of any shape that like to use these field names."""
    names = st.sampled_from(fields) | st.text(max_size=3)
    return st.recursive(
        SCALARS | LEVELS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=8,
    )


SPECS = {
    ("phalanx.dev/v1alpha1", "Gang"): objects_with(
        "minMember",
        "required",
        "preferred",
        "podSets",
        "name",
        "count",
        "minCount",
        "slices",
        "level",
        "size",
        "together",
    ),
    ("kueue.x-k8s.io/v1beta2", "Topology"): objects_with("levels", "nodeLabel"),
    ("phalanx.dev/v1alpha1", "Topology"): objects_with("levels", "name", "nodeLabel"),
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"): objects_with("minMember", "scheduleTimeoutSeconds"),
    ("scheduling.koordinator.sh/v1alpha1", "JobNetworkTopology"): objects_with(
        "topologyStrategy", "workerNum", "layer", "strategy"
    ),
    ("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology"): objects_with(
        "networkTopologySpec", "topologyLayer", "parentTopologyLayer", "labelKey"
    ),
    ("batch/v1", "Job"): objects_with("parallelism", "completions", "template", "metadata", "labels", "suspend"),
}


@pytest.mark.parametrize(("api_version", "kind"), mostly([*SPECS][:2], [*SPECS][2:]))
@settings(max_examples=50)
@given(data=st.data())
def test_any_spec_is_read_or_refused(api_version: str, kind: str, data: st.DataObject) -> None:
    spec = data.draw(SPECS[api_version, kind])
    annotations = {"phalanx.dev/gang": "true"} if kind == "Job" else {}
    metadata = {"name": "default", "namespace": "default", "annotations": annotations}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    standing = sources(DATACENTER, NETWORK)
    faults, _ = review(manifest, standing)
    grown, malformed = expanded(standing.having(manifest))
    reading = read_all(grown)
    assert (bool(faults)) >= bool(malformed)
    assert not (faults and any(gang.source.kind == kind for gang in reading.gangs))


ENTRIES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "layer": LEVELS | SCALARS,
            "strategy": st.sampled_from(["MustGather", "PreferGather", "Gather"]) | SCALARS,
            "podCountMultiple": SCALARS,
        },
    ),
    max_size=4,
)


@settings(max_examples=100)
@given(
    text=st.text(max_size=20)
    | objects_with("gatherStrategy").map(json.dumps)
    | ENTRIES.map(lambda entries: json.dumps({"gatherStrategy": entries})),
    groups=st.text(max_size=10) | objects_with("default/g").map(json.dumps),
)
def test_any_annotation_is_read_or_refused(text: str, groups: str) -> None:
    metadata = {"name": "g", "namespace": "default", "annotations": {SPEC: text, GROUPS: groups}}
    manifest = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata}
    faults, _ = review({**manifest, "spec": {"minMember": 2}}, sources(NETWORK))
    assert {each.object.name for each in faults} <= {"g"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"gatherStrategy": ' + "1" * 5000 + "}"], ids=["deep", "long"])
def test_json_that_no_reader_takes_is_refused(text: str) -> None:
    metadata = {"name": "g", "namespace": "default", "annotations": {SPEC: text}}
    manifest = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata}
    faults, _ = review({**manifest, "spec": {"minMember": 2}}, Sources())
    assert [each.problem for each in faults] == [
        "is not JSON that can be read: it nests too deep, or a number in it is too long"
    ]


PODS = st.lists(
    st.builds(
        lambda number, labels, index: Pod(
            metadata=ObjectMeta(
                name=f"p-{number}",
                namespace="default",
                labels=labels,
                annotations={"gang.scheduling.koordinator.sh/network-topology-index": str(index)} if index else {},
            )
        ),
        st.integers(0, 12),
        st.sampled_from(
            [
                {},
                {"phalanx.dev/gang": "g"},
                {"network-topology-job-name": "n", "pod-group.scheduling.sigs.k8s.io/name": "a"},
                {
                    "network-topology-job-name": "n",
                    "pod-group.scheduling.sigs.k8s.io/name": "b",
                    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
                },
                {"pod-group.scheduling.sigs.k8s.io": "g"},
                {"pod-group.scheduling.sigs.k8s.io/name": "h", "pod-group.scheduling.sigs.k8s.io/min-available": "2"},
            ]
        ),
        st.integers(0, 3),
    ),
    unique_by=lambda pod: pod.key,
    max_size=8,
)

STANDING = sources(
    NETWORK,
    """
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: g}
    spec: {minMember: 2, preferred: BlockLayer}
    ---
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: g}
    spec: {minMember: 2}
    """,
)


@settings(max_examples=70)
@given(pods=PODS, data=st.data())
def test_the_order_in_which_things_are_seen_changes_nothing(pods: list[Pod], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pods))
    turned = {key_of(each): each for each in reversed(list(STANDING.objects.values()))}
    before = read_all(Sources(pods=pods, objects=STANDING.objects))
    after = read_all(Sources(pods=shuffled, objects=turned))
    assert before.gangs == after.gangs
    assert set(before.faults) == set(after.faults)
    assert {each.pod.key for gang in before.gangs for each in gang.members} <= {each.key for each in pods}
