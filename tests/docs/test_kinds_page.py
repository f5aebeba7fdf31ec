"""The page of kinds agrees with the table in the code and with the gang that the code reads from each example."""

import kinds
import pytest

from gangs.workloads.kind_table import WORKLOADS


def test_the_tables_are_those_of_the_code() -> None:
    assert kinds.PAGE.read_text() == kinds.page(), "run: python tests/docs/kinds.py"


@pytest.mark.parametrize("block", ["kinds", "counts"])
def test_every_kind_whose_pods_are_counted_is_there(block: str) -> None:
    lines = kinds.block(block)
    assert [
        kind
        for (_, kind), row in WORKLOADS.items()
        if (row.by_annotation or block == "kinds") and f"| `{kind}`" not in lines
    ] == []


def test_what_counts_pods_is_found() -> None:
    """A field that the example leaves out would be missing on the page."""
    assert "`spec.workerGroupSpecs.*.minReplicas`" in kinds.block("counts")
    rows = [line.split(" | ") for line in kinds.block("counts").splitlines()[2:]]
    assert [row[0] for row in rows if "spec." not in row[1]] == []


def test_every_way_of_making_pods_later_is_there() -> None:
    lines = kinds.block("later").splitlines()[2:]
    orders = [each.at for row in WORKLOADS.values() for each in row.start_orders]
    assert [each for each in orders if not any(each in line for line in lines)] == []
    assert len(lines) == len(orders) + 2, "a SparkApplication and Volcano's Job say it at their templates"
