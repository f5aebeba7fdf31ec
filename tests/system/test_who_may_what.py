"""`docs/security.md` states the answer of `kubectl auth can-i` for each account. The API server must agree."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.installation.installed_objects import custom_resource_definitions, system_objects
from controlplane.control_plane import ControlPlane, wait_until
from kube.keys import SYSTEM_NAMESPACE

pytestmark = pytest.mark.controlplane

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
HEAD = "| `kubectl auth can-i …` |"
PATIENCE = 300.0
ANSWERS = {"yes": True, "no": False}
USERS = {
    "webhook": f"system:serviceaccount:{SYSTEM_NAMESPACE}:phalanx-webhook",
    "controller": f"system:serviceaccount:{SYSTEM_NAMESPACE}:phalanx-controller",
    "`phalanx-viewer`": "a-viewer",
    "`phalanx-metrics`": "a-scraper",
    "`edit` in `default`": "an-editor",
}
"""The user of each column, by the column's heading."""
_QUESTION = re.compile(
    r"(?P<verb>\w+) (?P<what>\S+)(?: --subresource=(?P<below>\w+))?(?: -n (?P<where>\S+)| (?P<all>-A))?"
)


def table() -> Iterator[tuple[str, dict[str, bool]]]:
    """Each question with its answers, by heading."""
    text = HEAD + PAGE.read_text().partition(HEAD)[2].partition("\n\n")[0]
    head, _, *lines = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines())
    for question, *answers in lines:
        yield question.strip("`"), {name: ANSWERS[each] for name, each in zip(head[1:], answers, strict=True)}


def attributes(question: str) -> dict[str, Any]:
    """Return the attributes of a SubjectAccessReview for this question."""
    found = _QUESTION.fullmatch(question)
    assert found is not None, question
    if found["what"].startswith("/"):
        return {"nonResourceAttributes": {"verb": found["verb"], "path": found["what"]}}
    kind, _, name = found["what"].partition("/")
    resource, _, group = kind.partition(".")
    whole = {"verb": found["verb"], "resource": resource, "group": group, "name": name}
    return {"resourceAttributes": whole | {"subresource": found["below"] or "", "namespace": found["where"] or ""}}


@pytest.fixture
def installed(control_plane: ControlPlane) -> ControlPlane:
    """A control plane with the product's roles, and a user bound to each role that is meant for people."""
    control_plane.apply(custom_resource_definitions("phalanx"))
    control_plane.apply(system_objects())
    group = "rbac.authorization.k8s.io"
    control_plane.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": f"{scope}RoleBinding",
            "metadata": {"name": f"asked-{user}", **({} if scope else {"namespace": "default"})},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        for scope, role, user in (
            ("Cluster", "phalanx-viewer", "a-viewer"),
            ("Cluster", "phalanx-metrics", "a-scraper"),
            ("", "edit", "an-editor"),
        )
    )
    wait_until(lambda: may(control_plane, "create gangs.phalanx.dev -n default", "an-editor"), PATIENCE, "the roles")
    return control_plane


def may(plane: ControlPlane, question: str, user: str) -> bool:
    """Return whether the API server allows the user what the question asks."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, **attributes(question)},
    }
    answer = plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_every_account_may_what_the_page_says(installed: ControlPlane) -> None:
    asked = list(table())
    assert len(asked) > 20
    for question, answers in asked:
        assert {name: may(installed, question, USERS[name]) for name in answers} == answers, question
