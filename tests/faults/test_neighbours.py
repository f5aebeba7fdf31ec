"""Each member of a set is checked on its own, and any pod in its way is a possible victim under the usual rules."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from solving import solved, written

FILES = Path(__file__).parent / "neighbours"
Objects = list[dict[str, Any]]


@pytest.mark.parametrize(
    ("name", "status", "lines"),
    [
        (
            "ports_invalid",
            3,
            ["needs 3 pods: the cluster holds 2 of 3", "would fit if: members no longer excluding each other"],
        ),
        (
            "antiaffinity_invalid",
            3,
            ["needs 2 pods: the cluster holds 1 of 2", "would fit if: members no longer excluding each other"],
        ),
        ("ports_missed", 0, ["2 pods fit on n3, proven optimal"]),
        ("ports_leader_worker_koordinator", 0, ["2 pods fit on n1, proven optimal"]),
        ("ports_not_compact", 0, ["2 pods fit on n7, proven optimal"]),
        ("port_of_victim", 0, ["1 pod fits on n1, after evicting default/low, proven optimal"]),
        ("antiaffinity_of_victim", 0, ["1 pod fits on n1, after evicting default/low, proven optimal"]),
    ],
)
def test_the_plan_of_the_file(name: str, status: int, lines: list[str]) -> None:
    answer = solved(FILES / f"{name}.yaml")
    told = [line.strip() for line in answer.report.splitlines()]
    assert (answer.status, [line for line in lines if line not in told], answer.said) == (status, [], "")


def objects(name: str) -> Objects:
    return list(yaml.safe_load_all((FILES / f"{name}.yaml").read_text()))


def named(everything: Objects, name: str) -> dict[str, Any]:
    return next(each for each in everything if each["metadata"]["name"] == name)


def of_priority(number: int) -> Callable[[Objects], None]:
    def change(everything: Objects) -> None:
        named(everything, "low")["spec"]["priority"] = number

    return change


def of_a_daemon(everything: Objects) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    named(everything, "low")["metadata"]["ownerReferences"] = [owner]


def never_preempting(everything: Objects) -> None:
    named(everything, "g-0")["spec"]["preemptionPolicy"] = "Never"


def under_a_budget(everything: Objects) -> None:
    named(everything, "low")["metadata"]["labels"] = {"app": "low"}
    everything.append(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}},
            "status": {"disruptionsAllowed": 0},
        }
    )


def on_its_way_out(everything: Objects) -> None:
    named(everything, "low")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def beside_a_free_node(everything: Objects) -> None:
    node = copy.deepcopy(named(everything, "n1"))
    node["metadata"] |= {"name": "n2", "labels": {"kubernetes.io/hostname": "n2", "example.com/rack": "r1"}}
    everything.append(node)


PORTS = "node(s) didn't have free ports for the requested pod ports"
APART = "node(s) didn't satisfy existing pods anti-affinity rules"


@pytest.mark.parametrize(("name", "reason"), [("port_of_victim", PORTS), ("antiaffinity_of_victim", APART)])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (of_priority(10), "needs 1 pod: the cluster holds 0 of 1 (1 node: {})"),
        (of_a_daemon, "needs 1 pod: the cluster holds 0 of 1 (1 node: {})"),
        (never_preempting, "needs 1 pod: the cluster holds 0 of 1 (1 node: {})"),
        (
            under_a_budget,
            (
                "needs 1 pod: the cluster holds 0 of 1 (1 node: {}); "
                "evictions there are limited by PodDisruptionBudget default/keep"
            ),
        ),
        (on_its_way_out, "1 pod fits on n1, proven optimal"),
        (beside_a_free_node, "1 pod fits on n2, proven optimal"),
    ],
)
def test_who_is_in_the_way_goes_only_where_he_must_and_may(
    name: str, reason: str, change: Callable[[Objects], None], expected: str, tmp_path: Path
) -> None:
    everything = objects(name)
    change(everything)
    told = solved(written(tmp_path, yaml.safe_dump_all(everything))).report
    assert told.splitlines()[1].strip() == expected.format(reason)


def test_a_pod_that_keeps_a_rack_off_goes_though_it_runs_on_a_full_node(tmp_path: Path) -> None:
    """It keeps app=g off its rack; the member runs on the node beside it."""
    everything = objects("antiaffinity_of_victim")
    beside_a_free_node(everything)
    low = named(everything, "low")["spec"]
    (term,) = low["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["topologyKey"] = "example.com/rack"
    named(everything, "n1")["status"]["allocatable"]["cpu"] = "1"
    named(everything, "g-0")["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    told = solved(written(tmp_path, yaml.safe_dump_all(everything))).report
    assert told.splitlines()[1].strip() == "1 pod fits on n2, after evicting default/low, proven optimal"


def test_a_member_keeps_off_a_pod_that_goes(tmp_path: Path) -> None:
    """The other way round: the member's own anti-affinity."""
    everything = objects("antiaffinity_of_victim")
    low, member = named(everything, "low"), named(everything, "g-0")
    member["spec"]["affinity"] = low["spec"].pop("affinity")
    member["metadata"]["labels"].pop("app")
    low["metadata"]["labels"] = {"app": "g"}
    told = solved(written(tmp_path, yaml.safe_dump_all(everything))).report
    assert told.splitlines()[1].strip() == "1 pod fits on n1, after evicting default/low, proven optimal"


def test_a_pod_that_a_member_must_be_near_is_not_evicted_for_it(tmp_path: Path) -> None:
    """Both pods need all of n1. Without the running pod the member's affinity fails; with it there is no capacity."""
    everything = objects("antiaffinity_of_victim")
    low, member = named(everything, "low"), named(everything, "g-0")
    affinity = low["spec"].pop("affinity")
    member["spec"]["affinity"] = {"podAffinity": affinity.pop("podAntiAffinity")}
    member["metadata"]["labels"].pop("app")
    low["metadata"]["labels"] = {"app": "g"}
    for each in (low, member):
        each["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    answer = solved(written(tmp_path, yaml.safe_dump_all(everything)))
    assert answer.status == 3
    assert answer.report.splitlines()[:2] == [
        "default/g  Unplaceable  infeasible",
        "  needs 1 pod: the cluster holds 0 of 1",
    ]
