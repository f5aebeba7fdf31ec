"""Levels found on the nodes, by well-known labels."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from cluster_objects import node

from cluster.caches.sinks import Nodes
from cluster.capturing import Capture
from cluster.topology.tree import domains
from cluster.topology.well_known_levels import KNOWN_LABELS, found_on

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
NVIDIA, GKE, EKS = (
    "network.topology.nvidia.com/",
    "cloud.google.com/gce-topology-",
    "topology.k8s.aws/network-node-layer-",
)
OKE = "oci.oraclecloud.com/rdma."

CLUSTERS = {
    "zones": ([ZONE], ["zone"]),
    "regions and zones": ([ZONE, REGION], ["region", "zone"]),
    "Topograph as Koordinator's document has it": ([f"{NVIDIA}block", f"{NVIDIA}spine"], ["spine", "block"]),
    "Topograph 0.1": (
        [f"{NVIDIA}{each}" for each in ("accelerator", "block", "spine", "datacenter")],
        ["datacenter", "spine", "block", "accelerator"],
    ),
    "Topograph 0.3": (
        [f"{NVIDIA}{each}" for each in ("accelerator", "leaf", "spine", "core")],
        ["core", "spine", "leaf", "accelerator"],
    ),
    "Topograph 1.0": (
        ["accelerator.topograph.run/domain", "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"],
        ["tier-1", "tier-0", "accelerator"],
    ),
    "NVLink domains of the GPU operator": ([ZONE, "nvidia.com/gpu.clique"], ["zone", "accelerator"]),
    "GKE": (
        [REGION, ZONE, f"{GKE}block", f"{GKE}subblock", f"{GKE}host"],
        ["region", "zone", "block", "subblock", "host"],
    ),
    "EKS": (
        [REGION, ZONE, *(f"{EKS}{each}" for each in (1, 2, 3))],
        ["region", "zone", *(f"network-node-layer-{each}" for each in (1, 2, 3))],
    ),
    "AKS": ([REGION, ZONE, "kubernetes.azure.com/agentpool"], ["region", "zone"]),
    "OKE": (
        [ZONE, *(f"{OKE}{each}" for each in ("hpc_island_id", "network_block_id", "local_block_id", "host_id"))],
        ["zone", "hpc-island", "network-block", "local-block"],
    ),
    "CoreWeave": (
        ["ib.coreweave.cloud/fabric", "ib.coreweave.cloud/superpod", "ib.coreweave.cloud/leafgroup"],
        ["fabric", "superpod", "leafgroup"],
    ),
}


@pytest.mark.parametrize(("labels", "levels"), CLUSTERS.values(), ids=CLUSTERS)
def test_the_levels_are_found_widest_first(labels: list[str], levels: list[str]) -> None:
    found = found_on([node("a", dict.fromkeys(labels, "x"))])
    assert found is not None
    assert [level.name for level in found.levels] == [*levels, "node"]
    assert (found.name, found.kind, found.pools) == ("", "", ())
    assert all(found.find(label) is not None for label in set(labels) & KNOWN_LABELS)


@pytest.mark.parametrize("labels", [{}, {"example.com/rack": "r"}, {ZONE: ""}])
def test_nothing_is_found_where_no_known_label_says_anything(labels: dict[str, str]) -> None:
    assert found_on([node("a", labels)]) is None


def test_of_several_networks_the_one_on_most_nodes_counts() -> None:
    found = found_on([node("a", {f"{EKS}1": "x", f"{NVIDIA}spine": "s"}), node("b", {f"{EKS}1": "x"})])
    assert found is not None
    assert [level.name for level in found.levels] == ["network-node-layer-1", "node"]


def test_two_labels_of_one_level_are_both_read_and_both_name_it() -> None:
    found = found_on(
        [node("a", {f"{NVIDIA}block": "b"}), node("b", {f"{NVIDIA}leaf": "b"}), node("c", {f"{NVIDIA}leaf": "c"})]
    )
    assert found is not None
    assert [level.name for level in found.levels] == ["leaf", "node"]
    assert (found.find("block"), found.find(f"{NVIDIA}block")) == (0, 0)
    tree = domains(found, [node("a", {f"{NVIDIA}block": "b"}), node("b", {f"{NVIDIA}leaf": "b"})])
    assert dict(tree.path_of) == {"a": ("b",), "b": ("b",)}


def test_a_node_without_a_label_is_a_domain_of_its_own() -> None:
    nodes = [node("a", {ZONE: "z"}), node("b", {ZONE: "z"}), node("c"), node("d")]
    found = found_on(nodes)
    assert found is not None
    tree = domains(found, nodes)
    assert dict(tree.path_of) == {"c": ("c",), "d": ("d",), "a": ("z",), "b": ("z",)}


class Unwatched:
    """A cache whose changes no thread waits for."""

    @contextmanager
    def changing(self, *, captured: bool) -> Iterator[None]:
        """Do nothing: there is no reader to notify."""
        del captured
        yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """Do nothing: no other thread reads."""
        yield


def test_a_cache_follows_labels_that_come_change_and_go() -> None:
    table = Nodes(Unwatched(), Capture())
    versions = [({}, None), ({ZONE: "a"}, "zone"), ({REGION: "r"}, "region"), ({REGION: "s"}, "region"), ({}, None)]
    for version, (labels, level) in enumerate(versions):
        thing = node("a", labels)
        metadata = msgspec.structs.replace(thing.metadata, resource_version=str(version))
        table.put(msgspec.structs.replace(thing, metadata=metadata))
        found = table.found()
        assert (found.levels[0].name if found else None) == level
    table.put(node("b", {ZONE: "a"}))
    table.drop(node("b"))
    assert table.found() is None
