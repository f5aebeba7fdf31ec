"""A running gang keeps the minimum of each of its sets or is evicted as a whole, even if its objects have changed.

    n1: a0                1 cpu
    n2: a1 b0 b1          3 cpu; all of gang h: 3 of 4, 2 of set a, 1 of set b

A pod of higher priority wants n1.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cli.main import group

Objects = list[dict[str, Any]]

FILES = Path(__file__).parent / "running_gangs"
SETS = list(yaml.safe_load_all((FILES / "running_gang_set_minimum.yaml").read_text()))
WHOLE = ["a0", "a1", "b0", "b1"]


def report(path: Path) -> dict[str, Any]:
    """Return the report of `phalanx solve` on the pending gang g."""
    result = CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"])
    gangs: list[dict[str, Any]] = yaml.safe_load(result.stdout)["gangs"]
    return next(gang for gang in gangs if gang["name"] == "g")


def victims(told: dict[str, Any]) -> list[str]:
    return [each["pod"] for each in told["victims"]]


@pytest.mark.parametrize("name", ["running_gang_set_minimum", "invalid_running_gang_unprotected"])
def test_a_gang_that_would_be_cut_short_goes_as_a_whole(name: str) -> None:
    told = report(FILES / f"{name}.yaml")
    assert told["message"] == (
        "1 pod fits on n1, after evicting default/a0, default/a1, default/b0 and 1 more, proven optimal"
    )
    assert victims(told) == WHOLE
    assert {"goal": "gangsBroken", "value": 1, "bound": 1} in told["objective"]


def named(objects: Objects, name: str) -> dict[str, Any]:
    return next(each for each in objects if each["metadata"]["name"] == name)


def deleted(objects: Objects) -> None:
    objects.remove(named(objects, "h"))


def asking(**spec: Any) -> Callable[[Objects], None]:
    def change(objects: Objects) -> None:
        named(objects, "h")["spec"] = spec

    return change


def with_sets(minimum: int, a: int, b: int) -> Callable[[Objects], None]:
    return asking(
        minMember=minimum,
        podSets=[{"name": "a", "count": max(2, a), "minCount": a}, {"name": "b", "count": 2, "minCount": b}],
    )


def one_more(objects: Objects) -> None:
    """Add a running member a2, so that the gang has more members than its object states."""
    more = copy.deepcopy(named(objects, "a1"))
    more["metadata"]["name"] = "a2"
    named(objects, "n2")["status"]["allocatable"]["cpu"] = "4"
    objects.append(more)


def ending(objects: Objects) -> None:
    named(objects, "a1")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def succeeded(name: str) -> Callable[[Objects], None]:
    def change(objects: Objects) -> None:
        named(objects, name)["status"] = {"phase": "Succeeded"}

    return change


def failed(objects: Objects) -> None:
    named(objects, "a1")["status"] = {"phase": "Failed"}


def released(objects: Objects) -> None:
    """Change a1 to a member that was released to n2 and is not bound yet."""
    pod = named(objects, "a1")
    del pod["spec"]["nodeName"]
    pod["status"] = {"nominatedNodeName": "n2"}
    pod["metadata"]["annotations"] = {"phalanx.dev/planned-node": "n2"}


def unknown_set(objects: Objects) -> None:
    named(objects, "b1")["metadata"]["labels"]["phalanx.dev/pod-set"] = "c"


def protected(objects: Objects) -> None:
    """Give b1 the priority of the pending gang. Then b1 cannot be evicted, and so its whole gang cannot."""
    named(objects, "b1")["spec"]["priority"] = 10


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (deleted, WHOLE),
        (asking(), WHOLE),
        (asking(minMember=2, podSets=[{"name": "other", "count": 4}]), WHOLE),
        (with_sets(4, 2, 2), WHOLE),
        (with_sets(6, 4, 2), WHOLE),
        (with_sets(4, 1, 1), WHOLE),
        (with_sets(2, 1, 1), ["a0"]),
        (one_more, ["a0"]),
        (ending, ["a0", "b0", "b1"]),
        (failed, ["a0", "b0", "b1"]),
        (succeeded("b1"), ["a0", "a1", "b0"]),
        (released, WHOLE),
        (unknown_set, WHOLE),
        (protected, []),
    ],
)
def test_it_goes_whole_or_not_at_all_whatever_became_of_it(
    tmp_path: Path, change: Callable[[Objects], None], gone: list[str]
) -> None:
    objects = copy.deepcopy(SETS)
    change(objects)
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    assert victims(report(path)) == gone


def test_a_gang_that_cannot_go_as_a_whole_is_told_as_what_stands_in_the_way() -> None:
    """One member has the priority of the pending gang: the message must name the gang beside the node selector."""
    told = report(FILES / "member_of_higher_priority.yaml")
    assert told["message"] == (
        "needs 1 pod: the cluster holds 0 of 1 (1 node: node(s) didn't match Pod's node affinity/selector); "
        "gang default/h there goes whole or not at all"
    )


def reports(path: Path) -> dict[str, dict[str, Any]]:
    gangs: list[dict[str, Any]] = yaml.safe_load(
        CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"]).stdout
    )["gangs"]
    return {gang["name"]: gang for gang in gangs}


@pytest.mark.parametrize(
    ("name", "gone", "outcome", "placed", "message"),
    [
        (
            "victim_gang_replacement",
            ["h-0", "h-1"],
            "Waiting",
            {},
            "waits for 2 more pods: 1 of 3 exist; h-0..1 are evicted for default/g",
        ),
        (
            "victim_gang_extra",
            ["h-0"],
            "Placed",
            {"h-1": "n2", "h-2": "n3"},
            "1 more pod fits beside 1 in r1: n3, proven optimal; h-0 is evicted for default/g",
        ),
    ],
)
def test_who_is_evicted_is_counted_on_by_no_plan_of_its_own_gang(
    name: str, gone: list[str], outcome: str, placed: dict[str, str], message: str
) -> None:
    told = reports(FILES / f"{name}.yaml")
    assert victims(told["g"]) == gone
    assert {each["pod"]: each["node"] for each in told["h"]["assignments"]} == placed
    assert (told["h"]["outcome"], told["h"]["message"]) == (outcome, message)
