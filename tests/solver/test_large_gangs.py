"""Gangs of equal pods on a real network of 847 hosts, proven optimal by counting only: CP-SAT gets no time."""

import csv
import random
import re
from pathlib import Path
from unittest.mock import patch

import pytest

from solver.nodes import Node, nodes_of
from solver.plan import Plan, Proof
from solver.problem import Limits, Member, PodSet, Problem, Shape
from solver.solve import solve
from solver.tree_dp import single_class
from solver.verify.rules import verify

HOSTS = Path(__file__).parents[2] / "examples" / "lingjun" / "topo.csv"
NO_TIME = Limits(deterministic=0.0, seconds=0.0)
GPUS = 8


def cluster(busy: float, seed: int = 0) -> tuple[Node, ...]:
    """The hosts under their switches; the given share of them has only some of its GPUs free."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable load, not a secret
    with HOSTS.open(encoding="utf-8", newline="") as file:
        rows = sorted(
            csv.DictReader(file), key=lambda row: (*map(numbers, (row["DSW"], row["PSW"], row["ASW"])), row["ip"])
        )
    free = [draw.randrange(GPUS) if draw.random() < busy else GPUS for _ in rows]
    return tuple(
        Node(f"host-{place}", (row["DSW"], row["PSW"], row["ASW"]), (gpus, 110), (0, 0))
        for place, (row, gpus) in enumerate(zip(rows, free, strict=True))
    )


def numbers(name: str) -> int:
    return int(re.sub(r"\D", "", name))


def gang(nodes: tuple[Node, ...], count: int, gpus: int, required: int | None = None) -> Problem:
    members = tuple(Member(f"pod-{rank}", 0) for rank in range(count))
    shape = Shape((gpus, 1), frozenset(range(len(nodes))))
    levels = ("dsw", "psw", "asw", "node")
    return Problem(
        levels, ("gpu", "pods"), nodes_of(nodes), (shape,), (PodSet("main", members, count),), count, required
    )


@pytest.mark.parametrize("busy", [0.0, 0.5])
@pytest.mark.parametrize(("count", "gpus"), [(2, 8), (8, 8), (64, 8), (64, 3), (256, 8), (512, 1)])
def test_every_goal_is_proven_by_counting(count: int, gpus: int, busy: float) -> None:
    problem = gang(cluster(busy), count, gpus)
    plan = solve(problem, NO_TIME)
    assert isinstance(plan, Plan)
    assert plan.proof is Proof.OPTIMAL
    assert all(goal.bound == goal.value for goal in plan.goals)
    assert verify(problem, plan) == ()


@pytest.mark.parametrize(("required", "busy"), [(0, 0.6), (1, 0.8), (None, 0.9)])
def test_looking_at_what_is_compared_first_alone_leads_to_the_same_plan(required: int | None, busy: float) -> None:
    problem = gang(cluster(busy), 600, 1, required)
    heads_first = solve(problem, NO_TIME)
    with patch.object(single_class, "_MANY", 601):
        at_once = solve(problem, NO_TIME)
    assert heads_first == at_once
    assert heads_first.proof is Proof.OPTIMAL


def test_64_whole_hosts_take_8_switches_where_all_are_free() -> None:
    """No access switch has more than 8 hosts, so fewer than 8 switches cannot hold them."""
    nodes = cluster(busy=0.0)
    plan = solve(gang(nodes, 64, GPUS), NO_TIME)
    assert isinstance(plan, Plan)
    values = {goal.name: goal.value for goal in plan.goals}
    assert (values["compactness/psw"], values["compactness/asw"], values["compactness/node"]) == (1, 8, 64)
    switches = [nodes[node].path for node in plan.nodes[0] if node is not None]
    assert len({tuple(switches[first : first + 8]) for first in range(0, 64, 8)}) == 8
    assert all(len(set(switches[first : first + 8])) == 1 for first in range(0, 64, 8))


def test_a_gang_that_fits_under_no_switch_is_refused_by_counting() -> None:
    answer = solve(gang(cluster(busy=0.0), 64, GPUS, required=2), NO_TIME)
    assert answer.proof is Proof.INFEASIBLE
