"""Small faults found by trying to break it, each with the text that a user sees."""

from pathlib import Path

import pytest
from solving import Answer, solved, written

HERE = Path(__file__).parent / "small_ones"

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {rack: r1, topology.kubernetes.io/zone: z1%s}}
status: {allocatable: {cpu: "4", memory: "%s", pods: "110"}}
---
"""
GANG = """
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: g}
spec: {minMember: %s%s}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: g-%s, labels: {phalanx.dev/gang: g}}
spec: {priority: %s, containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: "%s"}}}]%s}
---
"""
TOPOLOGY = """
apiVersion: %s
kind: %s
metadata: {name: %s}
spec: %s
---
"""


def test_a_name_of_5000_digits_is_no_name(tmp_path: Path) -> None:
    file = written(tmp_path, (HERE / "digits_name.yaml").read_text().replace("DIGITS", "1" * 5000))
    name = f"{'1' * 40}… (5000 characters)"
    assert solved(file) == Answer(
        "",
        f'error: written.yaml: Gang default/{name}: metadata.name: "{name}" is not a name; use up to 253 lower-case '
        "letters, digits, dashes and dots, and a letter or digit at both ends and around each dot\n",
        2,
    )


@pytest.mark.parametrize(
    ("metadata", "field", "text"),
    [
        ("{name: Train}", "name", '"Train" is not a name; use up to 253 lower-case letters, digits, dashes and dots, '),
        ("{name: a..b}", "name", '"a..b" is not a name; use up to 253 lower-case letters, digits, dashes and dots, '),
        ("{generateName: -a-}", "generateName", '"-a-" is not a name; use up to 253 lower-case letters, '),
        ("{name: a, namespace: a.b}", "namespace", '"a.b" is not the name of a namespace; use up to 63 lower-case '),
    ],
)
def test_names_that_the_api_server_refuses(tmp_path: Path, metadata: str, field: str, text: str) -> None:
    answer = solved(written(tmp_path, f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{containers: []}}\n"))
    assert answer.status == 2
    assert f": metadata.{field}: {text}" in answer.said
    assert answer.said.count("\n") == 1


def test_how_many_are_needed_is_what_the_sets_need_too() -> None:
    assert solved(HERE / "message_needs.yaml") == Answer(
        """\
default/g  Unplaceable  infeasible
  needs 3 pods: the cluster holds 1 of 3

  NEAREST       FITS     NODES   EXCLUDED
  the cluster   1 of 3   1

  would fit if: 2 more nodes in the cluster
  would fit if: a minimum of 1 instead of 3
""",
        "",
        3,
    )


def test_a_gang_of_no_number_is_refused() -> None:
    """The gang is refused although its pods exist, because the number of expected pods is unknown."""
    problem = (
        "Gang default/g: spec.minMember: is not set, and there are no podSets: the gang has no number; write how many "
        "pods must start together, or spec.podSets with the count of each set"
    )
    assert solved(HERE / "gang_without_numbers.yaml") == Answer(
        f"default/g  Invalid\n  {problem}\n", f"error: gang_without_numbers.yaml: {problem}\n", 2
    )


def test_one_pod_stays_and_two_stay(tmp_path: Path) -> None:
    """A gang runs at its minimum, and an additional member does not fit."""
    node = NODE % ("n1", "", "4")
    more = POD % (2, 0, "9", "")
    for count, text in ((1, "1 pod stays on n1"), (2, "2 pods stay on n1")):
        running = "".join(POD % (each, 0, "1", ", nodeName: n1") for each in range(count))
        answer = solved(written(tmp_path, node + GANG % (count, "") + running + more))
        assert text in answer.report, answer


BUDGETS = {
    "a budget of neither bound allows nobody to go": ("{selector: {}}", "Unplaceable"),
    "one that leaves nobody to be protected allows all": ("{selector: {}, minAvailable: 0}", "Placed"),
    "one that selects nobody keeps nobody": ("{selector: {matchLabels: {a: b}}}", "Placed"),
}


@pytest.mark.parametrize(("spec", "outcome"), BUDGETS.values(), ids=BUDGETS)
def test_a_budget_that_states_no_bound(tmp_path: Path, spec: str, outcome: str) -> None:
    low = "apiVersion: v1\nkind: Pod\nmetadata: {name: low}\nspec: {nodeName: n1, priority: 0, containers: "
    low += '[{name: c, image: i, resources: {requests: {memory: "4"}}}]}\n---\n'
    budget = f"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b}}\nspec: {spec}\n"
    answer = solved(written(tmp_path, NODE % ("n1", "", "4") + GANG % (1, "") + POD % (0, 9, "4", "") + low + budget))
    assert answer.report.splitlines()[0].split()[1] == outcome


WRONG_LEVELS = {
    "our own": (
        "phalanx.dev/v1alpha1",
        "Topology",
        "net",
        "{levels: [{name: a, nodeLabel: rack}, {name: a, nodeLabel: b}]}",
    ),
    "Kueue's": ("kueue.x-k8s.io/v1alpha1", "Topology", "net", "{levels: [{nodeLabel: rack}, {nodeLabel: rack}]}"),
    "Run:ai's": ("kai.scheduler/v1alpha1", "Topology", "net", "{levels: [{nodeLabel: rack}, {nodeLabel: rack}]}"),
    "Koordinator's": (
        "scheduling.koordinator.sh/v1alpha1",
        "ClusterNetworkTopology",
        "default",
        "{networkTopologySpec: [{topologyLayer: a, labelKey: [rack]}]}",
    ),
}
TWICE = 'spec.levels[1].nodeLabel: "rack" is spec.levels[0] already'
SAID = {
    "our own": 'Topology net to be corrected (spec.levels[1].name: "a" stands for spec.levels[0] too)',
    "Kueue's": f"Topology.kueue.x-k8s.io net to be corrected ({TWICE})",
    "Run:ai's": f"Topology.kai.scheduler net to be corrected ({TWICE})",
    "Koordinator's": "ClusterNetworkTopology default to be corrected "
    "(spec.networkTopologySpec: lacks NodeTopologyLayer)",
}


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("whose", WRONG_LEVELS)
def test_a_gang_waits_for_a_topology_that_is_refused(tmp_path: Path, whose: str, *, named: bool) -> None:
    """The gang must not be planned with the levels found on the nodes, as if no Topology existed."""
    asked = GANG % (1, f", topology: {WRONG_LEVELS[whose][2]}" if named else "") + POD % (0, 0, "4", "")
    answer = solved(written(tmp_path, NODE % ("n1", "", "4") + TOPOLOGY % WRONG_LEVELS[whose] + asked))
    assert answer.report == f"default/g  Waiting\n  waits for {SAID[whose]}\n"
    assert answer.status == 2


def test_beside_one_that_is_right_the_refused_one_is_not_meant(tmp_path: Path) -> None:
    right = "phalanx.dev/v1alpha1", "Topology", "other", "{levels: [{name: rack, nodeLabel: rack}]}"
    both = TOPOLOGY % WRONG_LEVELS["our own"] + TOPOLOGY % right
    answer = solved(written(tmp_path, NODE % ("n1", "", "4") + both + GANG % (1, "") + POD % (0, 0, "4", "")))
    assert answer.report.startswith("default/g  Placed  optimal\n  1 pod fits on n1")


LISTING = {
    "our own": ("phalanx.dev/v1alpha1", "Topology", "net", "{levels: [{name: rack, nodeLabel: rack}%s]}"),
    "Kueue's": ("kueue.x-k8s.io/v1alpha1", "Topology", "net", "{levels: [{nodeLabel: rack}%s]}"),
    "Run:ai's": ("kai.scheduler/v1alpha1", "Topology", "net", "{levels: [{nodeLabel: rack}%s]}"),
}


@pytest.mark.parametrize("whose", LISTING)
def test_a_node_without_a_hostname_is_outside_a_topology_that_lists_it(tmp_path: Path, whose: str) -> None:
    version, kind, name, levels = LISTING[whose]
    node = (
        ", {name: node, nodeLabel: kubernetes.io/hostname}"
        if whose == "our own"
        else ", {nodeLabel: kubernetes.io/hostname}"
    )
    for listed, hostname, text in (
        (node, ", kubernetes.io/hostname: n1", "Placed"),
        ("", "", "Placed"),
        (node, "", "the cluster holds 0 of 1 (1 node: node(s) had no label kubernetes.io/hostname)"),
    ):
        topology = TOPOLOGY % (version, kind, name, levels % listed)
        asked = GANG % (1, "") + POD % (0, 0, "4", "")
        assert text in solved(written(tmp_path, NODE % ("n1", hostname, "4") + topology + asked)).report


HUGE = 2**63 - 1
AMOUNTS = {
    "the whole of a node that has 2^62": ([2**62], [2**62], "Placed", "optimal"),
    "little, beside a node that has more than anybody counts": ([2**40 - 1, 1, HUGE], [2**40 - 1], "Placed", "optimal"),
    "more than any node has": ([2**61], [2**62], "Unplaceable", "infeasible"),
    "so much that it is rounded: it fits": ([2**62, 2**62 + 3], [2**61, 2**62], "Placed", "feasible"),
    "so much that it is rounded: it does not fit": ([2**62 + 1], [2**62, 2**62], "Unplaceable", "unproven"),
    "to the last byte of so much": ([2**62 + 3, 2**30], [2**62 + 3], "Unplaceable", "unproven"),
}


@pytest.mark.parametrize(("free", "asked", "outcome", "proof"), AMOUNTS.values(), ids=AMOUNTS)
def test_amounts_that_are_too_large_to_be_added_up(
    tmp_path: Path, free: list[int], asked: list[int], outcome: str, proof: str
) -> None:
    nodes = "".join(NODE % (f"n{place}", "", each) for place, each in enumerate(free))
    pods = "".join(POD % (place, 0, each, "") for place, each in enumerate(asked))
    answer = solved(written(tmp_path, nodes + GANG % (len(asked), "") + pods))
    assert answer.report.splitlines()[0].split() == ["default/g", outcome, proof]
