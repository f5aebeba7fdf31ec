"""Gangs of one priority that compete are accepted in their order; all minimums come before any extra member."""

from pathlib import Path

import pytest
from solving import solved

FILES = Path(__file__).parent / "competing"


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("queue_needless_eviction", {"g1": "2 pods fit in r1: n2..3", "g2": "1 pod fits on n1"}),
        ("queue_earlier_gang_given_up", {"a": "3 pods fit on n3", "b": "3 pods fit in b1: n1..2", "c": ""}),
        ("spread_earlier_gang_given_up", {"a": "3 pods fit on n3", "b": "3 pods fit in b1: n1..2", "c": ""}),
        ("queue_extras_before_minimum", {"a": "1 pod fits on n1", "b": "2 pods fit on n1"}),
        ("cohort_extras_borrow_the_owners_quota", {"a": "1 pod fits on n1", "b": "2 pods fit on n1"}),
    ],
)
def test_gangs_are_accepted_in_order_and_planned_together(name: str, places: dict[str, str]) -> None:
    """The first line of each file describes the fault that the case guards against."""
    answer = solved(FILES / f"{name}.yaml")
    found = answer.gangs
    assert list(found) == [f"default/{gang}" for gang in places]
    for gang, place in places.items():
        outcome, message = found[f"default/{gang}"]
        if place:
            assert outcome == ["Placed", "optimal"]
            assert message.startswith(f"{place}, proven optimal")
        else:
            assert outcome == ["Unplaceable", "infeasible"]
    assert answer.status == (0 if all(places.values()) else 3)


@pytest.mark.parametrize("name", ["queue_extras_before_minimum", "cohort_extras_borrow_the_owners_quota"])
def test_extra_members_beyond_the_quota_are_not_explained_by_nodes(name: str) -> None:
    report = solved(FILES / f"{name}.yaml").report
    assert (
        "1 pod fits on n1, proven optimal, 2 more are not covered by the quota, flavor f of ClusterQueue cq" in report
    )
