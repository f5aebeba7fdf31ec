"""Gangs of one priority whose pods have rules about each other: ports, affinity and anti-affinity between gangs."""

from pathlib import Path

import pytest
import yaml
from solving import solved, written

FILES = Path(__file__).parent / "rules_between_gangs"


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("cross_port", {"a": "1 pod fits on n2", "b": "1 pod fits on n1"}),
        ("cross_anti", {"a": "1 pod fits on n2", "b": "1 pod fits on n1"}),
        ("cross_anti_asym", {"a": "1 pod fits on n2", "b": "1 pod fits on n1"}),
        ("amongaff_then_sel", {"a": "2 pods fit on n2", "b": "1 pod fits on n1"}),
        ("cross_aff", {"a": "1 pod fits on n2", "b": "1 pod fits on n2"}),
        ("cross_aff_of_the_older", {"a": "1 pod fits on n2", "b": "1 pod fits on n2"}),
    ],
)
def test_the_older_gang_makes_way_where_it_can(name: str, places: dict[str, str]) -> None:
    answer = solved(FILES / f"{name}.yaml")
    found = answer.gangs
    assert answer.status == 0
    assert found == {
        f"default/{gang}": (["Placed", "optimal"], f"{place}, proven optimal") for gang, place in places.items()
    }


BESIDE = "no place beside gang default/a, of the same priority and first in line; needs 1 pod: the cluster holds 0 of 1"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("anti_two_gangs", "node(s) didn't satisfy existing pods anti-affinity rules"),
        ("ports_two_gangs", "node(s) didn't have free ports for the requested pod ports"),
    ],
)
def test_a_gang_without_a_place_beside_another_is_told_so(name: str, reason: str) -> None:
    answer = solved(FILES / f"{name}.yaml")
    told = [line.strip() for line in answer.report.splitlines()]
    assert answer.status == 3
    assert told[:2] == ["default/a  Placed  optimal", "1 pod fits on n1, proven optimal"]
    place = told.index("default/b  Unplaceable  infeasible")
    assert told[place + 1] == f"{BESIDE} (1 node: {reason})"


def test_gangs_with_node_affinities_of_their_own_are_planned_together(tmp_path: Path) -> None:
    """The older one requires a rack for all of its pods, the younger one needs the older one near it."""
    everything = list(yaml.safe_load_all((FILES / "cross_aff.yaml").read_text()))
    (older,) = (each for each in everything if (each["kind"], each["metadata"]["name"]) == ("Gang", "a"))
    term = {"matchExpressions": [{"key": "example.com/rack", "operator": "In", "values": ["r1"]}]}
    older["spec"]["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    answer = solved(written(tmp_path, yaml.safe_dump_all(everything)))
    told = [line.strip() for line in answer.report.splitlines()]
    assert answer.status == 0
    assert told[:2] == ["default/a  Placed  optimal", "1 pod fits on n2, proven optimal"]
    assert "default/b  Placed  optimal" in told


def test_two_gangs_that_need_each_other_near_are_not_called_infeasible() -> None:
    """Neither can be first, so neither has a place; their pods could come by turns."""
    told = [line.strip() for line in solved(FILES / "each_near_the_other.yaml").report.splitlines()]
    for gang, other in (("a", "b"), ("b", "a")):
        place = told.index(f"default/{gang}  Unplaceable  unproven")
        needs = f"it may need pods of gang default/{other} near it, and there is no place for these yet"
        assert told[place + 1].startswith(f"not proven that there is no place: {needs}; needs ")


def test_a_gang_that_has_no_place_by_itself_is_infeasible_beside_others_too(tmp_path: Path) -> None:
    everything = list(yaml.safe_load_all((FILES / "cross_port.yaml").read_text()))
    (late,) = (each for each in everything if each["metadata"]["name"] == "b-0")
    late["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n9"}
    told = solved(written(tmp_path, yaml.safe_dump_all(everything))).report.splitlines()
    assert "default/b  Unplaceable  infeasible" in told
