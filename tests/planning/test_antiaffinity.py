"""Anti-affinity between members of one gang, framed by shape: which shapes exclude each other, in which domains.

s/b0: node-0 node-1
s/b1: node-2
"""

from collections.abc import Sequence
from typing import Any

import pytest
import scenes

from planning.framing.gang_problem import Framing, frame
from planning.framing.priorities import with_priorities
from solver.problem import Exclusion, Separation

BLOCK = scenes.label("block")
CLUSTER = [scenes.topology(), *scenes.nodes("s/b0: node-0 node-1\ns/b1: node-2")]
BLOCKS = ("b0", "b0", "b1")
NODES = ("node-0", "node-1", "node-2")


def framed(members: Sequence[dict[str, Any]]) -> Framing:
    """The problem of placing these members of one set."""
    (gang,), snapshot, (topology,) = scenes.picture(*CLUSTER, scenes.gang(minMember=len(members)), members)
    return frame(with_priorities(gang, snapshot), snapshot, topology, running={})


def ports(*numbers: int, address: str = "", host_network: bool = False) -> dict[str, Any]:
    """Containers with these ports of the node."""
    wanted = [
        {"containerPort": number} if host_network else {"containerPort": 1, "hostPort": number, "hostIP": address}
        for number in numbers
    ]
    requests = {"requests": {"cpu": 1}}
    return {
        "containers": [{"name": "main", "image": "i", "ports": wanted, "resources": requests}],
        "hostNetwork": host_network,
    }


def apart(key: str = BLOCK, **labels: str) -> dict[str, Any]:
    """Anti-affinity to pods with these labels."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def members(*each: tuple[dict[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Pods with labels and specs."""
    return [
        scenes.labelled(scenes.pod(f"llm-{number}", gang="llm", cpu=1, **spec), **labels)
        for number, (labels, spec) in enumerate(each)
    ]


def shapes(framing: Framing) -> list[int]:
    return [member.shape for each in framing.problem.sets for member in each.members]


@pytest.mark.parametrize(
    ("asked", "alike", "exclusions", "separations"),
    [
        ([{}, {}], [0, 0], [], []),
        ([ports(80), {}, {}], [0, 0, 0], [], []),
        ([ports(80), ports(81), ports(82)], [0, 0, 0], [], []),
        ([ports(80), ports(80), {}], [0, 0, 1], [(0,)], []),
        ([ports(80), ports(80, 81), ports(81)], [0, 1, 2], [(0, 1), (2,)], [((1,), (2,))]),
        ([ports(80), ports(80, 81), ports(80, 81)], [0, 1, 1], [(0, 1)], []),
        ([ports(80, address="10.0.0.1"), ports(80, address="10.0.0.2")], [0, 0], [], []),
        ([ports(80, address="10.0.0.1"), ports(80)], [0, 1], [(0, 1)], []),
        ([ports(80, host_network=True), ports(80, host_network=True)], [0, 0], [(0,)], []),
        ([ports(80, host_network=True), ports(81, host_network=True)], [0, 0], [], []),
    ],
)
def test_host_ports_count_member_by_member(
    asked: list[dict[str, Any]],
    alike: list[int],
    exclusions: list[tuple[int, ...]],
    separations: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    framing = framed(members(*(({}, spec) for spec in asked)))
    assert shapes(framing) == alike
    assert framing.problem.exclusions == tuple(Exclusion(each, NODES) for each in exclusions)
    assert framing.problem.separations == tuple(Separation(*each, NODES) for each in separations)


X, Y, Z = {"app": "x"}, {"app": "y"}, {"app": "z"}


@pytest.mark.parametrize(
    ("asked", "alike", "exclusions", "separations"),
    [
        ([(X, apart(app="x")), (X, apart(app="x"))], [0, 0], [(0,)], []),
        ([(X, apart(app="y")), (X, apart(app="y"))], [0, 0], [], []),
        ([(X, apart(app="x")), (X, {})], [0, 1], [(0,)], [((0,), (1,))]),
        ([(X, apart(app="x")), (X, apart(app="x")), (X, {})], [0, 0, 1], [(0,)], [((0,), (1,))]),
        ([(X, apart(app="y")), (Y, {}), (Z, {})], [0, 1, 2], [], [((0,), (1,))]),
        ([(X, apart(app="y")), (Y, {}), (Z, apart(app="y"))], [0, 1, 0], [], [((0,), (1,))]),
        ([(X, apart(app="x")), (Y, {}), (Z, {})], [0, 0, 0], [], []),
    ],
)
def test_anti_affinity_counts_member_by_member(
    asked: list[tuple[dict[str, str], dict[str, Any]]],
    alike: list[int],
    exclusions: list[tuple[int, ...]],
    separations: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    framing = framed(members(*asked))
    assert shapes(framing) == alike
    assert framing.problem.exclusions == tuple(Exclusion(each, BLOCKS) for each in exclusions)
    assert framing.problem.separations == tuple(Separation(*each, BLOCKS) for each in separations)


def test_a_member_that_runs_already_counts_with_its_own_port() -> None:
    held, free, other = members(({}, {**ports(80), "nodeName": "node-0"}), ({}, ports(80)), ({}, {}))
    (decision,) = scenes.solved(CLUSTER, scenes.gang(minMember=3), [held, free, other]).decisions
    assert [each.node for each in decision.assignments] == ["node-0", "node-1", "node-1"]


def test_members_that_differ_in_what_nobody_looks_at_are_one_shape() -> None:
    """512 pods of the same spec with an index each, which keep off each other's nodes."""
    alike = [({"index": str(number), "app": "x"}, apart("kubernetes.io/hostname", app="x")) for number in range(512)]
    framing = framed(members(*alike))
    assert set(shapes(framing)) == {0}
    assert framing.problem.exclusions == (Exclusion((0,), NODES),)
