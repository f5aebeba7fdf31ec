"""`solve` refuses an object in one line if and only if the API server refuses it: both get the same objects."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from solving import solved, written

from controlplane.control_plane import ControlPlane, wait_until

TABLE = yaml.safe_load((Path(__file__).parent / "refused" / "cases.yaml").read_text())
PATHS = {
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "Pod": "/api/v1/namespaces/default/pods",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Node": "/api/v1/nodes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}


def changed(case: dict[str, Any]) -> dict[str, Any]:
    """The object of a case."""
    whole: dict[str, Any] = copy.deepcopy(TABLE["right"][case["of"]])
    part: Any = whole
    *way, last = case["at"]
    for step in way:
        part = part[step] if isinstance(step, int) else part.setdefault(step, {})
    if "write" in case:
        part[last] = case["write"]
    else:
        part.pop(last)
    return whole


def named(case: dict[str, Any]) -> str:
    """A case's name in a report."""
    return f"{case['of']} {'.'.join(map(str, case['at']))} {case.get('write', 'taken away')}"[:100]


@pytest.mark.parametrize("case", TABLE["refused"], ids=named)
def test_solve_refuses_in_a_line_for_each_mistake(case: dict[str, Any], tmp_path: Path) -> None:
    answer = solved(written(tmp_path, json.dumps(changed(case)), "written.json"))
    assert answer.said.splitlines() == [f"error: written.json: {each}" for each in case["ours"]]
    assert answer.status == 2


@pytest.mark.parametrize("case", TABLE["let in"], ids=named)
def test_solve_lets_in_what_the_api_server_does(case: dict[str, Any], tmp_path: Path) -> None:
    answer = solved(written(tmp_path, json.dumps(changed(case)), "written.json"))
    assert "error" not in answer.said


@pytest.mark.controlplane
def test_the_api_server_refuses_the_same(cluster: ControlPlane) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    wait_until(lambda: cluster.request("GET", account)["kind"] == "ServiceAccount", 60, "pods to be let in")
    assert [each for each in TABLE["right"].values() if refusal(cluster, each)] == []
    assert [named(case) for case in TABLE["let in"] if refusal(cluster, changed(case))] == []
    assert [named(case) for case in TABLE["refused"] if not refusal(cluster, changed(case))] == []


def refusal(cluster: ControlPlane, manifest: dict[str, Any]) -> str:
    """Why the API server does not take the object; "" where it would."""
    answer = cluster.request("POST", f"{PATHS[manifest['kind']]}?dryRun=All&fieldValidation=Strict", manifest)
    return str(answer["message"]) if answer["kind"] == "Status" else ""
