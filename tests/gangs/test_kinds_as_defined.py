"""The table of kinds agrees with the operators' own definitions: versions, plurals, and paths of pod templates."""

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from controlplane.operators import OPERATORS, definitions
from gangs.workloads.kind_table import ANY, WORKLOADS
from gangs.workloads.suspension import USUAL


@cache
def defined() -> dict[tuple[str, str, str], dict[str, Any]]:
    """By group, kind and plural the schemas that the operators define, by version; two define MPIJobs."""
    found: defaultdict[tuple[str, str, str], dict[str, Any]] = defaultdict(dict)
    for spec in (each["spec"] for name in OPERATORS for each in definitions(name)):
        served = {each["name"]: each["schema"]["openAPIV3Schema"] for each in spec["versions"] if each["served"]}
        found[spec["group"], spec["names"]["kind"], spec["names"]["plural"]] |= served
    return found


def below(schema: Any, step: str) -> Any:
    """The schema of a field, or of the entries of a list or mapping."""
    if step != ANY:
        return schema["properties"][step]
    return schema["items"] if schema["type"] == "array" else schema["additionalProperties"]


KINDS = ("JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "TrainJob")
OF_KUBEFLOW = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")


@pytest.mark.parametrize("kind", [*KINDS, *OF_KUBEFLOW])
def test_templates_stand_where_the_table_says(kind: str) -> None:
    (at,) = [each for each in WORKLOADS if each[1] == kind]
    row = WORKLOADS[at]
    served = defined()[*at, row.plural]
    assert set(row.versions) <= served.keys()
    for version in row.versions or served:
        if version not in served:
            continue
        for path in row.templates:
            schema = served[version]
            for step in path.split("."):
                schema = below(schema, step)
            assert "containers" in schema["properties"]["spec"]["properties"], path


@pytest.mark.parametrize("kind", [*KINDS, *OF_KUBEFLOW])
def test_they_are_suspended_where_the_table_says(kind: str) -> None:
    (at,) = [each for each in WORKLOADS if each[1] == kind]
    row = WORKLOADS[at]
    served = defined()[*at, row.plural]
    paths = {path for path in USUAL for schema in served.values() if _has(schema, path)}
    assert paths == ({row.suspended_at} if row.suspended_at else set())


def _has(schema: Any, path: str) -> bool:
    for step in path.split("."):
        schema = schema.get("properties", {}).get(step)
        if schema is None:
            return False
    return bool(schema["type"] == "boolean")
