"""Running gangs of every dialect go whole or keep their minimum, also when what asked for them is gone.

    n1: h-0                1 cpu
    n2: h-1 h-2 h-3        3 cpu; all of gang h

A pod of higher priority wants n1.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cli.main import group

Manifest = dict[str, Any]

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "h", "uid": "u", "controller": True}
ONE, WHOLE = ["h-0"], ["h-0", "h-1", "h-2", "h-3"]
PODS = "pod-group.scheduling.sigs.k8s.io"


def node(name: str, cpu: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
    }


def pod(name: str, priority: int, metadata: Manifest, **spec: Any) -> Manifest:
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"priority": priority, "containers": containers, **spec},
    }


def job(minimum: int, *, gang: bool = False, **metadata: Any) -> Manifest:
    """A Job of four pods; `gang`: by our own annotations."""
    annotations = {"phalanx.dev/gang": "true", "phalanx.dev/min-member": str(minimum)} if gang else {}
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "h", "namespace": "default", "uid": "u", "annotations": annotations, **metadata},
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": containers}},
        },
    }


def pod_group(version: str, minimum: int) -> Manifest:
    metadata = {"name": "h", "namespace": "default"}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": minimum}}


def of_a_job(**metadata: Any) -> Manifest:
    return {"ownerReferences": [JOB], **metadata}


def runai(minimum: int) -> Manifest:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "h", "uid": "u", "controller": True}
    return {"ownerReferences": [owner], "annotations": {"kai.scheduler/batch-min-member": str(minimum)}}


KOORDINATOR, KAI = "scheduling.sigs.k8s.io/v1alpha1", "scheduling.run.ai/v2alpha2"
QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
CASES: dict[str, tuple[Manifest, list[Manifest], list[str]]] = {
    "koordinator, needs all": ({"labels": {PODS: "h"}}, [pod_group(KOORDINATOR, 4)], WHOLE),
    "koordinator, needs three": ({"labels": {PODS: "h"}}, [pod_group(KOORDINATOR, 3)], ONE),
    "koordinator, needs more than run": ({"labels": {PODS: "h"}}, [pod_group(KOORDINATOR, 6)], WHOLE),
    "koordinator, its PodGroup is gone": ({"labels": {PODS: "h"}}, [], WHOLE),
    "kai, needs all": ({"annotations": {"pod-group-name": "h"}}, [pod_group(KAI, 4)], WHOLE),
    "kai, needs three": ({"annotations": {"pod-group-name": "h"}}, [pod_group(KAI, 3)], ONE),
    "kai, its PodGroup is gone": ({"annotations": {"pod-group-name": "h"}}, [], WHOLE),
    "ack, needs all": ({"labels": {f"{PODS}/name": "h", f"{PODS}/min-available": "4"}}, [], WHOLE),
    "ack, needs three": ({"labels": {f"{PODS}/name": "h", f"{PODS}/min-available": "3"}}, [], ONE),
    "kueue, pods of a group": (
        {
            "labels": {**QUEUED, "kueue.x-k8s.io/pod-group-name": "h"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "4"},
        },
        [],
        WHOLE,
    ),
    "kueue, a Job": (
        of_a_job(labels={**QUEUED, "batch.kubernetes.io/job-name": "h"}),
        [job(4, labels=QUEUED)],
        WHOLE,
    ),
    "kueue, a Job that is gone": (of_a_job(labels={**QUEUED, "batch.kubernetes.io/job-name": "h"}), [], WHOLE),
    "our own Job, needs all": (
        of_a_job(labels={"phalanx.dev/gang": "h", "phalanx.dev/workload": "Job"}),
        [job(4, gang=True)],
        WHOLE,
    ),
    "our own Job, needs three": (
        of_a_job(labels={"phalanx.dev/gang": "h", "phalanx.dev/workload": "Job"}),
        [job(3, gang=True)],
        ONE,
    ),
    "our own Job that is gone": (of_a_job(labels={"phalanx.dev/gang": "h", "phalanx.dev/workload": "Job"}), [], WHOLE),
    "runai, needs all": (runai(4), [], WHOLE),
    "runai, needs three": (runai(3), [], ONE),
    "no gang at all": ({}, [], ONE),
}


@pytest.mark.parametrize("case", CASES)
def test_a_running_gang_goes_whole_or_keeps_its_minimum(tmp_path: Path, case: str) -> None:
    metadata, objects, gone = CASES[case]
    running = [pod(name, 0, metadata, nodeName="n1" if name == "h-0" else "n2") for name in WHOLE]
    asking = pod("g-0", 10, {"labels": {"phalanx.dev/gang": "g"}}, nodeSelector={"kubernetes.io/hostname": "n1"})
    gang = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "g"}, "spec": {"minMember": 1}}
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all([node("n1", 1), node("n2", 3), *running, *objects, gang, asking]))
    answer = CliRunner().invoke(group, ["solve", "-f", str(path), "-o", "json"])
    told = next(each for each in yaml.safe_load(answer.stdout)["gangs"] if each["name"] == "g")
    assert [each["pod"] for each in told["victims"]] == gone, answer.stderr
