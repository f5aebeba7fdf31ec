"""A released member that is not bound reserves its node's capacity only if the node has this capacity.

A member that only the stock scheduler has nominated is planned like any other member.

    n1: 4 cpu, all taken by busy        g-0 asks for 4 and names n1
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from click.testing import CliRunner
from manual_clock import clock_at
from solving import solved

from cli.main import group

Objects = list[dict[str, Any]]
Change = Callable[[Objects], None]

OBJECTS = list(yaml.safe_load_all((Path(__file__).parent / "let_go" / "nominated_on_full_node.yaml").read_text()))
FULL = "needs 1 pod: the cluster holds 0 of 1 (1 node: Insufficient cpu)"
DELETE = "make room, or delete it to be planned anew"
STUCK = f"pod g-0 was released to n1 and cannot be bound there (Insufficient cpu): {DELETE}"

WRITTEN = "node(s) didn't match Pod's node affinity/selector"
BESIDE = (
    "needs 1 pod: the cluster holds 0 of 1 (1 node: a pod was released to another node, 1 node: {0}); "
    f"pod g-0 was released to n1 and cannot be bound there ({{0}}): {DELETE}"
)


def named(objects: Objects, name: str) -> dict[str, Any]:
    return next(each for each in objects if each["metadata"]["name"] == name)


def let_go(objects: Objects, name: str = "g-0", node: str = "n1") -> None:
    """Mark the member as released to a node by a plan of Phalanx."""
    named(objects, name)["metadata"]["annotations"] = {"phalanx.dev/planned-node": node}


def forgotten(objects: Objects) -> None:
    """The stock scheduler has cleared its nomination."""
    let_go(objects)
    named(objects, "g-0")["status"] = {"phase": "Pending"}


def second_node(objects: Objects) -> None:
    node = copy.deepcopy(named(objects, "n1"))
    node["metadata"] = {"name": "n2", "labels": {"kubernetes.io/hostname": "n2", "example.com/rack": "r1"}}
    objects.append(node)


def second_member(objects: Objects, cpu: str = "4") -> None:
    """g-1, of which the gang needs one or g-0."""
    member = copy.deepcopy(named(objects, "g-0"))
    member["metadata"]["name"], member["status"] = "g-1", {}
    member["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    objects.append(member)


def less_important(objects: Objects) -> None:
    named(objects, "busy")["spec"]["priority"] = 0


def gone(objects: Objects) -> None:
    objects.remove(named(objects, "busy"))


def cordoned(objects: Objects) -> None:
    gone(objects)
    named(objects, "n1")["spec"] = {"unschedulable": True}


def absent(objects: Objects) -> None:
    second_node(objects)
    let_go(objects, node="n9")
    named(objects, "g-0")["status"] = {"nominatedNodeName": "n9"}


def tainted(objects: Objects) -> None:
    gone(objects)
    named(objects, "n1")["spec"] = {"taints": [{"key": "x", "effect": "NoSchedule"}]}


def selecting(objects: Objects) -> None:
    gone(objects)
    named(objects, "g-0")["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}


def both_faulty(objects: Objects) -> None:
    """Release g-0 to n1, which is cordoned by now, and g-1 to n2, which is tainted by now."""
    let_go(objects)
    cordoned(objects)
    let_go(objects, "g-1", "n2")
    named(objects, "n2")["spec"] = {"taints": [{"key": "x", "effect": "NoSchedule"}]}


def two_racks(objects: Objects) -> None:
    """Release g-0 to n1 and g-1 to n2, in two racks, while the gang requires one rack."""
    let_go(objects)
    let_go(objects, "g-1", "n2")
    named(objects, "n2")["metadata"]["labels"]["example.com/rack"] = "r2"
    named(objects, "g")["spec"] = {"minMember": 2, "required": "rack"}


def both_on_one(objects: Objects) -> None:
    """Release two members to n1, which has capacity for one of them by now."""
    gone(objects)
    second_member(objects)
    let_go(objects)
    let_go(objects, "g-1")
    named(objects, "g-1")["status"] = {"nominatedNodeName": "n1"}


def ending(objects: Objects) -> None:
    named(objects, "busy")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


CASES: dict[str, tuple[tuple[Change, ...], tuple[str, str, str]]] = {
    "nominated by the stock scheduler": ((), ("Unplaceable", "Infeasible", FULL)),
    "the same, with room elsewhere": (
        (second_node,),
        ("Placed", "Optimal", "1 pod fits on n2, proven optimal"),
    ),
    "released": (
        (let_go,),
        (
            "Unplaceable",
            "Infeasible",
            f"{FULL}; {STUCK}",
        ),
    ),
    "released, and its nomination cleared": (
        (forgotten,),
        (
            "Unplaceable",
            "Infeasible",
            f"{FULL}; {STUCK}",
        ),
    ),
    "released, with room elsewhere": (
        (let_go, second_node),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (1 node: Insufficient cpu, 1 node: a pod was released to "
                f"another node); {STUCK}"
            ),
        ),
    ),
    "released, and its room is there": ((let_go, gone), ("Placed", "Optimal", "1 pod stays on n1, proven optimal")),
    "released, and its room is about to be": (
        (let_go, ending),
        ("Placed", "Optimal", "1 pod stays on n1, proven optimal"),
    ),
    "released, and who took its room may go": (
        (let_go, less_important),
        ("Placed", "Optimal", "1 pod fits on n1, after evicting default/busy, proven optimal"),
    ),
    "released, and a sibling is enough": (
        (second_member, second_node, let_go),
        (
            "Placed",
            "Optimal",
            (
                "1 of 2 pods fits on n2, proven optimal, 1 more finds no room (1 node: Insufficient cpu, 1 node: a pod "
                f"was released to another node); {STUCK}"
            ),
        ),
    ),
    "released to a node that was cordoned then": (
        (let_go, cordoned),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (1 node: node(s) were unschedulable); pod g-0 was released to "
                f"n1 and cannot be bound there (node(s) were unschedulable): {DELETE}"
            ),
        ),
    ),
    "released to a node that is gone": (
        (absent,),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (2 nodes: a pod was released to another node); pod g-0 was "
                f"released to n9 and cannot be bound there (the node is gone): {DELETE}"
            ),
        ),
    ),
    "released to a node that was cordoned then, beside another": (
        (second_node, let_go, cordoned),
        ("Unplaceable", "Infeasible", BESIDE.format("node(s) were unschedulable")),
    ),
    "released to a node that was tainted then": (
        (second_node, let_go, tainted),
        ("Unplaceable", "Infeasible", BESIDE.format("node(s) had untolerated taint {x: }")),
    ),
    "released to a node that its selector does not name": (
        (second_node, let_go, selecting),
        ("Unplaceable", "Infeasible", BESIDE.format(WRITTEN)),
    ),
    "released to two nodes, each with its own fault": (
        (second_node, second_member, both_faulty),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (1 node: node(s) had untolerated taint {x: }, 1 node: node(s) "
                "were unschedulable); pods were released and cannot be bound there, g-0 to n1 (node(s) were "
                "unschedulable) and g-1 to n2 (node(s) had untolerated taint {x: }): make room, or delete them to be "
                "planned anew"
            ),
        ),
    ),
    "released to two racks of which one is required": (
        (gone, second_node, second_member, two_racks),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 2 pods in one rack: r1 fits 1 of 2 (1 node: the members that are missing have their nodes "
                "elsewhere); r2 fits 1 of 2 (1 node: the members that are missing have their nodes elsewhere)"
            ),
        ),
    ),
    "two released to room for one": (
        (both_on_one,),
        (
            "Placed",
            "Optimal",
            (
                "1 pod stays on n1, proven optimal, 1 more finds no room (1 node: Insufficient cpu); "
                f"pod g-1 was released to n1 and cannot be bound there (Insufficient cpu): {DELETE}"
            ),
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_a_member_that_is_not_bound(tmp_path: Path, case: str) -> None:
    changes, expected = CASES[case]
    objects = copy.deepcopy(OBJECTS)
    for change in changes:
        change(objects)
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    with patch("planning.dry_run.SYSTEM_CLOCK", clock_at("2026-01-01T00:00:00Z")):
        report = CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"]).stdout
    (told,) = yaml.safe_load(report)["gangs"]
    assert (told["outcome"], told["proof"], told["message"]) == expected


TWO_GANGS: list[dict[str, Any]] = list(
    yaml.safe_load_all((Path(__file__).parent / "let_go" / "cleared_beside_another.yaml").read_text())
)


def wanting(objects: Objects, priority: int) -> None:
    named(objects, "z-0")["spec"]["priority"] = priority


def of_priority(priority: int) -> Change:
    return lambda objects: wanting(objects, priority)


def small(objects: Objects) -> None:
    wanting(objects, 5)
    for name in ("g-0", "z-0"):
        named(objects, name)["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"


def with_one_port(objects: Objects) -> None:
    small(objects)
    for name in ("g-0", "z-0"):
        named(objects, name)["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]


def keeping_off(objects: Objects) -> None:
    small(objects)
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"phalanx.dev/gang": "g"}},
    }
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    named(objects, "z-0")["spec"]["affinity"] = rules


def elsewhere(objects: Objects) -> None:
    """Release the member to a node that does not exist any more: the member reserves nothing."""
    let_go(objects, node="n9")


NO_PORT = "node(s) didn't have free ports for the requested pod ports"
NOT_BESIDE = "node(s) didn't match pod anti-affinity rules"
BESIDE_CASES: dict[str, tuple[Change, tuple[str, str]]] = {
    "a gang of lower priority": (of_priority(5), ("Unplaceable", FULL)),
    "a gang of its own priority": (of_priority(10), ("Unplaceable", FULL)),
    "a gang of higher priority": (
        of_priority(20),
        ("Placed", "1 pod fits on n1, after evicting default/g-0, proven optimal"),
    ),
    "room for both": (small, ("Placed", "1 pod fits on n1, proven optimal")),
    "one host port": (with_one_port, ("Unplaceable", FULL.replace("Insufficient cpu", NO_PORT))),
    "anti-affinity": (keeping_off, ("Unplaceable", FULL.replace("Insufficient cpu", NOT_BESIDE))),
    "its node is gone": (elsewhere, ("Placed", "1 pod fits on n1, proven optimal")),
}


@pytest.mark.parametrize("nomination", ["cleared", "standing"])
@pytest.mark.parametrize("case", BESIDE_CASES)
def test_it_holds_its_node_against_others_with_and_without_its_nomination(
    tmp_path: Path, case: str, nomination: str
) -> None:
    change, expected = BESIDE_CASES[case]
    objects = copy.deepcopy(TWO_GANGS)
    change(objects)
    if nomination == "standing":
        pod = named(objects, "g-0")
        pod["status"] = {"nominatedNodeName": pod["metadata"]["annotations"]["phalanx.dev/planned-node"]}
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    gangs = yaml.safe_load(CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"]).stdout)["gangs"]
    told = next(each for each in gangs if each["name"] == "z")
    assert (told["outcome"], told["message"]) == expected


def test_a_member_bound_to_a_node_that_is_gone_is_no_member() -> None:
    """Such a pod never runs again and reserves no capacity: the gang waits for the pod that replaces it."""
    answer = solved(Path(__file__).parent / "let_go" / "bound_to_a_node_that_is_gone.yaml")
    assert answer.report == (
        "default/g  Waiting\n  waits for 1 more pod: 1 of 2 exist; g-0 is bound to node gone, which does not exist\n"
    )
