"""Koordinator's topology selector: a gang is placed near the pods that carry the same key.

s1: b1 (n1, n2), b2 (n3, n4)      s2: b3 (n5, n6), b4 (n7, n8)      each node holds one pod of 8 cpu
"""

import pytest
from scenes import labelled, node, solved

NODES = {f"n{i + 1}": (f"s{i // 4 + 1}", f"b{i // 2 + 1}") for i in range(8)}
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"
GROUP = "pod-group.scheduling.sigs.k8s.io"
NETWORK = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "SpineLayer", "labelKey": ["example.com/spine"]},
            {"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"], "parentTopologyLayer": "SpineLayer"},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
        ]
    },
}


def cluster() -> list[dict[str, object]]:
    labels = {name: {"example.com/spine": spine, "example.com/block": block} for name, (spine, block) in NODES.items()}
    return [node(name, each) for name, each in labels.items()]


def member(name: str, group: str, selector: str, on: str = "", cpu: int = 8) -> dict[str, object]:
    """A pod of a group with a selector; `on` is the node where it runs."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    annotations = {SELECTOR: selector} if selector else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return labelled(manifest, **{GROUP: group})


def group(name: str, minimum: int) -> dict[str, object]:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum},
    }


PLACES = {
    "in the same block": (["n7"], "job", {"n8"}),
    "in the block with more of them": (["n1", "n5", "n6", "n7"], "job", {"n8"}),
    "the first free one without any": ([], "job", {"n1"}),
}


@pytest.mark.parametrize(("running", "selector", "nodes"), PLACES.values(), ids=PLACES)
def test_one_pod_goes_near_those_of_its_key(running: list[str], selector: str, nodes: set[str]) -> None:
    there = [member(f"old-{on}", "old", selector, on) for on in running]
    before = [group("old", len(running)), *there] if running else []
    (decision,) = solved(cluster(), NETWORK, before, group("new", 1), member("new-0", "new", selector)).decisions
    assert {each.node for each in decision.assignments} == nodes


def test_compactness_comes_first() -> None:
    """Two pods have a whole block only in s1, though a pod of their key runs in s2."""
    there = [member("old-0", "old", "job", "n5"), member("busy", "old", "", "n7")]
    pods = [member(f"new-{i}", "new", "job") for i in range(2)]
    (decision,) = solved(cluster(), NETWORK, group("old", 2), there, group("new", 2), pods).decisions
    blocks = {NODES[each.node][1] for each in decision.assignments}
    assert len(blocks) == 1


def test_of_two_blocks_that_fit_alike_the_one_in_the_spine_of_its_key_is_taken() -> None:
    there = [member("old-0", "old", "job", "n5"), member("old-1", "old", "", "n1")]
    pods = [member(f"new-{i}", "new", "job") for i in range(2)]
    (decision,) = solved(cluster(), NETWORK, group("old", 2), there, group("new", 2), pods).decisions
    assert {each.node for each in decision.assignments} == {"n7", "n8"}


def test_a_key_of_another_namespace_is_another_key() -> None:
    far = member("old-0", "old", "job", "n8")
    far["metadata"]["namespace"] = "elsewhere"  # type: ignore[index]
    (decision,) = solved(cluster(), NETWORK, far, group("new", 1), member("new-0", "new", "job")).decisions
    assert "preferences" not in {goal.name for goal in decision.goals if goal.value}
