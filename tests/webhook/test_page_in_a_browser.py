"""The page in a real Chromium: its drawing, the nodes that a click marks, its requests, and its accessibility."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import OneToken, condition, driven, kept, served, shown
from gallery_scene import Scene
from pictures import Manifest, StillPicture, job, node, pod, pod_group, slowness, topology

from webhook.app import create_app
from webhook.live_view.page import SCRIPT
from webhook.metrics import Metrics

GROUP = "pod-group.scheduling.sigs.k8s.io"
NODES = 1000
LARGEST = 600_000
"""Bytes of the script: the page loads it once, most often through a port-forward."""
MANY = 15_246
FIRST_DRAW = 1500
"""Milliseconds until that many nodes are drawn, on a machine without other load."""
FRAME = 1000 / 60
PICTURED = "15246-nodes"
"""The picture that the docs show."""


TOLD = (
    "PodGroup default/llm (koordinator)",
    "Spine s1 would take 3 instead of 2 domains of level rack",
    "racks\n2\n",
    "fewest",
    "asked for",
    "all members exist",
    "GangPlanned",
    "GangReleased",
    "5.0 s",
    "GangPlaced",
    "Some events are missing: events cannot be read here.",
    "proven optimal",
    "domains used, level rack\t2\t2",
    "free capacity left beside the gang\t9\t4",
)
TOLD_OF_WHAT_WAITS = (
    "Waits for capacity: the best rack, s0 / r1, fits 11 of 12 pods.",
    "Proven: no domain holds it now.",
    "1 more pod slot in s0/r1",
    "Required level rack widened to spine",
    "11 of 12\n",
    "16 nodes, 5 without enough cores",
    "1 of 1 for capacity",
    "Phase Unplaceable, reason NoRoom",
    "needs 12 pods in one rack: s0/r1 fits 11 of 12 (5 nodes: Insufficient cpu)",
    "proven infeasible",
)


GANGS = ["default/big Waits for capacity", "default/next New", "default/llm Running"]


APART = [
    ["node-400", "4", "4", "", "open", "0 and 1 expected", "default/next"],
    ["node-405", "0", "", "4", "open", "2", ""],
    ["node-410", "8", "", "", "cordoned", "0", ""],
]
"""Free, reserved and terminating cores, in the table of a rack's nodes."""


TRIED = [pod_group("tried", 3), *(pod(f"tried-{at}", labels={GROUP: "tried"}) for at in range(3))]
PLACED = shown(
    "llm",
    {"minMember": 12, "preferred": "rack"},
    phase="Placed",
    message="12 pods run in s0 / r2 and s0 / r3",
    proof="Optimal",
    objective=[{"goal": "compactness/rack", "value": 2, "bound": 2}, {"goal": "waste", "value": 9, "bound": 4}],
    explanation={"whyHere": "spine s1 would take 3 instead of 2 domains of level rack"},
    conditions=[condition("Complete", 1), condition("Planned", 2), condition("Released", 3), condition("Placed", 5)],
)
NEAREST = ("r1", "r4", "r5", "r7", "r8")
WAITING = shown(
    "big",
    {"minMember": 12, "required": "rack"},
    phase="Unplaceable",
    reason="NoRoom",
    message="needs 12 pods in one rack: "
    + "; ".join(f"s0/{rack} fits 11 of 12 (5 nodes: Insufficient cpu)" for rack in NEAREST[:3]),
    proof="Infeasible",
    explanation={
        "nearest": [
            {
                "level": "rack",
                "path": ["s0", rack],
                "fits": 11,
                "needed": 12,
                "nodes": 16,
                "excluded": {"Insufficient cpu": 5},
            }
            for rack in NEAREST
        ],
        "wouldFitIf": [
            "1 more pod slot in s0/r1",
            "a minimum of 11 instead of 12",
            "required level rack widened to spine",
        ],
    },
)


def picture() -> StillPicture:
    """1,000 nodes in racks of 16, a gang on twelve of them, and one that waits for twelve whole nodes in a rack."""
    nodes = [node(f"node-{at}", spine=f"s{at // 256}", rack=f"r{at // 16}") for at in range(NODES)]
    members = [pod(f"llm-{at}", labels={GROUP: "llm"}, nodeName=f"node-{40 + at}") for at in range(12)]
    others = [pod(f"other-{at}", nodeName=f"node-{at * 3}") for at in range(NODES // 3)]
    coming = [pod(f"next-{at}", labels={GROUP: "next"}, nodeName="") for at in range(4)]
    for at, each in enumerate(coming):
        each["status"] = {"nominatedNodeName": f"node-{400 + at}"}
    leaving = [pod(f"old-{at}", nodeName=f"node-{404 + at}") for at in range(4)]
    for each in leaving:
        each["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:00Z"
    for each in nodes[410:412]:
        each["spec"] = {"unschedulable": True}
    gated = [pod(f"big-{at}", labels={GROUP: "big"}, containers=whole_node()) for at in range(12)]
    objects = [topology("spine", "rack"), pod_group(), pod_group("big", 12), pod_group("next"), PLACED, WAITING]
    return StillPicture(objects, nodes=nodes, pods=[*members, *others, *coming, *leaving, *gated])


def whole_node() -> list[Manifest]:
    """Containers that ask for all of a node's cores."""
    return [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "8"}}}]


@pytest.fixture
def address() -> Iterator[str]:
    """Serve the webhook's own application over that cluster view; yield its address."""
    with served(picture()) as address:
        yield address


@pytest.mark.thorough
def test_what_the_picture_says_of_the_gang_that_waits_is_what_the_planner_says() -> None:
    """A gang that no rack can hold must not be called optimal."""
    asked = job("again", pods=12, annotations={"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"})
    asked["spec"]["template"]["spec"]["containers"] = whole_node()
    client = create_app(picture(), OneToken(), Metrics()).test_client()
    headers = {"Authorization": "Bearer good"}
    answer = client.post("/v1/solve?cluster=live", data=json.dumps(asked), headers=headers).get_json()
    (found,) = answer["gangs"]
    status = WAITING["status"]
    assert (found["outcome"], found["proof"]) == (status["phase"], status["proof"])
    assert (found["message"], found["explanation"]) == (status["message"], status["explanation"])


def look(address: str, folder: Path) -> Any:
    """Return the content of the page as a browser renders it."""
    tried = folder / "tried.json"
    tried.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": TRIED}))
    return driven("look.mjs", address, str(folder), str(tried))


def check_the_gangs(seen: Any) -> None:
    """Check the list of gangs, the search, and the details of a gang that runs and of one that waits."""
    found = seen["found"]
    assert found["gangs"] == [GANGS[2]]
    assert found["after"] > found["before"] == 0, "gangs have colours when a search finds them"
    assert seen["lit"]["after"] > seen["lit"]["before"] == 0, "the selected gang is lit"
    assert seen["pressed"] == 1
    assert seen["said"] == "12 pods run in s0 / r2 and s0 / r3"
    assert seen["folded"] == 2, "pods and solver details are folded"
    assert seen["rows"] == [f"node-{at}" for at in range(40, 52)]
    for told in TOLD:
        assert told in seen["story"]
    assert (seen["link"], seen["linked"]) == ("?gang=default/llm", "default/llm")
    for told in TOLD_OF_WHAT_WAITS:
        assert told in seen["waiting"]
    assert seen["crumbs"] == ["datacenter", "s0", "r1"]
    assert "108 of 128 cores are free." in seen["domain"]
    assert "8 cores\t11" in seen["domain"]
    assert (seen["gone"], seen["closed"]) == ("default/big", 0), "back leads to the gang, Esc closes it"
    assert seen["filtered"] == [GANGS[2]]
    assert seen["walked"] == "default/big"


def check_the_picture(seen: Any) -> None:
    """Check clicks, zoom, keys and tooltips of the picture, and the details of domains."""
    assert seen["found"]["node"] == ["datacenter", "s0", "r4"]
    assert "Node node-77 is framed." in seen["framed"]
    assert seen["clicked"] == ["datacenter", "s0", "r0"]
    assert seen["dragged"] == ["datacenter", "s0"], "to move the picture is no click"
    assert seen["larger"] != seen["smaller"], "the wheel zooms"
    assert min(seen["larger"], seen["smaller"]) > 0.05, "the picture is drawn at each zoom"
    assert seen["byKeyboard"] == ["datacenter", "s0", "r3"]
    assert seen["byFastKeys"] == ["datacenter", "s0", "r2"], "keys count from the domain that the click has opened"
    assert seen["tip"].startswith("node-64\ncpu: 8 of 8 free\n0 pods")
    assert [each.split("\t") for each in seen["apart"]] == APART
    assert seen["apartDomain"] == [
        "64 of 128 cores are free, 16 reserved, 16 terminating.",
        "16 nodes, 2 closed: node-410 cordoned, node-411 cordoned.",
    ]
    assert seen["back"] == ["datacenter"]
    assert seen["table"].startswith("s0\t256\t")


def check_the_trial(seen: Any) -> None:
    """Check the result of a dry run, the file that shares it, and the mistakes of an input."""
    assert {"add-nodes=2%3Dnode-5", "cordon=node-0", "drain=node-1", "drain=node-2", "relax=rack"} | {
        "preemption=false",
        "cluster=live",
    } <= set(seen["whatIf"].removeprefix("?").split("&"))
    assert seen["tried"] == ["Would start now", "Would start now"]
    assert "3 of 3 would have a node" in seen["triedStory"]
    free, states = seen["triedFigures"]
    assert free.endswith("free of 8,016"), "the picture is as it would be"
    assert "32 closed" in states
    assert seen["added"] == ["datacenter", "s0", "r0"]
    assert seen["shared"]["gangs"] == ["default/tried Would start now"]
    assert seen["shared"]["filled"] > 0.05, "the file shows the picture by itself"
    assert "no node nowhere" in seen["notTried"]
    assert seen["mistake"]["line"], "a mistake is marked at its line"


def check_the_states(seen: Any) -> None:
    """Check accessibility, the dark mode, small screens, and the page without data, access or connection."""
    assert (seen["barriers"], seen["listBarriers"], seen["darkBarriers"]) == ([], [], [])
    assert (seen["sheetBarriers"], seen["phoneBarriers"]) == ([], [])
    assert seen["darkColours"] > 2
    assert seen["switched"] == "rgb(241, 243, 246)", "the switch overrules the system"
    assert max(seen["overflow"], seen["tabletOverflow"]) <= 0
    assert seen["phoneFilled"] > 0.05
    assert seen["empty"] == []
    assert "user jane may not view gangs." in seen["refused"]["text"]
    assert seen["refused"]["barriers"] == []
    assert "Disconnected." in seen["lost"]["text"]
    assert seen["lost"]["gangs"] == GANGS, "the page keeps what it has shown"
    assert seen["withoutScript"] == ["Gangs", "Topologies"]


@pytest.mark.thorough
def test_the_picture_is_drawn_and_a_click_lights_a_gangs_nodes(address: str, tmp_path: Path) -> None:
    assert 0 < len(SCRIPT) < LARGEST, "run: make page"
    seen = look(address, tmp_path)
    assert seen["errors"] == []
    assert seen["elsewhere"] == []
    assert seen["colours"] > 2
    assert seen["window"] <= 0, "the window does not scroll"
    assert seen["gangs"] == GANGS
    check_the_gangs(seen)
    check_the_picture(seen)
    check_the_trial(seen)
    check_the_states(seen)
    kept(tmp_path, "apart")


def fifteen_thousand() -> StillPicture:
    """15,246 nodes and 200 gangs of eight."""
    nodes = [node(f"node-{at}", spine=f"s{at // 256}", rack=f"r{at // 16}") for at in range(MANY)]
    pods = [pod(f"other-{at}-{each}", nodeName=f"node-{at}") for at in range(0, MANY, 3) for each in range(2)]
    gangs = [
        pod(f"g{at}-{each}", labels={GROUP: f"g{at}"}, nodeName=f"node-{at * 16 + each}")
        for at in range(200)
        for each in range(8)
    ]
    groups = [pod_group(f"g{at}", 8) for at in range(200)]
    return StillPicture([topology("spine", "rack"), *groups], nodes=nodes, pods=[*pods, *gangs])


@pytest.mark.long
@pytest.mark.parametrize(
    ("picture", "name"),
    [
        pytest.param(lambda: Scene().picture(), "1024-nodes", id="1,024 nodes and forty gangs in all phases"),
        pytest.param(fifteen_thousand, "15246-nodes", id="15,246 nodes and two hundred gangs"),
    ],
)
def test_the_picture_is_there_at_once_and_zooms_smoothly(
    picture: Callable[[], StillPicture], name: str, tmp_path: Path
) -> None:
    """Work of the page's main thread is counted in processor time, so another program's load does not matter."""
    file = tmp_path / f"{name}.webp"
    with served(picture()) as address:
        seen = driven("opened.mjs", address, str(file))
    steps, frames, opening = seen["steps"], seen["frames"], seen["opening"]
    news = steps["/v1/changes"]
    loaded = sum(each[2] for path, each in steps.items() if not path.startswith("/v1/"))
    print(  # noqa: T201 - the figures
        f"\n{name}: first picture after {seen['drawn']:.0f} ms: the page came after {steps['page'][1]:.0f}, "
        f"the script after {steps['/page.js'][1]:.0f}, the cluster was asked for at {news[0]:.0f} "
        f"and came at {news[1]:.0f} ({news[2] / 1e6:.2f} MB on the way, "
        f"{news[3] / 1e6:.2f} read); processor time until then {opening['script']:.0f} ms of script, "
        f"{opening['tasks']:.0f} ms of all tasks. Zooming: {frames['count']} frames, {frames['rate']:.0f} a second, "
        f"one in {frames['median']:.1f} ms, 95 of 100 within {frames['late']:.0f}, {frames['worst']:.0f} at worst; "
        f"processor time of a frame {frames['script']:.1f} ms of script, {frames['tasks']:.1f} ms of all tasks. "
        f"{loaded / 1000:.0f} kB loaded"
    )
    assert (seen["errors"], seen["elsewhere"], seen["barriers"]) == ([], [], [])
    assert seen["filled"] > 0.05
    assert loaded <= LARGEST
    assert opening["tasks"] < FIRST_DRAW
    assert frames["tasks"] < FRAME
    assert seen["drawn"] < FIRST_DRAW * slowness()
    assert frames["median"] < FRAME * slowness()
    if name == PICTURED:
        kept(tmp_path, name)
