"""`phalanx why` on a real cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.main import group
from cluster.api.connecting import connect
from controller.telemetry.events import GANG_WAITING
from controller.telemetry.recorder import Recorder
from controlplane.control_plane import ControlPlane
from gangs.model import ObjectRef

pytestmark = pytest.mark.controlplane

CRDS = Path(__file__).parents[2] / "manifests" / "crds" / "phalanx"


def why(plane: ControlPlane, gang: str) -> Result:
    return CliRunner().invoke(group, ["why", gang, "--kubeconfig", str(plane.kubeconfig)])


def create(plane: ControlPlane, *manifests: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(plane.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(m))) for m in manifests]


def gang(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"minMember": 2, "podSets": [{"name": "main", "count": 2, "minCount": 2}]}
    meta = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": meta, "spec": spec}


def member(name: str, gang: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"phalanx.dev/gang": gang}},
        "spec": {
            "schedulingGates": [{"name": "phalanx.dev/gang"}],
            "containers": [{"name": "main", "image": "pause"}],
        },
    }


@pytest.fixture
def installed(cluster: ControlPlane) -> ControlPlane:
    """A cluster that knows Gang objects."""
    cluster.kubectl("apply", "-k", str(CRDS))
    cluster.kubectl("wait", "--for=condition=Established", "crd/gangs.phalanx.dev", "--timeout=120s")
    return cluster


def test_a_gang_is_told_with_its_members_and_its_history(installed: ControlPlane) -> None:
    made, *_ = create(installed, gang("llm"), member("llm-0", "llm"), member("other-0", "other"))
    recorder = Recorder(connect(str(installed.kubeconfig)), instance="test-0")
    ref = ObjectRef("phalanx.dev/v1alpha1", "Gang", "default", "llm", made["metadata"]["uid"])
    recorder.record(ref, GANG_WAITING, "waits for 1 more pod: 1 of 2 exist")
    recorder.close(60)
    told = why(installed, "default/llm")
    assert told.exit_code == 0, told.output
    lines = [line.split() for line in told.output.splitlines()]
    assert lines[0] == ["default/llm", "Unknown"]
    assert ["llm-0", "held", "back"] in lines
    assert "other-0" not in told.output
    (event,) = [" ".join(line) for line in lines if "GangWaiting" in line]
    assert event.endswith("Normal GangWaiting waits for 1 more pod: 1 of 2 exist")


def test_a_gang_goes_by_the_name_of_what_asked_for_it_too(installed: ControlPlane) -> None:
    annotations = {"phalanx.dev/mirrors": "koordinator/default/training"}
    create(installed, gang("podgroup-training", annotations=annotations))
    told = why(installed, "default/training")
    assert told.exit_code == 0, told.output
    assert told.output.startswith("default/podgroup-training")
    assert "pods of gang default/training (koordinator)" in told.output


def test_warnings_on_the_workload_explain_missing_members(installed: ControlPlane) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause"}]}},
        },
    }
    (owner,) = create(installed, job)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": owner["metadata"]["uid"]}
    create(installed, gang("train", ownerReferences=[reference]))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "train.1", "namespace": "default"},
        "involvedObject": {"kind": "Job", "namespace": "default", "name": "train", "uid": owner["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "exceeded quota",
        "source": {"component": "job-controller"},
        "lastTimestamp": "2026-11-21T09:00:00Z",
    }
    create(installed, event)
    told = why(installed, "default/train")
    assert "FailedCreate" in told.output
    assert "Suspended" not in told.output


def test_a_gang_that_does_not_exist_is_said_in_one_line(installed: ControlPlane) -> None:
    told = why(installed, "default/llm")
    assert (told.exit_code, told.stderr) == (1, "Error: no gang default/llm, nor any other gang there\n")
    create(installed, gang("b"), gang("a"))
    assert why(installed, "default/llm").stderr == "Error: no gang default/llm; there are a, b\n"


def test_a_cluster_that_cannot_be_reached_is_said_in_one_line(tmp_path: Path) -> None:
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(settings))
    told = CliRunner().invoke(group, ["why", "default/llm", "--kubeconfig", str(path)])
    assert told.exit_code == 1
    assert told.stderr.startswith("Error: the cluster does not answer: ")
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["llm", "/llm", "default/"])
def test_a_name_without_its_namespace_is_a_mistake_in_the_call(text: str) -> None:
    told = CliRunner().invoke(group, ["why", text])
    assert told.exit_code == 2
    assert "write it as NAMESPACE/GANG" in told.stderr
