"""Every choice of the page in a real Chromium: the list, the drawing and the text after it."""

from typing import Any

import pytest
from browsing import driven, served, shown
from pictures import Manifest, StillPicture, node, pod, pod_group, topology

GPU = "nvidia.com/gpu"
GROUP = "pod-group.scheduling.sigs.k8s.io"
NODES = 32
FULL = "default/big Waits for capacity", "default/first Waits for capacity"
PLACED = "research/urgent Running"
NEVER = "research/giant Can never fit"


def near(spine: str, rack: str) -> Manifest:
    """A rack that nearly holds a gang."""
    return {"path": [spine, rack], "fits": 3, "needed": 5, "nodes": 4, "excluded": {"Insufficient cpu": 1}}


def of_research(name: str, minimum: int, **status: Any) -> Manifest:
    """A gang of namespace research, without pods."""
    metadata = {
        "name": name,
        "namespace": "research",
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-11-21T11:55:00Z",
    }
    spec = {"topology": "datacenter", "minMember": minimum}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": spec, "status": status}


def gangs() -> list[Manifest]:
    """Return two waiting gangs, one of which waits longer, one that had victims, and one that never fits."""
    waits: Manifest = {"phase": "Unplaceable", "reason": "NoRoom", "proof": "Infeasible"}
    nearest = {"nearest": [near("s0", "r1"), near("s1", "r6")], "wouldFitIf": []}
    now = {**near("s0", "r1"), "fitsWithoutEvictions": 1}
    confined = {
        "nearest": [now, near("s1", "r6")],
        "wouldFitIf": [],
        "onlyIn": "s0/r1 and s1/r6 (node selector gpu=h200)",
    }
    restart: Manifest = {"restarts": 1, "lastRestart": {"from": "s0/r2", "closedNodes": "node-9 is cordoned"}}
    big = shown("big", {"minMember": 5}, **waits, **restart, message="racks have only 4 nodes", explanation=confined)
    first = shown("first", {"minMember": 9}, **waits, message="no room", at="2026-11-21T11:00:00Z")
    victims = [
        {"namespace": "default", "pod": "cheap-0", "node": "node-20", "priority": 5, "gang": "default/cheap"},
        {"namespace": "default", "pod": "alone", "node": "node-21", "priority": -1},
    ]
    urgent = of_research("urgent", 2, phase="Placed", message="2 pods run", proof="Optimal", victims=victims)
    never = {**waits, "reason": "NeverFits", "message": "needs 40 pods in one rack: no rack has more than 4 nodes"}
    giant = of_research("giant", 40, **never, explanation=nearest)
    return [pod_group("big", 5), pod_group("first", 9), big, first, urgent, giant]


def using(pod: Manifest, **requests: str) -> Manifest:
    """The pod, asking for that."""
    pod["spec"]["containers"][0]["resources"]["requests"] = {
        key.replace("gpu", GPU): value for key, value in requests.items()
    }
    return pod


def picture() -> StillPicture:
    """Two spines of four racks of four nodes: a GPU of each node is used in the first, all cores of half the other."""
    nodes = [node(f"node-{at}", spine=f"s{at // 16}", rack=f"r{at // 4}", feed=f"f{at % 2}") for at in range(NODES)]
    for each in nodes:
        each["status"]["allocatable"][GPU] = "8"
    small = [using(pod(f"small-{at}", nodeName=f"node-{at}"), gpu="1") for at in range(16)]
    cores = [using(pod(f"cores-{at}", nodeName=f"node-{at}"), cpu="8") for at in range(24, NODES)]
    asked = [using(pod(f"{name}-0", labels={GROUP: name}), cpu="8") for name in ("big", "first")]
    power = topology("feed")
    power["metadata"]["name"] = "power"
    return StillPicture([topology("spine", "rack"), power, *gangs()], nodes=nodes, pods=[*small, *cores, *asked])


@pytest.fixture(scope="module")
def seen() -> Any:
    """The page's content in a browser that uses every choice once."""
    with served(picture()) as address:
        return driven("choices.mjs", address)


def listed(*names: str) -> Any:
    """Return the expected list of these gangs, and the text with their number."""
    return {"gangs": list(names), "count": f"{len(names)} of 4 gangs"}


@pytest.mark.thorough
def test_nothing_goes_wrong(seen: Any) -> None:
    assert (seen["errors"], seen["elsewhere"]) == ([], [])


@pytest.mark.thorough
def test_gangs_are_listed_by_namespace_by_system_and_by_words(seen: Any) -> None:
    assert seen["all"] == seen["again"] == listed(NEVER, *FULL, PLACED)
    assert seen["namespace"] == listed(NEVER, PLACED)
    assert seen["neither"] == listed()
    assert seen["system"] == listed(*FULL)
    assert seen["words"] == listed(FULL[0]), "words are looked for in what is said of a gang, large or small"


@pytest.mark.thorough
def test_nodes_have_as_many_used_marks_as_pieces_of_the_chosen_resource(seen: Any) -> None:
    assert set(seen["resources"]) == {
        "accelerators, else cpu",
        "the scarcest resource of each node",
        "cpu",
        "memory",
        GPU,
    }
    assert seen["byCpu"]["title"] == "cores"
    assert seen["byCpu"]["used"] > 2 * seen["byGpu"] > 0, "64 cores, and 16 GPUs, each of as many nodes"
    assert seen["byScarcest"] > seen["byCpu"]["used"], "GPUs and cores"


@pytest.mark.thorough
def test_the_whole_cluster_tells_the_largest_gang_of_each_level_and_how_scattered_its_capacity_is(seen: Any) -> None:
    whole = seen["whole"]
    assert whole["title"] == "datacenter"
    assert whole["titles"] == ["Each pod", "One rack", "One spine", "One cluster"]
    assert [each.split("\t") for each in whole["rows"]] == [
        ["1 GPU", "32 in r4", "128 in s1", "240"],
        ["2 GPUs", "16 in r4", "64 in s1", "112"],
        ["4 GPUs", "8 in r4", "32 in s1", "48"],
        ["8 GPUs", "4 in r4", "16 in s1", "16"],
    ]
    assert whole["lead"] == "240 of 256 GPUs are free."
    assert seen["figures"]["sizes"] == {"1": ["32", "128", "240"], "8": ["4", "16", "16"]}
    for told in ("47 %", "112 of 240 free GPUs scattered"):
        assert told in seen["figures"]["fragmentation"]


@pytest.mark.thorough
def test_another_topology_is_another_picture(seen: Any) -> None:
    power = seen["power"]
    assert (power["crumbs"], power["domain"]["title"]) == (["power"], "power")
    assert power["domain"]["titles"] == ["Each pod", "One feed", "One cluster"]
    assert power["domain"]["rows"][0].split("\t") == ["1 GPU", "120 in f0", "240"]
    assert seen["feed"] == ["power", "f0"]
    assert seen["back"] == ["datacenter"]


@pytest.mark.thorough
def test_who_was_evicted_for_a_gang_is_told(seen: Any) -> None:
    assert [each.split("\t") for each in seen["evicted"]] == [
        ["Pod", "Gang", "Node", "Priority"],
        ["default/cheap-0", "default/cheap", "node-20", "5"],
        ["default/alone", "", "node-21", "-1"],
    ]


@pytest.mark.thorough
def test_a_gang_that_waits_tells_who_is_before_it_and_lights_where_it_nearly_fits(seen: Any) -> None:
    assert "2 of 2 for capacity, after default/first" in seen["line"]
    for told in (
        "it may run only in s0/r1 and s1/r6 (node selector gpu=h200).",
        "It fits 1 of 5 pods now, 3 after evictions.",
        "1 now, 3 after evictions, 4 nodes",
        "Restarted once: a lost pod had no place beside the others in s0/r2 (node-9 is cordoned).",
    ):
        assert told in seen["line"]
    assert seen["unlit"] == [], "a running gang marks no domain"
    assert seen["near"] == [["datacenter", "s0", "r1"], ["datacenter", "s1", "r6"]]


@pytest.mark.thorough
def test_a_gang_that_never_fits_says_so_in_place_of_its_closest_domain(seen: Any) -> None:
    assert seen["never"]["lead"] == "Needs 40 pods in one rack: no rack has more than 4 nodes"


@pytest.mark.thorough
def test_the_priority_of_a_gang_without_pods_is_not_told(seen: Any) -> None:
    assert "Priority\n0" in seen["line"], "of a gang with pods"
    assert "Priority" not in seen["never"]["detail"]
