"""The page of kinds says of each kind what the table in the code says, and what the code makes of its example."""

import kinds
import pytest

from gangs.workloads.kind_table import WORKLOADS


def test_the_tables_are_those_of_the_code() -> None:
    assert kinds.PAGE.read_text() == kinds.page(), "run: python tests/docs/kinds.py"


@pytest.mark.parametrize("block", kinds.BLOCKS)
def test_every_kind_whose_pods_are_counted_is_there(block: str) -> None:
    lines = kinds.block(block)
    assert [
        kind
        for (_, kind), shape in WORKLOADS.items()
        if (shape.by_annotation or block == "kinds") and f"| `{kind}`" not in lines
    ] == []


def test_what_counts_pods_is_found() -> None:
    """A field that the example leaves out would be missing on the page."""
    assert "`spec.workerGroupSpecs.*.minReplicas`" in kinds.block("counts")
    rows = [line.split(" | ") for line in kinds.block("counts").splitlines()[2:]]
    assert [row[0] for row in rows if "spec." not in row[1]] == []
