"""Planning beside plans in force: the victims of a plan in force are charged to budgets and counted once.

n0 n1 n2, 8 cpu each; a pod takes a node. web-0..2 run there under one disruption budget.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import scenes

from gangs.model import Reading
from planning.competing.promised_evictions import promised_by, with_promised
from planning.framing.disruption_budgets import overdrawn
from planning.framing.running_gangs import cut_short, running_gangs
from planning.planner import plan_all
from planning.planning_options import PlanningOptions

NODES = "s/b: n0 n1 n2"


def with_uids(pods: Sequence[scenes.Manifest]) -> list[scenes.Manifest]:
    for pod in pods:
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
    return list(pods)


def web(gang: str = "") -> list[scenes.Manifest]:
    return with_uids([scenes.labelled(scenes.running(f"web-{i}", f"n{i}", gang=gang), app="web") for i in range(3)])


def holding(*victims: str) -> dict[str, Any]:
    """A Gang object whose plan in force evicts these pods."""
    told = [{"namespace": "default", "pod": name, "uid": f"uid-{name}", "node": f"n{name[-1]}"} for name in victims]
    return {"status": {"planId": "p", "victims": told}}


def planned(gang: dict[str, Any], promised: Sequence[str], *parts: Any, members: int = 1) -> tuple[str, list[str]]:
    """Plan a gang of priority 5 beside the plan in force of `gang`, and return its outcome and its victims."""
    cluster = scenes.nodes(NODES), scenes.topology()
    asking = scenes.gang(minMember=members), scenes.members(members, priority=5)
    gangs, snapshot, known = scenes.picture(*cluster, *parts, *asking)
    picture = with_promised(snapshot, promised_by([gang, {"status": None}, holding("web-9")]))
    assert picture.leaving == {f"default/{name}" for name in promised}
    pending = [each for each in gangs if each.key.name == "llm"]
    (decision,) = plan_all(pending, picture, known, PlanningOptions(running_gangs=running_gangs(Reading(tuple(gangs)))))
    return decision.outcome.value, [each.name for each in decision.evictions]


def budget(allowed: int) -> scenes.Manifest:
    return scenes.budget("web", {"app": "web"}, allowed=allowed, maxUnavailable=1)


@pytest.mark.parametrize(
    ("promised", "allowed", "members", "expected"),
    [
        ([], 1, 1, ("Placed", ["web-0"])),
        (["web-0"], 1, 1, ("Placed", ["web-0"])),  # it goes in any case and is spent once
        (["web-0"], 1, 2, ("Unplaceable", [])),
        (["web-0"], 2, 2, ("Placed", ["web-0", "web-1"])),
        (["web-1"], 2, 3, ("Unplaceable", [])),
        (["web-0", "web-1"], 2, 2, ("Placed", ["web-0", "web-1"])),
        (["web-0", "web-1"], 0, 1, ("Placed", ["web-0"])),
    ],
)
def test_what_a_plan_in_force_evicts_is_charged_once(
    promised: list[str], allowed: int, members: int, expected: tuple[str, list[str]]
) -> None:
    assert planned(holding(*promised), promised, web(), budget(allowed), members=members) == expected


@pytest.mark.parametrize("status", [{}, {"planId": "", "victims": holding("web-0")["status"]["victims"]}])
def test_a_plan_that_is_not_in_force_promises_nothing(status: dict[str, Any]) -> None:
    assert planned({"status": status}, [], web(), budget(1)) == ("Placed", ["web-0"])


def test_a_victim_on_its_way_out_is_charged_no_more() -> None:
    pods = web()
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert planned(holding("web-0"), [], pods, budget(1), members=2) == ("Placed", ["web-1"])


@pytest.mark.parametrize(
    ("promised", "least", "victims"),
    [
        ([], 2, ["web-0"]),
        (["web-2"], 2, ["web-2"]),  # the plan in force evicts web-2 in any case, so evicting it again breaks no minimum
        (["web-2"], 1, ["web-0"]),
        (["web-1", "web-2"], 1, ["web-1"]),
    ],
)
def test_who_goes_for_a_plan_in_force_runs_no_more_in_its_gang(
    promised: list[str], least: int, victims: list[str]
) -> None:
    told = planned(holding(*promised), promised, web("old"), scenes.gang("old", minMember=least))
    assert told == ("Placed", victims)


@pytest.mark.parametrize(
    ("gone", "beside", "cut"),
    [
        ({"web-0"}, [], False),
        ({"web-0", "web-1"}, [], True),
        ({"web-0"}, ["web-1"], True),
        ({"web-0", "web-1"}, ["web-2"], False),  # all of it goes
        (set(), ["web-0"], False),
    ],
)
def test_evictions_that_would_cut_a_gang_short_are_known(gone: set[str], beside: list[str], *, cut: bool) -> None:
    gangs, snapshot, _ = scenes.picture(scenes.nodes(NODES), web("old"), scenes.gang("old", minMember=2))
    picture = with_promised(snapshot, promised_by([holding(*beside)]))
    told = cut_short({f"default/{name}" for name in gone}, picture, running_gangs(Reading(tuple(gangs))))
    assert told == (
        "gang default/old would be left with fewer members than it needs, and not go as a whole" if cut else ""
    )


@pytest.mark.parametrize(
    ("allowed", "gone", "beside", "planned"),
    [
        (1, ["web-0"], [], 0),
        (1, ["web-0", "web-1"], [], 2),
        (0, ["web-0"], [], 1),
        (0, [], ["web-0"], 0),
        (1, ["web-0"], ["web-0"], 0),  # two plans evict one pod
        (1, ["web-0"], ["web-1"], 2),
        (2, ["web-0"], ["web-1"], 0),
    ],
)
def test_evictions_that_overdraw_a_budget_are_known(
    allowed: int, gone: list[str], beside: list[str], planned: int
) -> None:
    _, snapshot, _ = scenes.picture(scenes.nodes(NODES), web(), budget(allowed))
    told = overdrawn({f"default/{name}" for name in gone}, with_promised(snapshot, promised_by([holding(*beside)])))
    more = f"PodDisruptionBudget default/web allows {allowed} more evictions, and {planned} are planned"
    assert told == (more if planned else "")
