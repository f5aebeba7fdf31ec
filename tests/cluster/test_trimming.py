"""Trimming keeps every field of an object that a decision reads, and drops the others."""

from typing import Any

import pytest
from cluster_objects import apart, asking, node, pod, required_nodes, spread

from cluster.api.trimming import LAST_APPLIED, trim_manifest, trim_node, trim_pod
from cluster.capturing import snapshot_of
from cluster.eligibility.nodes import Eligibility
from kube.objects import Pod
from kube.requests import pod_requests

ZONED = required_nodes({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})
RICH: dict[str, Any] = {
    "labels": {"app": "web"},
    "nodeSelector": {"zone": "a"},
    "affinity": {**ZONED, **apart("web", "zone")},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "topologySpreadConstraints": spread("web", "zone"),
    "containers": [{**asking(cpu="1", memory=5)[0], "ports": [{"hostPort": 80}]}],
    "initContainers": [{**asking(cpu="3")[0], "restartPolicy": "Always"}],
    "schedulingGates": [{"name": "phalanx.dev/gang"}],
    "resourceClaims": [{"name": "gpu"}],
}


def conditions(*types: str) -> dict[str, Any]:
    return {"conditions": [{"type": each, "status": "True", "reason": "Why"} for each in types]}


def test_nothing_that_decides_about_a_pod_is_lost() -> None:
    whole = pod(**RICH, priority=5, overhead={"cpu": "1"}, status={"nominatedNodeName": "n"})
    assert trim_pod(whole) == whole
    assert pod_requests(trim_pod(whole)) == pod_requests(whole)
    snapshot = snapshot_of([node("n", {"zone": "a"})], [])
    for each in (whole, trim_pod(whole)):
        assert Eligibility(each, snapshot).exclusion(snapshot.nodes[0]) == ""


def test_pods_of_one_workload_share_what_is_alike() -> None:
    one, two = trim_pod(pod("one", **RICH)), trim_pod(pod("two", **RICH))
    for part in ("containers", "init_containers", "affinity", "tolerations", "topology_spread_constraints"):
        assert getattr(one.spec, part) is getattr(two.spec, part)


def test_a_new_version_shares_the_parts_that_have_not_changed() -> None:
    token = {"name": "token", "projected": {"sources": []}}
    kept = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    metadata = {"annotations": {"a": "b"}, "finalizers": ["c"], "resourceVersion": "1"}
    spec = {**RICH, "volumes": [token, kept]}
    before = trim_pod(pod(**spec, metadata=metadata))
    after = trim_pod(pod(**spec, metadata={**metadata, "resourceVersion": "2"}, status={"phase": "Running"}), before)
    assert after.spec is before.spec
    for part in ("labels", "annotations", "owner_references", "finalizers"):
        assert getattr(after.metadata, part) is getattr(before.metadata, part)
    assert (after.metadata.resource_version, after.status.phase) == ("2", "Running")


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"app": "db"}},
        {"metadata": {"annotations": {"a": "c"}}},
        {"metadata": {"annotations": {"a": "b", LAST_APPLIED: "{}"}}},
        {"metadata": {"finalizers": ["x"]}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"nodeName": "n"},
        {"schedulingGates": []},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]},
        {"volumes": [{"name": "token", "projected": {"sources": []}}]},
        {"status": {"phase": "Running"}},
    ],
    ids=str,
)
def test_a_version_is_trimmed_alike_whatever_was_before(change: dict[str, Any]) -> None:
    before = trim_pod(pod(**RICH, metadata={"annotations": {"a": "b"}}))
    after = pod(**{**RICH, "metadata": {"annotations": {"a": "b"}}, **change})
    assert trim_pod(after, before) == trim_pod(after)


def test_what_nobody_reads_is_left_out() -> None:
    volumes = [
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
    ]
    metadata = {"annotations": {LAST_APPLIED: "{}", "kept": "yes"}}
    status = conditions("Initialized", "Ready", "PodScheduled", "ContainersReady", "DisruptionTarget")
    trimmed = trim_pod(pod(volumes=volumes, metadata=metadata, status=status))
    assert [each["name"] for each in trimmed.spec.volumes] == ["data", "scratch"]
    assert trimmed.metadata.annotations == {"kept": "yes"}
    assert [each.type for each in trimmed.status.conditions] == ["Ready", "PodScheduled", "DisruptionTarget"]


def test_a_node_keeps_its_readiness_its_labels_and_its_room() -> None:
    both = conditions("Ready", "MemoryPressure")["conditions"]
    whole = node("n", {"zone": "a"}, taints=[{"key": "t"}], allocatable={"cpu": "4", "gpu": 8}, conditions=both)
    trimmed = trim_node(whole)
    assert [each.type for each in trimmed.status.conditions] == ["Ready"]
    assert (trimmed.metadata, trimmed.spec) == (whole.metadata, whole.spec)
    assert trimmed.status.allocatable == whole.status.allocatable


def test_a_manifest_loses_its_managed_fields() -> None:
    manifest = {"metadata": {"name": "g", "managedFields": [1], "annotations": {LAST_APPLIED: "{}", "kept": "yes"}}}
    assert trim_manifest(manifest) == {"metadata": {"name": "g", "annotations": {"kept": "yes"}}}


def test_an_empty_pod_stays_an_empty_pod() -> None:
    assert trim_pod(Pod()) == Pod()
