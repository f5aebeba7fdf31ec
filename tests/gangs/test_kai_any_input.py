"""Whatever PodGroups, pods and the ConfigMap of KAI say, reading ends with gangs, faults and advice."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kai_objects import CONFIG, POD_GROUP, POLICY, ROLE, settings
from written import DATACENTER, documents, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.topologies import topologies
from gangs.sources import Sources
from kube.objects import ObjectMeta, Pod

pytestmark = pytest.mark.repetitive

SCALARS = st.none() | st.booleans() | st.integers(-3, 200) | st.floats(-2, 2) | st.sampled_from(["", "rack", "a", "In"])
FIELDS = (
    *("minMember", "queue", "topologyPolicy", "scope", "affinity", "required", "key", "operator", "values"),
    *("topologyConstraint", "topology", "requiredTopologyLevel", "preferredTopologyLevel", "subGroups"),
    *("minSubGroup", "parent"),
    *("enabled", "policies", "levels", "name", "label", "weight", "strategy"),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)


@hypothesis_settings(max_examples=100)
@given(spec=ANYTHING, version=st.sampled_from(["v2", "v2alpha2"]))
def test_any_spec_of_a_group_is_read_or_refused(spec: Any, version: str) -> None:
    metadata = {"name": "g", "namespace": "default"}
    group = {"apiVersion": f"scheduling.run.ai/{version}", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    standing = sources(DATACENTER, CONFIG)
    faults, _ = review(group, standing)
    assert bool(faults) != bool(read_all(standing.having(group)).gangs)


@hypothesis_settings(max_examples=100)
@given(value=ANYTHING)
def test_any_text_of_the_configmap_is_read_or_refused(value: Any) -> None:
    (manifest,) = documents(settings(json.dumps({"topologyAwareScheduling": value})))
    review(manifest, Sources())
    (known,), _ = topologies(Sources(objects=sources(settings(json.dumps({"topologyAwareScheduling": value}))).objects))
    assert known.node_level.name == "node"


@pytest.mark.parametrize(
    "text", ["a: 2001-99-99", "[" * 3000, "? [a]: b", "a: &a [*a]", "", "\t", "a: !!python/name:x"]
)
def test_text_that_no_reader_takes_is_refused_or_empty(text: str) -> None:
    metadata = {"name": "kai-scheduler-config", "namespace": "kai-scheduler"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": text}}
    faults, _ = review(manifest, Sources())
    assert {each.object.name for each in faults} <= {"kai-scheduler-config"}


@hypothesis_settings(max_examples=50)
@given(
    pods=st.lists(
        st.builds(
            lambda number, annotations: Pod(
                metadata=ObjectMeta(name=f"p-{number}", namespace="default", annotations=annotations)
            ),
            st.integers(0, 9),
            st.dictionaries(
                st.sampled_from([POD_GROUP, "pod-group-name", POLICY, ROLE, "scheduling.run.ai/x"]),
                st.sampled_from(["", "g", "h", "nvlink-locality", "prefill", "a b"]),
            ),
        ),
        unique_by=lambda pod: pod.key,
        max_size=6,
    ),
    data=st.data(),
)
def test_the_order_in_which_pods_are_seen_changes_nothing(pods: list[Pod], data: st.DataObject) -> None:
    standing = sources(CONFIG)
    turned = data.draw(st.permutations(pods))
    before, after = (read_all(Sources(each, standing.objects)) for each in (pods, turned))
    assert before.gangs == after.gangs
    assert set(before.faults) == set(after.faults)
