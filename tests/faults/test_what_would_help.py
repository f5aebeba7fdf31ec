"""The changes that a rejection names do help: it names missing labels, and capacity only where members may use it."""

from pathlib import Path

import pytest
import yaml
from solving import solved, written

FILES = Path(__file__).parent / "what_a_no_says"
RACK = "example.com/rack"

REMEDIES = {
    "no_node_has_the_label": [f"node n1 had the label {RACK}"],
    "no_node_has_either_label": ["nodes n3..4 had the labels block and rack"],
    "one_node_lacks_the_label": [
        f"node n2 had the label {RACK} and lay in r1",
        "1 more pod slot in r1",
        "a minimum of 1 instead of 2",
    ],
    "one_node_lacks_the_label_kai": [
        f"node n2 had the label {RACK} and lay in r1",
        "1 more pod slot in r1",
        "a minimum of 1 instead of 2",
    ],
    "no_hostname": ["node n1 had the label kubernetes.io/hostname", "1 more node in the cluster"],
    # One member may only use r1, the other only r2: capacity in one rack does not help the other member.
    "members_of_two_racks": [
        "a minimum of 1 instead of 2",
        "required level rack dropped",
        "node affinity/selector dropped (2 nodes)",
    ],
    # The member may only use n1, where a gang runs that cannot be evicted.
    "gang_that_stays_whole": ["1 more pod slot in r1/n1"],
    # Three members in rack r2 and none in r1 exceed maxSkew 2, and four members need more capacity than r2 has.
    "would_fit_if_forgets_spread": ["a minimum of 2 instead of 4"],
    # The members exclude each other by host: more capacity on n2 helps none of them.
    "would_fit_if_slot_on_the_node": [
        "1 more node in r1",
        "a minimum of 1 instead of 2",
        "taint {a: b} tolerated (1 node)",
        "members no longer excluding each other",
    ],
}


@pytest.mark.parametrize(("name", "remedies"), REMEDIES.items(), ids=REMEDIES)
def test_what_would_help(name: str, remedies: list[str]) -> None:
    told = [line.strip() for line in solved(FILES / f"{name}.yaml").report.splitlines()]
    assert [line.removeprefix("would fit if: ") for line in told if line.startswith("would fit if")] == remedies


@pytest.mark.parametrize(("minimum", "message"), [(2, "2 of 4 pods fit"), (3, "the cluster holds 2 of 3")])
def test_the_minimum_that_is_said_to_fit_is_the_largest_that_fits(tmp_path: Path, minimum: int, message: str) -> None:
    everything = list(yaml.safe_load_all((FILES / "would_fit_if_forgets_spread.yaml").read_text()))
    (gang,) = (each for each in everything if each["kind"] == "Gang")
    gang["spec"]["minMember"] = minimum
    gang["spec"]["podSets"][0]["minCount"] = minimum
    assert message in solved(written(tmp_path, yaml.safe_dump_all(everything))).report


@pytest.mark.parametrize(
    ("lacking", "remedies"),
    [
        ({"spec": {"unschedulable": True}}, 0),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, 0),
        ({"status": {"allocatable": {"cpu": "100m", "pods": "110"}}}, 0),
        ({}, 1),
    ],
    ids=["cordoned", "tainted", "too small", "open"],
)
def test_a_node_that_cannot_take_a_member_is_not_to_be_labelled(
    tmp_path: Path, lacking: dict[str, object], remedies: int
) -> None:
    everything = list(yaml.safe_load_all((FILES / "one_node_lacks_the_label.yaml").read_text()))
    (node,) = (each for each in everything if each["metadata"]["name"] == "n2")
    node |= lacking
    told = solved(written(tmp_path, yaml.safe_dump_all(everything))).report
    assert told.count("node n2 had the label") == remedies
