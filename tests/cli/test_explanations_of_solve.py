"""`phalanx solve` names the changes that would help a rejected gang, and the reason for the place of a placed gang.

The tests make every named change in the files and check that the gang is placed then.

    s0/r0: a b (full) c (tainted)      8 cpu a node, a pod of the gang takes them all
    s0/r1: d
    s1/r2: e f (tainted twice)
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from contract_report import Gang, Near, report_of

from cli.main import group

Objects = list[dict[str, Any]]

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "explanations.md"
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OWN = {"key": "owner", "value": "team-b", "effect": "NoSchedule"}
NEEDED = 3


def node(name: str, spine: str, rack: str, *taints: dict[str, str]) -> dict[str, Any]:
    """A node of 8 cpu."""
    labels = {"kubernetes.io/hostname": name, "example.com/spine": spine, "example.com/rack": rack}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "8"}},
    }


def pod(name: str, **more: Any) -> dict[str, Any]:
    """A pod of 8 cpu."""
    containers = [{"name": "main", "image": "trainer", "resources": {"requests": {"cpu": "8"}}}]
    labels = {} if "nodeName" in more else {"phalanx.dev/gang": "llm"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": containers, **more},
    }


def asked(*nodes: dict[str, Any], required: str | None = "rack") -> Objects:
    """Three pods in one rack of these nodes, b being full."""
    levels = [{"name": level, "nodeLabel": f"example.com/{level}"} for level in ("spine", "rack")]
    where = {} if required is None else {"required": required}
    return [
        {
            "apiVersion": "phalanx.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "net"},
            "spec": {"levels": levels},
        },
        *nodes,
        pod("busy", nodeName="b", priority=100),
        {
            "apiVersion": "phalanx.dev/v1alpha1",
            "kind": "Gang",
            "metadata": {"name": "llm", "namespace": "default"},
            "spec": {"minMember": NEEDED, **where},
        },
        *(pod(f"llm-{rank}") for rank in range(NEEDED)),
    ]


TREE = (
    node("a", "s0", "r0"),
    node("b", "s0", "r0"),
    node("c", "s0", "r0", GPU),
    node("d", "s0", "r1"),
    node("e", "s1", "r2"),
    node("f", "s1", "r2", GPU, OWN),
)


def solve(objects: Objects, *options: str) -> Result:
    """The command on these objects."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return CliRunner().invoke(group, ["solve", "-f", "-", *options], input=text, catch_exceptions=False)


def reported(objects: Objects, *options: str) -> Gang:
    """The gang's entry in the JSON report."""
    (gang,) = report_of(solve(objects, "-o", "json", *options).stdout).gangs
    return gang


def of_kind(objects: Objects, kind: str) -> Objects:
    """The objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def more_room(objects: Objects) -> None:
    """A node of two slots more in r0."""
    objects.append(node("new", "s0", "r0"))
    objects[-1]["status"]["allocatable"]["cpu"] = "16"


def fewer_pods(objects: Objects) -> None:
    """A minimum of 1."""
    of_kind(objects, "Gang")[0]["spec"]["minMember"] = 1


def no_level(objects: Objects) -> None:
    """No required level."""
    del of_kind(objects, "Gang")[0]["spec"]["required"]


def wider_level(objects: Objects) -> None:
    """A spine instead of a rack."""
    of_kind(objects, "Gang")[0]["spec"]["required"] = "spine"


def toleration(objects: Objects) -> None:
    """The taint gpu tolerated."""
    for each in of_kind(objects, "Pod"):
        each["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]


def uncordoned(objects: Objects) -> None:
    """Make every node schedulable."""
    for each in of_kind(objects, "Node"):
        each["spec"].pop("unschedulable", None)


def more_nodes(objects: Objects) -> None:
    """Add two nodes to rack r0."""
    objects += [node(name, "s0", "r0") for name in ("new-0", "new-1")]


def more_evictions(objects: Objects) -> None:
    """Set the disruption budget to two allowed evictions."""
    of_kind(objects, "PodDisruptionBudget")[0]["status"]["disruptionsAllowed"] = 2


def large_node() -> dict[str, Any]:
    """A node of 16 cpu that the gang does not tolerate. An empty node like it would hold two members."""
    made = node("large", "s9", "r9", GPU, OWN)
    made["status"]["allocatable"]["cpu"] = "16"
    return made


def all_apart(*nodes: dict[str, Any]) -> Objects:
    """Return a gang in the tree of nodes whose members have anti-affinity to each other on a host."""
    objects = asked(*TREE, *nodes)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"phalanx.dev/gang": "llm"}}}
    for each in of_kind(objects, "Pod")[1:]:
        each["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return objects


def protected() -> Objects:
    """A rack of three where two pods of lower priority run, of which a budget lets none go."""
    running = [pod(f"web-{name}", nodeName=name, priority=-1) for name in ("x", "y")]
    for each in running:
        each["metadata"]["labels"] = {"app": "web"}
    return [
        *asked(*(node(name, "s2", "r3") for name in ("x", "y", "z")), node("b", "s0", "r0")),
        *running,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0},
            "status": {"disruptionsAllowed": 0},
        },
    ]


def cordoned(each: dict[str, Any]) -> dict[str, Any]:
    """The node, cordoned."""
    return {**each, "spec": {"taints": [], "unschedulable": True}}


PLAIN = asked(*TREE)
WITH_A_WIDER_ONE = asked(*TREE, node("g", "s0", "r1"))
WITH_TWO_MORE_TAINTED = asked(*TREE, node("g", "s0", "r0", GPU), node("h", "s0", "r0", GPU, OWN))
WITH_TWO_CORDONED = asked(*TREE, *(cordoned(node(name, "s0", "r0")) for name in ("g", "h")))

WITH_A_LARGE_NODE = asked(*TREE, large_node())


CHANGES = [
    (PLAIN, "2 more nodes in s0/r0", more_nodes),
    (WITH_A_LARGE_NODE, "2 more pod slots in s0/r0", more_room),
    (PLAIN, "a minimum of 1 instead of 3", fewer_pods),
    (PLAIN, "required level rack dropped", no_level),
    (WITH_A_WIDER_ONE, "required level rack widened to spine", wider_level),
    (WITH_TWO_MORE_TAINTED, "taint {gpu: yes} tolerated (2 nodes)", toleration),
    (WITH_TWO_CORDONED, "cordon lifted (2 nodes)", uncordoned),
    (all_apart(large_node()), "2 more nodes in s0/r0", more_nodes),
    (protected(), "more evictions allowed by default/web", more_evictions),
]


@pytest.mark.parametrize(("objects", "words", "change"), CHANGES, ids=[words for _, words, _ in CHANGES])
def test_what_is_said_to_help_helps(objects: Objects, words: str, change: Callable[[Objects], None]) -> None:
    before = reported(objects)
    assert (before.outcome, before.proof) == ("Unplaceable", "Infeasible")
    assert words in [each.partition(", after evicting ")[0] for each in before.explanation.would_fit_if]
    after = copy.deepcopy(objects)
    change(after)
    assert (reported(after).outcome, reported(objects).outcome) == ("Placed", "Unplaceable")


def test_one_large_node_is_no_help_to_members_that_refuse_to_share_it() -> None:
    objects = all_apart(large_node())
    assert "2 more pod slots in s0/r0" not in reported(objects).explanation.would_fit_if
    more_room(objects)
    assert reported(objects).outcome == "Unplaceable"


def test_all_that_helps_is_told_and_nothing_else() -> None:
    """Tolerating gpu opens c and gives two of three; f has another taint, and s0 holds two untainted nodes."""
    gang = reported(PLAIN)
    assert gang.explanation.would_fit_if == [
        "2 more nodes in s0/r0",
        "a minimum of 1 instead of 3",
        "required level rack dropped",
    ]


def test_the_nearest_domains_count_every_node_that_is_excluded_once() -> None:
    assert reported(WITH_TWO_MORE_TAINTED).explanation.nearest == [
        Near("rack", ["s0", "r0"], 1, 3, 5, {"node(s) had untolerated taint {gpu: yes}": 3, "Insufficient cpu": 1}),
        Near("rack", ["s0", "r1"], 1, 3, 1, {}),
        Near("rack", ["s1", "r2"], 1, 3, 2, {"node(s) had untolerated taint {gpu: yes}": 1}),
    ]


def test_the_table_of_a_no_has_the_domains_and_the_changes() -> None:
    result = solve(WITH_TWO_MORE_TAINTED)
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert lines[1] == (
        "  never fits this cluster, even without other pods: needs 3 pods in one rack, and the largest rack, "
        "s0/r0 (5 nodes), holds 2 (3 nodes: node(s) had untolerated taint {gpu: yes})"
    )
    assert lines[3:] == [
        "  NEAREST   FITS     NODES   EXCLUDED",
        "  s0/r0     1 of 3   5       3 node(s) had untolerated taint {gpu: yes}, 1 Insufficient cpu",
        "  s0/r1     1 of 3   1",
        "  s1/r2     1 of 3   2       1 node(s) had untolerated taint {gpu: yes}",
        "",
        "  would fit if: 2 more nodes in s0/r0",
        "  would fit if: a minimum of 1 instead of 3",
        "  would fit if: required level rack dropped",
        "  would fit if: taint {gpu: yes} tolerated (2 nodes)",
    ]


ELSEWHERE = asked(
    *(node(f"x{number}", "s0", "r0") for number in range(3)),
    *(node(f"y{number}", "s0", "r1") for number in range(4)),
    node("b", "s1", "r2"),
)


def test_a_yes_says_why_here_and_not_next_door() -> None:
    words = "rack s0/r1 would leave more room behind"
    gang = reported(ELSEWHERE, "-v")
    assert [each.path for each in gang.levels[1].domains] == [["s0", "r0"]]
    assert gang.explanation.why_here == words
    assert f"  why here: {words}" in solve(ELSEWHERE, "-v").stdout.splitlines()


def test_the_reference_shows_these_very_sentences() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert [words for _, words, _ in CHANGES if f"`{words}` |" not in text] == []
    assert "`rack s0/r1 would leave more room behind`" in text


def test_why_here_is_told_to_those_who_ask() -> None:
    assert reported(ELSEWHERE).explanation.why_here is None
    assert "why here" not in solve(ELSEWHERE).stdout
