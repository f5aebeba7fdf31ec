"""The nodes to which a pod's volumes restrict it."""

from typing import Any

import msgspec
import pytest
from cluster_objects import expression, node, pod

from cluster.capturing import snapshot_of
from cluster.eligibility.member_rules import unmodelled
from cluster.eligibility.nodes import Eligibility
from cluster.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NODES = [node("a", {ZONE: "a"}), node("b", {ZONE: "b"}), node("bare")]
EVERYWHERE = {"a", "b", "bare"}

LATE = {"metadata": {"name": "late"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
ONLY_B = {
    **LATE,
    "metadata": {"name": "only-b"},
    "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}],
}
EARLY = {"metadata": {"name": "early"}, "provisioner": "csi.example.com"}
BY_HAND = {**LATE, "metadata": {"name": "by-hand"}, "provisioner": "kubernetes.io/no-provisioner"}


def volume(labels: dict[str, str] | None = None, *requirements: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if requirements:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}}
    return {"metadata": {"name": "disk", "labels": labels or {}}, "spec": spec}


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "data", "namespace": "default", **(metadata or {})}, "spec": spec}


BOUND = claim(volumeName="disk")
MOUNTS = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.mark.parametrize(
    ("what", "claimed", "disk", "nodes"),
    [
        ("a volume tied by its affinity", BOUND, volume(None, expression(ZONE, "In", "a")), {"a"}),
        ("a volume tied by its zone label", BOUND, volume({ZONE: "a"}), {"a", "bare"}),
        ("a volume with the old label", BOUND, volume({OLD_ZONE: "b"}), {"b", "bare"}),
        ("a volume in two zones", BOUND, volume({ZONE: "a__b"}), EVERYWHERE),
        ("a volume that goes anywhere", BOUND, volume(), EVERYWHERE),
        ("a volume that is gone", BOUND, None, set()),
        ("a claim that waits for its pod", claim(storageClassName="late"), None, EVERYWHERE),
        ("a class with topologies", claim(storageClassName="only-b"), None, {"b"}),
        ("a claim that should have been bound", claim(storageClassName="early"), None, set()),
        ("a claim of no class", claim(), None, set()),
        ("a claim of a class that is not there", claim(storageClassName="none"), None, set()),
        ("volumes made by hand", claim(storageClassName="by-hand"), None, EVERYWHERE),
        (
            "a claim whose node was chosen",
            claim({"annotations": {"volume.kubernetes.io/selected-node": "a"}}, storageClassName="late"),
            None,
            {"a"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_claim_keeps_its_pod_to_some_nodes(
    what: str, claimed: dict[str, Any], disk: dict[str, Any] | None, nodes: set[str]
) -> None:
    snapshot = snapshot_of(
        NODES,
        [],
        claims=[msgspec.convert(claimed, PersistentVolumeClaim)],
        volumes=[msgspec.convert(disk, PersistentVolume)] if disk else [],
        storage_classes=[msgspec.convert(each, StorageClass) for each in (LATE, ONLY_B, EARLY, BY_HAND)],
    )
    eligibility = Eligibility(pod(volumes=MOUNTS), snapshot)
    assert {state.name for state in snapshot.nodes if not eligibility.exclusion(state)} == nodes, what


def test_the_claim_of_an_ephemeral_volume_has_the_pods_name() -> None:
    owned = claim({"name": "worker-scratch"}, volumeName="disk")
    tied = volume(None, expression(ZONE, "In", "a"))
    snapshot = snapshot_of(
        NODES,
        [],
        claims=[msgspec.convert(owned, PersistentVolumeClaim)],
        volumes=[msgspec.convert(tied, PersistentVolume)],
    )
    scratch = pod("worker", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    eligibility = Eligibility(scratch, snapshot)
    assert [state.name for state in snapshot.nodes if not eligibility.exclusion(state)] == ["a"]


@pytest.mark.parametrize(
    ("claimed", "phrase"),
    [
        (claim({"name": "other"}), "PersistentVolumeClaim default/data, which is not known"),
        (
            claim(storageClassName="by-hand"),
            "which of the volumes made beforehand a claim will bind (PersistentVolumeClaim default/data)",
        ),
        (
            claim(storageClassName="late", accessModes=["ReadWriteOncePod"]),
            "volumes for a single pod (PersistentVolumeClaim default/data)",
        ),
    ],
)
def test_what_is_not_known_about_a_claim_is_named(claimed: dict[str, Any], phrase: str) -> None:
    snapshot = snapshot_of(
        NODES,
        [],
        claims=[msgspec.convert(claimed, PersistentVolumeClaim)],
        storage_classes=[msgspec.convert(each, StorageClass) for each in (LATE, BY_HAND)],
    )
    asked = pod(volumes=MOUNTS)
    assert phrase in unmodelled(asked, snapshot=snapshot)
