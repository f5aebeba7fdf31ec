"""`phalanx solve` as a check in CI: unknown fields, versions and resources are errors with what was meant."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from solving import Answer, solved, written

from cli.main import group
from controlplane.programs.binaries import VERSION
from planning.files.schemas import SCHEMAS

Manifest = dict[str, Any]
RESOURCES = {"cpu": "1", "nvidia.com/gpu": "1"}


def node(**allocatable: str) -> Manifest:
    """A node of 8 cpu and 8 GPUs."""
    room = {"cpu": "8", "nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": "1", **allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": room}}


def job(*, spec: Manifest | None = None, pod: Manifest | None = None, resources: Manifest | None = None) -> Manifest:
    """A Job of two pods that is a gang, with more fields in its spec and in that of its pods."""
    asked = RESOURCES if resources is None else resources
    container = {"name": "c", "image": "i", "resources": {"requests": asked, "limits": asked}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"parallelism": 2, "completions": 2, "template": template, **(spec or {})},
    }


def answer(folder: Path, *manifests: Manifest) -> Answer:
    """The answer of solve to these objects and a node."""
    return solved(written(folder, json.dumps([node(), *manifests]), "written.json"))


def errors(said: str) -> list[str]:
    """The error lines without the file."""
    return [line.removeprefix("error: written.json: ") for line in said.splitlines() if line.startswith("error: ")]


UNKNOWN = {
    "of a Job": (job(spec={"paralellism": 4}), "spec.paralellism", "did you mean parallelism?"),
    "of its pods": (
        job(pod={"nodeSelectr": {"a": "b"}}),
        "spec.template.spec.nodeSelectr",
        "did you mean nodeSelector?",
    ),
    "with other capitals": (
        job(pod={"nodeselector": {"a": "b"}}),
        "spec.template.spec.nodeselector",
        "did you mean nodeSelector?",
    ),
    "in a list": (
        job(pod={"tolerations": [{"key": "a", "operater": "Exists"}]}),
        "spec.template.spec.tolerations[0].operater",
        "did you mean operator?",
    ),
    "like none": (job(spec={"zzz": 1}), "spec.zzz", "remove it"),
}


def test_what_nests_too_deep_for_the_schema_is_an_error(tmp_path: Path) -> None:
    """300 levels in a field that only the schema reads: more than the schema's validator goes down."""
    deep: Any = "x"
    for _ in range(300):
        deep = {"a": deep}
    said = answer(tmp_path, job(pod={"securityContext": deep}))
    assert errors(said.said) == ["Job default/train: nests too deep to be checked; remove the inner levels"]
    assert said.status == 2


@pytest.mark.parametrize(("manifest", "field", "remedy"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_field_is_an_error(tmp_path: Path, manifest: Manifest, field: str, remedy: str) -> None:
    said = answer(tmp_path, manifest)
    assert errors(said.said) == [
        f"Job default/train: {field}: is not a field of Kubernetes {VERSION.removeprefix('v')}; {remedy}"
    ]
    assert said.status == 2


def test_every_mistake_of_an_object_is_told(tmp_path: Path) -> None:
    wrong = job(spec={"paralellism": 4, "backoffLimit": "six", "completions": 2**40}, pod={"hostNetwrok": True})
    assert sorted(line.split(": ")[1] for line in errors(answer(tmp_path, wrong).said)) == [
        "spec.backoffLimit",
        "spec.completions",
        "spec.paralellism",
        "spec.template.spec.hostNetwrok",
    ]


def test_an_unknown_field_in_the_templates_of_another_projects_kind(tmp_path: Path) -> None:
    container = {"name": "pytorch", "image": "i"}
    replicas = {"Worker": {"replicas": 2, "template": {"spec": {"nodeSelectr": {}, "containers": [container]}}}}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"pytorchReplicaSpecs": replicas},
    }
    said = answer(tmp_path, manifest)
    (line,) = errors(said.said)
    at = "PyTorchJob default/train: spec.pytorchReplicaSpecs.Worker.template.spec.nodeSelectr"
    assert line.startswith(at)
    assert line.endswith("did you mean nodeSelector?")
    assert said.status == 2


@pytest.mark.parametrize(
    ("labels", "annotations", "at", "remedy"),
    [
        (
            {},
            {"phalanx.dev/required": "rack"},
            "spec.template.metadata.annotations[phalanx.dev/required]",
            "asks for nothing there: write it on the Job itself",
        ),
        (
            {"phalanx.dev/gang": "llm"},
            {},
            "metadata.labels[phalanx.dev/gang]",
            "does not reach the pods: write it at spec.template.metadata.labels[phalanx.dev/gang]",
        ),
    ],
    ids=["annotation of the Job on its pods", "label of the pods on the Job"],
)
def test_our_own_key_in_the_wrong_place_is_an_error(
    tmp_path: Path, labels: dict[str, str], annotations: dict[str, str], at: str, remedy: str
) -> None:
    wrong = job()
    wrong["metadata"]["labels"] = labels
    wrong["spec"]["template"]["metadata"] = {"annotations": annotations}
    said = answer(tmp_path, wrong)
    assert errors(said.said) == [f"Job default/train: {at}: {remedy}"]
    assert said.status == 2


@pytest.mark.parametrize("stored", [{"uid": "1"}, {}], ids=["stored by an API server", "written by hand"])
def test_what_an_api_server_has_stored_may_be_of_a_newer_version(tmp_path: Path, stored: Manifest) -> None:
    manifest = node()
    manifest["metadata"] |= {"name": "m", **stored}
    manifest["status"]["newField"] = 1
    assert bool(errors(answer(tmp_path, manifest, job()).said)) is not bool(stored)


def test_a_pod_with_a_node_is_taken_as_it_is(tmp_path: Path) -> None:
    running = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "newField": 1, "containers": [{"name": "c", "image": "i"}]},
    }
    assert answer(tmp_path, running, job()).status == 0


RESOURCE = "Job default/train: spec.template.spec.containers[0].resources.requests"


def test_a_misspelt_resource_is_an_error(tmp_path: Path) -> None:
    said = answer(tmp_path, job(resources={"cpu": "1", "nvidia.com/gpus": "1"}))
    problem = "no node has nvidia.com/gpus in status.allocatable; did you mean nvidia.com/gpu?"
    assert errors(said.said) == [f"{RESOURCE}.nvidia.com/gpus: {problem}"]
    assert said.report.startswith("default/train  Invalid\n")
    assert said.status == 2


@pytest.mark.parametrize("resource", ["nvidia.com/mig-2g.10gb", "amd.com/gpu", "example.com/nic"])
def test_a_resource_that_no_node_has_now_is_none(tmp_path: Path, resource: str) -> None:
    """Another profile or vendor: its nodes may come."""
    said = answer(tmp_path, job(resources={"cpu": "1", resource: "1"}))
    assert errors(said.said) == []
    assert f"Insufficient {resource}" in said.report
    assert said.status == 3


VERSIONS = {
    "of a kind of ours": (
        {"apiVersion": "phalanx.dev/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": {"minMember": 2}},
        'Gang g: apiVersion: "phalanx.dev/v1" is not a version of Gang; write phalanx.dev/v1alpha1',
    ),
    "a kind that is none of ours": (
        {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gnag", "metadata": {"name": "g"}, "spec": {"minMember": 2}},
        'Gnag g: kind: "Gnag" is not a kind of phalanx.dev; did you mean Gang?',
    ),
    "of a built-in kind": (
        {**job(), "apiVersion": "batch/v2"},
        'Job train: apiVersion: "batch/v2" is not a version of Job; write batch/v1',
    ),
}


@pytest.mark.parametrize(("manifest", "said"), VERSIONS.values(), ids=VERSIONS)
def test_an_unknown_version_is_an_error(tmp_path: Path, manifest: Manifest, said: str) -> None:
    found = answer(tmp_path, manifest)
    assert errors(found.said) == [said]
    assert found.status == 2


def pod(**metadata: Manifest) -> Manifest:
    """A pod without a node."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


def annotated(api_version: str, kind: str) -> Manifest:
    """An object with a workload's annotation."""
    metadata = {"name": "x", "annotations": {"phalanx.dev/gang": "true"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


GANG = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "g"}, "spec": {"minMember": 1}}
MISPLACED = {
    "a workload's annotation on a pod": ([pod(annotations={"phalanx.dev/gang": "g"})], "Pod default/p"),
    "a workload's annotation on a Gang": (
        [{**GANG, "metadata": {"name": "g", "annotations": {"phalanx.dev/required": "rack"}}}],
        "Gang default/g",
    ),
    "a workload's annotation on a pod of a Gang": (
        [GANG, pod(labels={"phalanx.dev/gang": "g"}, annotations={"phalanx.dev/required": "rack"})],
        "Pod default/p",
    ),
    "a pod's label on a workload": (
        [{**job(), "metadata": {"name": "train", "labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}}],
        "Job default/train",
    ),
    "an annotation on an object that makes no pods": ([annotated("v1", "ConfigMap")], "ConfigMap default/x"),
    "an annotation on an object of the cluster": ([annotated("v1", "Namespace")], "Namespace x"),
    "an annotation on a kind that nobody knows": ([annotated("example.com/v1", "Widget")], "Widget x"),
}


@pytest.mark.parametrize(("manifests", "ref"), MISPLACED.values(), ids=MISPLACED)
def test_a_key_on_the_wrong_object_is_an_error(tmp_path: Path, manifests: list[Manifest], ref: str) -> None:
    said = answer(tmp_path, *manifests)
    (line,) = errors(said.said)
    assert line.startswith(f"{ref}: metadata.")
    assert said.status == 2


VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "v"},
    "spec": {"tasks": [{"name": "t", "replicas": 2, "template": job()["spec"]["template"]}]},
}


def test_a_volcano_job_that_does_not_ask_is_named(tmp_path: Path) -> None:
    said = answer(tmp_path, VOLCANO)
    problem = 'lacks phalanx.dev/gang: the Volcano Job is no gang here; write phalanx.dev/gang: "true"'
    assert said.said.splitlines() == [
        "nothing to plan; -v: what was left out",
        f"warning: written.json: Job default/v: metadata.annotations: {problem}",
    ]
    assert said.status == 0
    asking = {**VOLCANO, "metadata": {"name": "v", "annotations": {"phalanx.dev/gang": "true"}}}
    assert "lacks phalanx.dev/gang" not in answer(tmp_path, asking).said


@pytest.mark.parametrize(("strict", "status"), [(["--strict"], 4), ([], 0)])
def test_nothing_to_plan_is_a_failure_where_that_is_asked_for(tmp_path: Path, strict: list[str], status: int) -> None:
    file = written(tmp_path, json.dumps([node()]), "written.json")
    result = CliRunner().invoke(group, ["solve", "-f", str(file), *strict], catch_exceptions=False)
    assert "nothing to plan" in result.stderr
    assert result.exit_code == status


def test_with_something_to_plan_strict_changes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, json.dumps([node(), job()]), "written.json")
    assert CliRunner().invoke(group, ["solve", "-f", str(file), "--strict"], catch_exceptions=False).exit_code == 0


def test_the_vendored_schemas_name_their_version_and_source() -> None:
    content = json.loads(SCHEMAS.read_text())
    assert content["version"] == VERSION
    assert content["source"] == "k8s.io/kubernetes/api/openapi-spec/swagger.json"
    assert {"v1 Pod", "v1 Node", "batch/v1 Job", "batch/v1 CronJob", "apps/v1 StatefulSet"} <= content["kinds"].keys()
