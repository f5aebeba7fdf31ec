"""The commands in messages of the programs run as printed: they are collected from string literals of the sources.

Commands that the demo prints: tests/controlplane/test_showcase.py. Commands of pages: test_commands.py.
"""

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from page_commands import ROOT

from certs.cluster_edge import DEFAULT_PLACE
from cli.main import group
from cli.port_forward import COMMAND
from controlplane.control_plane import ControlPlane, wait_until
from gangs.workloads.user_defined_kinds import AGGREGATED
from kube.keys import CONFIGURATION, SYSTEM_NAMESPACE

FOLDERS = ("cli", "controller", "planning", "gangs", "webhook", "certs", "cluster", "serving", "solver")
PROSE = (
    "phalanx ui printed",
    "phalanx ui has opened may ask",
    "phalanx demo runs from a checkout only",
    "phalanx self-signed",
)
"""Texts that name a command or a certificate and are no commands."""
_COMMAND = re.compile(
    r"\b(?:kubectl (?:-n \S+ )?(?:get|apply|create|label|annotate|delete|wait|rollout|patch|replace|drain|cordon) "
    rf"|phalanx (?:{'|'.join(sorted(group.commands))})\b)[^\n`]*"
)
_END = re.compile(r"(?:: |, |; | says | reads | adds | of a workload ).*")
"""The rest of the sentence after a command."""
REPLACED = "kubectl -n default get pod lonely -o yaml | kubectl -n default replace --force -f -"
ELSEWHERE = {
    "kubectl apply --server-side -k manifests/default": "tests/manifests/test_applying.py",
    "kubectl -n phalanx-system rollout status deployment/phalanx-controller": "needs a kubelet that runs the servers",
    "phalanx solve --add-nodes": "tests/cli/test_solve_command.py",
}
"""Commands that another test runs, that stand without the arguments that they need, or that need a real node."""
VALUES: Mapping[str, str] = {
    "SYSTEM_NAMESPACE": SYSTEM_NAMESPACE,
    "DEFAULT_PLACE.namespace": DEFAULT_PLACE.namespace,
    "DEFAULT_PLACE.secret": DEFAULT_PLACE.secret,
    "CONFIGURATION": CONFIGURATION,
    "AGGREGATED": AGGREGATED,
    "annotation": "example.com/noted",
    "server": "controller",
    "pod.metadata.namespace": "default",
    "pod.metadata.name": "lonely",
    "whose": "kubectl -n default",
    "name": "phalanx-reads-flocks",
    "what": "deployments.apps",
    "ref.namespace": "default",
    "ref.kind.lower()": "job",
    "ref.name": "train",
    "how": "",
    "patch": '{"spec":{"suspend":false}}',
    "gang": "default/llm",
    "f'-n {within}' if within else '-A'": "-A",
    "gang['namespace']": "default",
    "meta['namespace']": "default",
    "meta['name']": "llm",
}
"""By expression in an f-string of a command: the value that the test prints for it."""


def texts(tree: ast.Module) -> Iterator[str]:
    """Return the string literals of a module without docstrings. Expressions of f-strings have the values in `VALUES`.

    An expression that is not there stands in ⟪⟫.
    """
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    skipped = {id(each.value) for body in bodies for each in body if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(each) for each in ast.walk(node))
            parts = (each if isinstance(each, ast.Constant) else each.value for each in node.values)  # type: ignore[attr-defined]  # only these two
            yield "".join(
                str(each.value)
                if isinstance(each, ast.Constant)
                else VALUES.get(name := ast.unparse(each), f"⟪{name}⟫")
                for each in parts
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def printed() -> list[str]:
    """Return the commands in messages of the sources, with a value for each expression, in the order of the files."""
    found: dict[str, None] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for text in texts(ast.parse(path.read_text())):
                found |= dict.fromkeys(
                    _END.sub("", match[0]).rstrip(" .")
                    for match in _COMMAND.finditer(text)
                    if not match[0].startswith(PROSE)
                )
    assert not [each for each in found if "⟪" in each], found
    return list(found)


def test_the_sources_have_commands_and_each_text_that_is_none_is_known() -> None:
    found = printed()
    assert {"phalanx why default/llm", "kubectl -n default delete pod lonely", REPLACED} <= set(found)
    assert ELSEWHERE.keys() <= set(found)
    sources = "".join(path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    assert all(each in sources for each in PROSE)
    assert COMMAND.startswith("kubectl "), "tests/system/test_ui_live.py runs what it says"


def test_commands_of_phalanx_in_messages_have_the_arguments_that_the_program_takes() -> None:
    commands = [each for each in printed() if each.startswith("phalanx ") and each not in ELSEWHERE]
    assert len(commands) > 15
    for command in commands:
        name, *arguments = shlex.split(command.removeprefix("phalanx ").partition(" > ")[0])
        known = group.get_command(click.Context(group), name)
        assert known is not None, command
        known.make_parser(click.Context(known)).parse_args(arguments)


def container() -> Mapping[str, Any]:
    """A container that no test starts for real."""
    return {"name": "main", "image": "pause"}


def scene() -> list[Mapping[str, Any]]:
    """Return the objects that the commands name: a server, its Secret, a configuration, a pod and a suspended Job."""
    labels = {"app": "server"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    server = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    job = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}}
    system, own = {"namespace": SYSTEM_NAMESPACE}, {"namespace": "default"}
    noted = {"annotations": {VALUES["annotation"]: "yes"}}
    hooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "webhooks": []}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        *(
            {**deployment, "metadata": {"name": f"phalanx-{name}", **system}, "spec": server}
            for name in ("controller", "webhook")
        ),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": DEFAULT_PLACE.secret, **system}},
        {**hooks, "metadata": {"name": CONFIGURATION, **noted}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "lonely", **own},
            "spec": {"containers": [container()]},
        },
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", **own}, "spec": job},
    ]


@pytest.mark.controlplane
def test_every_command_of_kubectl_in_messages_runs_as_printed(cluster: ControlPlane, tmp_path: Path) -> None:
    commands = [each for each in printed() if each.startswith("kubectl ") and each not in ELSEWHERE]
    allocatable = {"cpu": "9", "memory": "9Gi", "pods": "9"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    cluster.add_nodes([node])
    (tmp_path / "kubectl").symlink_to(cluster.path_of("kubectl"))
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path)}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    # A deletion comes last, so that the other commands find their object.
    for command in sorted(commands, key=lambda each: " delete " in each):
        cluster.apply(scene())
        wait_until(lambda: "lonely" in cluster.kubectl("get", "pods"), 60, "the pod")
        answer = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert answer.returncode == 0, f"{command}\n{answer.stdout}{answer.stderr}"
    assert len(commands) >= 9
