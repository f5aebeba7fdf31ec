"""The table of kinds says what the operators' own definitions say: versions, plurals, where pod templates stand."""

from functools import cache
from typing import Any

import pytest

from controlplane.operators import OPERATORS, definitions
from gangs.workloads.kind_table import ANY, WORKLOADS


@cache
def defined() -> dict[tuple[str, str], Any]:
    """The definitions of all operators that are pinned, by group and kind."""
    found = [each for name in OPERATORS for each in definitions(name)]
    return {(each["spec"]["group"], each["spec"]["names"]["kind"]): each["spec"] for each in found}


def below(schema: Any, step: str) -> Any:
    """The schema of a field, or of the entries of a list or mapping."""
    if step != ANY:
        return schema["properties"][step]
    return schema["items"] if schema["type"] == "array" else schema["additionalProperties"]


@pytest.mark.parametrize("kind", ["JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService"])
def test_templates_stand_where_the_table_says(kind: str) -> None:
    (at,) = [each for each in WORKLOADS if each[1] == kind]
    row, spec = WORKLOADS[at], defined()[at]
    served = {each["name"]: each["schema"]["openAPIV3Schema"] for each in spec["versions"] if each["served"]}
    assert spec["names"]["plural"] == row.plural
    assert set(row.versions) <= served.keys()
    for version in row.versions or served:
        if version not in served:
            continue
        for path in row.templates:
            schema = served[version]
            for step in path.split("."):
                schema = below(schema, step)
            assert "containers" in schema["properties"]["spec"]["properties"], path
