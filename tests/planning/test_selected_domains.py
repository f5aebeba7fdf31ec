"""The few domains to which a node selector or node affinity confines a gang, and the gangs that use them."""

from typing import Any

import scenes
from test_planning_gangs import decided

from cli.text.decision_text import render
from planning.message import Message
from planning.messages.solve_report import solve_report

H200: dict[str, Any] = {"nodeSelector": {"gpu": "h200"}}
BLOCKS = """
    s0/b0: a b
    s0/b1: c d
    s1/b2: e f
    s1/b3: g h
"""


def nodes(*h200: str) -> list[dict[str, Any]]:
    """Eight nodes in four blocks, of which these have the label gpu=h200."""
    return [
        scenes.labelled(each, gpu="h200") if each["metadata"]["name"] in h200 else each for each in scenes.nodes(BLOCKS)
    ]


def members(count: int, **spec: Any) -> list[dict[str, Any]]:
    """Members of the gang `llm` with these fields of a pod's spec."""
    return [{**each, "spec": {**each["spec"], **spec}} for each in scenes.members(count)]


def confined(*h200: str, running: Any = (), required: str = "block", **spec: Any) -> Message:
    """The domains to which the gang is confined, if these nodes have the label."""
    wanted = scenes.gang(minMember=4, required=required)
    return decided(nodes(*h200), running, wanted, members(4, **spec)).explanation.only_in


def only_in(*h200: str, running: Any = (), required: str = "block", **spec: Any) -> str:
    """The domains to which the gang is confined, as text with the names of other gangs."""
    return str(confined(*h200, running=running, required=required, **spec))


def test_a_node_selector_names_its_block_and_the_gangs_there() -> None:
    hotfix = [scenes.pod(f"hotfix-{node}", gang="hotfix", nodeName=node) for node in "ef"]
    found = confined("e", "f", running=[scenes.gang("hotfix", minMember=2), *hotfix], **H200)
    assert str(found) == "s1/b2 (node selector gpu=h200); in use there: default/hotfix (2 pods)"
    assert found.nameless == "s1/b2 (node selector gpu=h200); in use there: 2 pods"


def test_pods_of_no_gang_are_counted_if_they_request_the_same_resource() -> None:
    running = [scenes.running("low", "e"), scenes.pod("none", cpu=0, nodeName="f")]
    assert only_in("e", "f", running=running, **H200).endswith("; in use there: 1 pod of no gang")


def test_a_node_affinity_is_written_out() -> None:
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h200", "b200"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert only_in("a", "e", affinity=affinity) == "s0/b0 and s1/b2 (node affinity gpu In (h200, b200))"


def test_many_domains_are_not_told() -> None:
    assert only_in("a", "c", "e", "g", **H200) == ""
    assert only_in("a", "b", "c", required="spine", **H200) == "s0/b0 and s0/b1 (node selector gpu=h200)"
    assert only_in("a", "b") == ""


def test_the_report_and_the_text_have_it() -> None:
    decision = decided(nodes("e", "f"), scenes.gang(minMember=3, required="block"), members(3, **H200))
    assert (
        solve_report([decision], details=True)["gangs"][0]["explanation"]["onlyIn"] == "s1/b2 (node selector gpu=h200)"
    )
    assert "\n  may run only in s1/b2 (node selector gpu=h200)\n" in render([decision])
