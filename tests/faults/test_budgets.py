"""A disruption budget is spent once for all gangs: what one plan takes of it is not there for the next.

rack r1: n1 (web-0 on its only GPU), n2 (web-1 on its only GPU); budget web lets one of both go
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cli.main import group

FILES = Path(__file__).parent / "budgets"
PLACED = "1 pod fits on n1, after evicting default/web-0, proven optimal"
LIMITED = (
    "needs 1 pod: the cluster holds 0 of 1 (2 nodes: Insufficient nvidia.com/gpu); "
    "evictions there are limited by PodDisruptionBudget default/web"
)


def report(path: Path) -> dict[str, tuple[str, str]]:
    """By gang, its outcome and message."""
    result = CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"])
    assert result.exit_code in {0, 3}, result.output
    return {gang["name"]: (gang["outcome"], gang["message"]) for gang in yaml.safe_load(result.stdout)["gangs"]}


BEFORE = "no place beside gang default/a, of the same priority and first in line; "


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pdb_two_priorities", LIMITED),
        ("pdb_two_priorities_nostatus", LIMITED),
        ("pdb_same_priority", BEFORE + LIMITED),
    ],
)
def test_of_two_gangs_one_takes_what_the_budget_allows(name: str, why: str) -> None:
    assert report(FILES / f"{name}.yaml") == {"a": ("Placed", PLACED), "b": ("Unplaceable", why)}


def changed(tmp_path: Path, status: dict[str, Any], most: str | int) -> Path:
    """The two gangs of different priority under another budget."""
    objects = list(yaml.safe_load_all((FILES / "pdb_two_priorities.yaml").read_text()))
    for each in objects:
        if each["kind"] == "PodDisruptionBudget":
            each["status"], each["spec"]["maxUnavailable"] = status, most
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


GOING = {"web-0": "2026-01-01T00:00:00Z"}
GONE = {"web-9": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "most", "outcomes"),
    [
        ({"disruptionsAllowed": 2}, 1, ["Placed", "Placed"]),
        ({"disruptionsAllowed": 0}, 1, ["Unplaceable", "Unplaceable"]),
        ({}, "100%", ["Placed", "Placed"]),
        # an eviction that was accepted is charged already: its pod goes in any case, and no other may
        ({"disruptionsAllowed": 0, "disruptedPods": GOING}, 1, ["Placed", "Unplaceable"]),
        ({"disruptedPods": GOING}, 1, ["Placed", "Unplaceable"]),
        # an evicted pod that does not exist any more has freed its capacity and does not lower `disruptionsAllowed`
        ({"disruptionsAllowed": 1, "disruptedPods": GONE}, 1, ["Placed", "Unplaceable"]),
    ],
)
def test_the_budget_holds_what_its_status_and_the_plans_before_leave(
    tmp_path: Path, status: dict[str, Any], most: str | int, outcomes: list[str]
) -> None:
    told = report(changed(tmp_path, status, most))
    assert [told["a"][0], told["b"][0]] == outcomes


@pytest.mark.parametrize(
    ("name", "budgets"),
    [("pdb_two_over_one_pod", "default/w and default/w2"), ("pdb_two_overlap", "default/web and default/web2")],
)
def test_pods_under_two_budgets_are_told_as_what_they_are(name: str, budgets: str) -> None:
    """The Eviction API answers with an error for them: it used to be "Insufficient cpu", and nothing else."""
    ((_, message),) = report(FILES / f"{name}.yaml").values()
    assert message.endswith(f"Insufficient cpu); pods there under two disruption budgets cannot be evicted ({budgets})")


@pytest.mark.parametrize(
    "wrong",
    [
        {"maxUnavailable": 1, "minAvailable": 1},
        {"maxUnavailable": "2"},
        {"minAvailable": "60.5%"},
        {"maxUnavailable": 2, "selector": {"matchLabels": 5}},
    ],
)
def test_a_budget_that_is_refused_lets_nobody_go(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """An invalid budget must not count as a missing one."""
    objects = list(yaml.safe_load_all((FILES / "pdb_two_priorities.yaml").read_text()))
    for each in objects:
        if each["kind"] == "PodDisruptionBudget":
            del each["spec"]["maxUnavailable"]
            each["spec"] |= wrong
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"])
    told = [(gang["outcome"], gang["message"]) for gang in yaml.safe_load(result.stdout)["gangs"]]
    assert told == [("Unplaceable", LIMITED)] * 2
    assert "PodDisruptionBudget default/web: spec" in result.stderr
    assert result.exit_code == 2
