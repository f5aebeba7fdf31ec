"""The status of topology objects.

spine-1            spine-2
├── rack-1         └── rack-1      (another one: a domain is its whole path)
│   ├── node-1         └── node-3
│   └── node-2
└── (node-4 has no rack: outside)
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from cluster.topology.domain_room import free_under
from cluster.topology.tree import domains
from controller.cluster_view import ClusterView
from controller.status.status_sync import topology_statuses, topology_view
from gangs.dialects.topologies import topologies
from gangs.koordinator.status import topology_status as network_status
from gangs.manifests import key_of
from gangs.model import Reading
from gangs.phalanx.status import MAX_DOMAINS, domains_status
from gangs.sources import Sources
from kube.objects import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus, ResourceRequirements
from kube.objects import SchedulingGate as Gate
from kube.quantities import amount
from kube.topology import Level, Topology

TREE = Topology(
    "dc",
    "Topology",
    (Level("spine", ("x/spine",)), Level("rack", ("x/rack",)), Level("node", ("kubernetes.io/hostname",))),
)
EXAMPLES = Path(__file__).parents[2] / "examples" / "koordinator"


def node(name: str, **labels: str) -> Node:
    meta = ObjectMeta(name=name, labels={f"x/{key}": value for key, value in labels.items()})
    return Node(metadata=meta, status=NodeStatus(allocatable={"cpu": "8", "memory": "32Gi", "pods": "110"}))


def pod(name: str, on: str, *, nominated: bool = False, terminating: bool = False) -> Pod:
    requests = ResourceRequirements(requests={"cpu": "1500m", "memory": "1Gi"})
    spec = PodSpec(
        node_name="" if nominated else on,
        containers=(Container(name="main", resources=requests),),
        scheduling_gates=(Gate(name="phalanx.dev/gang"),) if nominated else (),
    )
    gone = "2026-11-21T09:00:00Z" if terminating else None
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, deletion_timestamp=gone),
        spec=spec,
        status=PodStatus(nominated_node_name=on if nominated else ""),
    )


def cluster(*pods: Pod) -> Snapshot:
    nodes = [
        node("node-1", spine="spine-1", rack="rack-1"),
        node("node-2", spine="spine-1", rack="rack-1"),
        node("node-3", spine="spine-2", rack="rack-1"),
        node("node-4", spine="spine-1"),
    ]
    return snapshot_of(nodes, pods)


def topology_status(topology: Topology, snapshot: Snapshot, *, max_domains: int = MAX_DOMAINS) -> dict[str, Any]:
    return domains_status(topology_view(topology, snapshot), max_domains=max_domains)


def entry(status: dict[str, Any], *path: str) -> dict[str, Any]:
    return next(each for each in status["domains"] if each["path"] == list(path))


def test_the_tree_is_shown_from_the_widest_level_to_the_node_by_whole_paths() -> None:
    status = topology_status(TREE, cluster())
    assert [(each["level"], "/".join(each["path"]), each["nodes"]) for each in status["domains"]] == [
        ("spine", "spine-1", 2),
        ("rack", "spine-1/rack-1", 2),
        ("node", "spine-1/rack-1/node-1", 1),
        ("node", "spine-1/rack-1/node-2", 1),
        ("spine", "spine-2", 1),
        ("rack", "spine-2/rack-1", 1),
        ("node", "spine-2/rack-1/node-3", 1),
    ]
    assert (status["nodes"], status["outside"]) == (3, [{"missingLabel": "x/rack", "nodes": 1}])
    assert status["free"] == {"cpu": "24", "memory": "96Gi", "pods": "330"}
    assert "omitted" not in status


ROOM = [
    # pods on node-1, free there
    ([], {"cpu": "8", "memory": "32Gi", "pods": "110"}),
    ([pod("runs", "node-1")], {"cpu": "6500m", "memory": "31Gi", "pods": "109"}),
    ([pod("held", "node-1", nominated=True)], {"cpu": "6500m", "memory": "31Gi", "pods": "109"}),
    ([pod("leaves", "node-1", terminating=True)], {"cpu": "8", "memory": "32Gi", "pods": "110"}),
]


@pytest.mark.parametrize(("pods", "free"), ROOM)
def test_free_room_is_what_neither_runs_nor_is_held(pods: list[Pod], free: dict[str, str]) -> None:
    assert entry(topology_status(TREE, cluster(*pods)), "spine-1", "rack-1", "node-1")["free"] == free


def test_an_overcommitted_node_takes_no_room_from_its_siblings() -> None:
    crowd = [pod(f"p{number}", "node-1") for number in range(7)]
    assert entry(topology_status(TREE, cluster(*crowd)), "spine-1", "rack-1")["free"]["cpu"] == "8"


ROUNDED = [
    # pods of 1500m and 1Gi on each of 100 nodes of 8 cpu and 32Gi, what is free on them all
    (0, {"cpu": "800", "memory": "3200Gi", "pods": "11000"}),
    (1, {"cpu": "650", "memory": "3100Gi", "pods": "10900"}),
]


@pytest.mark.parametrize(("each", "free"), ROUNDED)
def test_amounts_are_told_by_their_first_digits(each: int, free: dict[str, str]) -> None:
    nodes = [node(f"n{number}", spine="s", rack="r") for number in range(100)]
    pods = [pod(f"p{number}-{one}", f"n{number}") for number in range(100) for one in range(each)]
    assert topology_status(TREE, snapshot_of(nodes, pods))["free"] == free


def test_a_pod_that_makes_no_difference_to_them_makes_no_other_status() -> None:
    nodes = [node(f"n{number}", spine="s", rack="r") for number in range(1000)]
    some = [pod(f"p{number}", "n0") for number in range(2)]
    before, after = (topology_status(TREE, snapshot_of(nodes, pods)) for pods in (some[:1], some))
    assert before == after


def test_the_page_shows_the_same_room() -> None:
    """Where a node is overcommitted, too."""
    crowd = [pod(f"p{number}", "node-1") for number in range(7)]
    snapshot = cluster(*crowd)
    tree = domains(TREE, (state.node for state in snapshot.nodes))
    shown = {tuple(each["path"]): each["free"]["cpu"] for each in topology_status(TREE, snapshot)["domains"]}
    summed = free_under(tree, snapshot.nodes)
    assert {path: summed[path]["cpu"] for path in tree.counts if path} == {
        path: amount("cpu", cpu) for path, cpu in shown.items() if len(path) < 3
    }


BOUNDS = [
    # most domains, levels shown, message
    (7, {"spine", "rack", "node"}, None),
    (6, {"spine", "rack"}, "more than 6 domains: left out are node (3)"),
    (3, {"spine"}, "more than 3 domains: left out are rack (2), node (3)"),
    (1, set(), "more than 1 domains: left out are spine (2), rack (2), node (3)"),
]


@pytest.mark.parametrize(("most", "levels", "said"), BOUNDS)
def test_a_status_stays_within_its_bound_and_says_what_is_left_out(most: int, levels: set[str], said: str) -> None:
    status = topology_status(TREE, cluster(), max_domains=most)
    assert {each["level"] for each in status["domains"]} == levels
    assert status.get("omitted") == said
    assert status["nodes"] == 3


def test_a_cluster_of_fifteen_thousand_nodes_fits_into_a_status() -> None:
    nodes = [node(f"n-{i}", spine=f"s-{i // 1000}", rack=f"r-{i // 50}") for i in range(15_000)]
    status = topology_status(TREE, snapshot_of(nodes, []))
    assert {each["level"] for each in status["domains"]} == {"spine", "rack"}
    assert len(str(status)) < 100_000


def objects(*names: str) -> list[dict[str, Any]]:
    return [each for name in names for each in yaml.safe_load_all((EXAMPLES / name).read_text()) if each]


def documented() -> tuple[Topology, Snapshot]:
    (written,) = objects("cluster-network-topology.yaml")
    (topology,), _ = topologies(Sources(objects={key_of(written): written}))
    loaded = [each for one in objects("nodes.yaml") for each in one.get("items", [one])]
    return topology, snapshot_of([msgspec.convert(each, Node) for each in loaded], [])


def test_a_cluster_network_topology_shows_the_documented_tree() -> None:
    entries = network_status(topology_view(*documented())).status["detailStatus"]
    found = [(each["topologyInfo"]["topologyName"], each["nodeNum"]) for each in entries]
    assert found[:4] == [("", 12), ("spine-0", 5), ("block-0", 3), ("block-1", 2)]
    assert entries[0]["childTopologyNames"] == ["spine-0", "spine-1", "spine-2"]
    assert "childTopologyNames" not in entries[2]


def test_each_topology_object_gets_the_status_of_its_kind() -> None:
    topology, snapshot = documented()
    there = [TREE, topology, Topology("found", "", TREE.levels)]
    found = topology_statuses(ClusterView(Sources(), Reading(), there, (), snapshot, {}))
    assert {(each.ref.api_version, each.ref.kind, each.ref.name): list(each.status) for each in found} == {
        ("phalanx.dev/v1alpha1", "Topology", "dc"): ["nodes", "free", "domains", "outside"],
        ("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "default"): ["detailStatus"],
    }
