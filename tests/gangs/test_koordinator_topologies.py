"""ClusterNetworkTopology: the chain of layers, and the status that shows its tree."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from written import documents, example, sources

from gangs.dialects.reviewing import review
from gangs.dialects.topologies import topologies
from gangs.koordinator.status import detail_status
from gangs.sources import Sources
from kube.topology import HOSTNAME_LABEL, Level, Topology, Unlabelled

DOCUMENTED = Path(__file__).parent / "data" / "cluster-network-topology-status.yaml"

SPINE = "{topologyLayer: SpineLayer, labelKey: [spine]}"
BLOCK = "{topologyLayer: BlockLayer, labelKey: [block], parentTopologyLayer: SpineLayer}"
NODE = "{topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}"
BARE_NODE = "{topologyLayer: NodeTopologyLayer}"
NODE_LEVEL = Level("NodeTopologyLayer", (HOSTNAME_LABEL,))


def network(*layers: str, name: str = "default") -> str:
    return f"""
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: ClusterNetworkTopology
        metadata: {{name: {name}}}
        spec: {{networkTopologySpec: [{", ".join(layers)}]}}
    """


LEVELS = {
    "from the widest to the node, in whatever order they are written": (
        (NODE, SPINE, BLOCK),
        (Level("SpineLayer", ("spine",)), Level("BlockLayer", ("block",), Unlabelled.OWN_DOMAIN), NODE_LEVEL),
    ),
    "with several labels of which the first set one counts": (
        ("{topologyLayer: A, labelKey: [x, y]}", "{topologyLayer: NodeTopologyLayer, parentTopologyLayer: A}"),
        (Level("A", ("x", "y"), Unlabelled.OWN_DOMAIN), NODE_LEVEL),
    ),
    "of nodes alone": ((BARE_NODE,), (NODE_LEVEL,)),
}


@pytest.mark.parametrize(("layers", "levels"), LEVELS.values(), ids=LEVELS)
def test_levels_are_read(layers: tuple[str, ...], levels: tuple[Level, ...]) -> None:
    found, faults = topologies(sources(network(*layers)))
    assert faults == []
    names = tuple(f"clusternetworktopolog{end}.scheduling.koordinator.sh" for end in ("ies", "y"))
    assert found == [Topology("default", "ClusterNetworkTopology", levels, resources=names)]


AT = "ClusterNetworkTopology default: spec.networkTopologySpec"
WRONG = {
    "the node's layer is missing": (
        (SPINE, BLOCK),
        (
            f"{AT}: lacks NodeTopologyLayer; add it below the lowest layer: "
            "{topologyLayer: NodeTopologyLayer, parentTopologyLayer: <the lowest layer>}"
        ),
    ),
    "a link is broken": (
        (SPINE, "{topologyLayer: BlockLayer, labelKey: [block], parentTopologyLayer: PodLayer}", NODE),
        (
            f'{AT}[1].parentTopologyLayer: "PodLayer" is not a layer of this spec; '
            "name a layer, or leave it out at the top"
        ),
    ),
    "a layer is astray": (
        (SPINE, "{topologyLayer: NodeTopologyLayer, parentTopologyLayer: SpineLayer}", BLOCK),
        (
            f'{AT}[2].topologyLayer: "BlockLayer" is not above NodeTopologyLayer on the one chain of layers; '
            "make it the parentTopologyLayer of the layer below it, or remove it"
        ),
    ),
    "there is a second top": (
        (SPINE, BLOCK, NODE, "{topologyLayer: Hall, labelKey: [hall]}"),
        (
            f'{AT}[3].topologyLayer: "Hall" is not above NodeTopologyLayer on the one chain of layers; '
            "make it the parentTopologyLayer of the layer below it, or remove it"
        ),
    ),
    "layers go round in a circle": (
        ("{topologyLayer: SpineLayer, labelKey: [s], parentTopologyLayer: BlockLayer}", BLOCK, NODE),
        f"{AT}[0].parentTopologyLayer: leads back to itself; leave it out at the top layer",
    ),
    "a layer has no label": (
        ("{topologyLayer: SpineLayer}", BLOCK, NODE),
        f"{AT}[0].labelKey: is empty; list the node labels that name the domains",
    ),
    "a layer is listed twice": (
        (SPINE, BLOCK, NODE, SPINE),
        f'{AT}[3].topologyLayer: "SpineLayer" is listed twice; keep one entry a layer',
    ),
    "the root is listed": (
        ("{topologyLayer: ClusterTopologyLayer, labelKey: [c]}", BARE_NODE),
        f"{AT}[0].topologyLayer: ClusterTopologyLayer is the implicit root; remove the entry",
    ),
    "the spec has another shape": (
        ("a", "b"),
        f"{AT}[0]: expected `object`, got `str`; correct the value",
    ),
}


@pytest.mark.parametrize(("layers", "fault"), WRONG.values(), ids=WRONG)
def test_a_chain_is_refused_when(layers: tuple[str, ...], fault: str) -> None:
    (manifest,) = documents(network(*layers))
    faults, _ = review(manifest, Sources())
    assert fault in [str(each) for each in faults]
    found, read = topologies(sources(network(*layers)))
    assert found == []
    assert read == faults


ADVICE = {
    "another name than default": (
        network(NODE, SPINE, BLOCK, name="other"),
        'ClusterNetworkTopology other: metadata.name: is not read: only the one called "default" is',
    ),
    "a label of the node's layer": (
        network(f"{BARE_NODE[:-1]}, labelKey: [x]}}"),
        f"{AT}[0].labelKey: is ignored: the node's own name tells the nodes apart",
    ),
    "a field nobody knows": (
        network(f"{BARE_NODE[:-1]}, parentTopologyLyer: x}}"),
        f"{AT}[0].parentTopologyLyer: is ignored: the known fields are topologyLayer, parentTopologyLayer, labelKey",
    ),
}


@pytest.mark.parametrize(("text", "advice"), ADVICE.values(), ids=ADVICE)
def test_a_warning_is_given_for(text: str, advice: str) -> None:
    (manifest,) = documents(text)
    faults, given = review(manifest, Sources())
    assert faults == []
    assert [str(each) for each in given] == [advice]


def documented_nodes() -> list[tuple[tuple[str, ...], str]]:
    """(path, name) of the nodes of the document, in reverse, for order must not matter."""
    written = documents(Path(__file__).parents[2].joinpath("examples/koordinator/nodes.yaml").read_text())
    prefix = "network.topology.nvidia.com/"
    return [
        (tuple(each["metadata"]["labels"][prefix + level] for level in ("spine", "block")), each["metadata"]["name"])
        for each in reversed(written)
    ]


def test_the_status_of_the_documents_cluster_is_the_documents_status() -> None:
    (topology,), _ = topologies(example("cluster-network-topology.yaml"))
    documented = yaml.safe_load(DOCUMENTED.read_text())["status"]["detailStatus"]
    assert detail_status(topology, documented_nodes()) == documented


def entry(layer: str, name: str, nodes: int, **rest: Any) -> dict[str, Any]:
    return {"topologyInfo": {"topologyLayer": layer, "topologyName": name}, "nodeNum": nodes, **rest}


def test_blocks_of_one_name_in_two_spines_are_two_blocks() -> None:
    (topology,), _ = topologies(sources(network(SPINE, BLOCK, NODE)))
    status = detail_status(topology, [(("s10", "b"), "n1"), (("s2", "b"), "n2"), (("s2", "b"), "n3")])
    root, spine = {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""}, "SpineLayer"
    below = {"childTopologyLayer": "BlockLayer", "childTopologyNames": ["b"], "parentTopologyInfo": root}
    assert status == [
        entry("ClusterTopologyLayer", "", 3, childTopologyLayer=spine, childTopologyNames=["s2", "s10"]),
        entry(spine, "s2", 2, **below),
        entry(
            "BlockLayer",
            "b",
            2,
            childTopologyLayer="NodeTopologyLayer",
            parentTopologyInfo={"topologyLayer": spine, "topologyName": "s2"},
        ),
        entry(spine, "s10", 1, **below),
        entry(
            "BlockLayer",
            "b",
            1,
            childTopologyLayer="NodeTopologyLayer",
            parentTopologyInfo={"topologyLayer": spine, "topologyName": "s10"},
        ),
    ]


def test_a_cluster_without_nodes_has_a_root() -> None:
    (topology,), _ = topologies(sources(network(SPINE, BLOCK, NODE)))
    assert detail_status(topology, []) == [entry("ClusterTopologyLayer", "", 0, childTopologyLayer="SpineLayer")]
