"""A member that was let go and is not bound holds its node's room only as far as that is there; one that only the stock
scheduler has nominated is planned as any other.

    n1: 4 cpu, all taken by busy        g-0 asks for 4 and names n1
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
Change = Callable[[Objects], None]

OBJECTS = list(yaml.safe_load_all((Path(__file__).parent / "let_go" / "nominated_on_full_node.yaml").read_text()))
FULL = "needs 1 pod: the cluster holds 0 of 1 (1 node: Insufficient cpu)"
DELETE = "make room, or delete it to be planned anew"
STUCK = f"pod g-0 was let go to n1 and cannot be bound there (Insufficient cpu): {DELETE}"


def named(objects: Objects, name: str) -> dict[str, Any]:
    return next(each for each in objects if each["metadata"]["name"] == name)


def let_go(objects: Objects, name: str = "g-0", node: str = "n1") -> None:
    """By our own plan."""
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


def both_on_one(objects: Objects) -> None:
    """Two were let go to n1, where there is room for one by now."""
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
    "let go": (
        (let_go,),
        (
            "Unplaceable",
            "Infeasible",
            f"{FULL}; {STUCK}",
        ),
    ),
    "let go, and its nomination cleared": (
        (forgotten,),
        (
            "Unplaceable",
            "Infeasible",
            f"{FULL}; {STUCK}",
        ),
    ),
    "let go, with room elsewhere": (
        (let_go, second_node),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (1 node: Insufficient cpu, 1 node: a pod was let go to another "
                f"node); {STUCK}"
            ),
        ),
    ),
    "let go, and its room is there": ((let_go, gone), ("Placed", "Optimal", "1 pod stays on n1, proven optimal")),
    "let go, and its room is about to be": (
        (let_go, ending),
        ("Placed", "Optimal", "1 pod stays on n1, proven optimal"),
    ),
    "let go, and who took its room may go": (
        (let_go, less_important),
        ("Placed", "Optimal", "1 pod fits on n1, after evicting default/busy, proven optimal"),
    ),
    "let go, and a sibling is enough": (
        (second_member, second_node, let_go),
        (
            "Placed",
            "Optimal",
            (
                "1 of 2 pods fits on n2, proven optimal, 1 more finds no room (1 node: Insufficient cpu, 1 node: a pod "
                f"was let go to another node); {STUCK}"
            ),
        ),
    ),
    "let go to a node that was cordoned then": (
        (let_go, cordoned),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (1 node: node(s) were unschedulable); pod g-0 was let go to n1 "
                f"and cannot be bound there (node(s) were unschedulable): {DELETE}"
            ),
        ),
    ),
    "let go to a node that is gone": (
        (absent,),
        (
            "Unplaceable",
            "Infeasible",
            (
                "needs 1 pod: the cluster holds 0 of 1 (2 nodes: the node is gone); pod g-0 was let go to n9 and "
                f"cannot be bound there (the node is gone): {DELETE}"
            ),
        ),
    ),
    "two let go to room for one": (
        (both_on_one,),
        (
            "Placed",
            "Optimal",
            (
                "1 pod stays on n1, proven optimal, 1 more finds no room (1 node: Insufficient cpu); "
                f"pod g-1 was let go to n1 and cannot be bound there (Insufficient cpu): {DELETE}"
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
    (told,) = yaml.safe_load(CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"]).stdout)["gangs"]
    assert (told["outcome"], told["proof"], told["message"]) == expected
