"""Workloads of every kind, and what admission and the dry run make of them."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from cli.main import group
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.typos import typos_of
from gangs.manifests import key_of, pod_of
from gangs.model import Gang
from gangs.sources import Sources

Object = dict[str, Any]

FILES = Path(__file__).parent / "kinds"
KUEUE = ("nodes.yaml", "topology-and-flavor.yaml", "pool.yaml")

LEVEL = "kueue.x-k8s.io/podset-required-topology"
QUEUE = "kueue.x-k8s.io/queue-name"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
POLICY = "scheduling.run.ai/topology-policy"
RUNAI, LEAST = "kai.scheduler/topology-required-placement", "kai.scheduler/batch-min-member"
TO_KUEUE_GROUP = (
    f"group its pods: write the label {GROUP}: <a name>, the annotation {TOTAL}: <all its pods, in quotes> and the "
    "same "
    "kueue.x-k8s.io keys on all its pod templates"
)
TO_POD_GROUP = (
    "make a PodGroup with minMember, and write scheduling.run.ai/pod-group: <its name> on all its pod templates instead"
)
TO_GANG = "make a Gang object and label the pod templates phalanx.dev/gang: <its name> instead"


def solve(*files: str) -> tuple[Object, list[str], int]:
    """Run `phalanx solve` and return the report, the lines of standard error, and the exit status."""
    arguments = [part for file in files for part in ("-f", str(FILES / file))]
    answer = CliRunner().invoke(group, ["solve", "-o", "json", *arguments], catch_exceptions=False)
    lines = [line.replace(f"{FILES}/", "") for line in answer.stderr.splitlines() if "tas-config" not in line]
    return json.loads(answer.stdout), lines, answer.exit_code


def document(name: str) -> Object:
    """Return the object in one of the files."""
    found: Object = yaml.safe_load((FILES / f"{name}.yaml").read_text())
    return found


def template(labels: dict[str, str], annotations: dict[str, str]) -> Object:
    """A pod template."""
    container = {"name": "c", "image": "b", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": [container]}}


def workload(kind: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Object:
    """A workload of four pods whose templates carry these."""
    pods = template(labels or {}, annotations or {})
    again, job = deepcopy(pods), {"parallelism": 4, "completions": 4, "template": pods}
    api_version, spec = {
        "Job": ("batch/v1", job),
        "CronJob": ("batch/v1", {"jobTemplate": {"spec": job}}),
        "StatefulSet": ("apps/v1", {"replicas": 4, "podManagementPolicy": "Parallel", "template": pods}),
        "Deployment": ("apps/v1", {"replicas": 4, "template": pods}),
        "ReplicaSet": ("apps/v1", {"replicas": 4, "template": pods}),
        "PyTorchJob": ("kubeflow.org/v1", {"pytorchReplicaSpecs": roles(Master=(1, pods), Worker=(3, again))}),
        "MPIJob": ("kubeflow.org/v1", {"mpiReplicaSpecs": roles(Launcher=(1, pods), Worker=(3, again))}),
        "RayCluster": ("ray.io/v1", {"headGroupSpec": {"template": pods}, "workerGroupSpecs": [scaled(3, again)]}),
        "JobSet": ("jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [{"replicas": 2, "template": {"spec": job}}]}),
        "LeaderWorkerSet": (
            "leaderworkerset.x-k8s.io/v1",
            {"replicas": 1, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": pods, "workerTemplate": again}},
        ),
        "Service": ("serving.knative.dev/v1", {"template": pods}),
    }[kind]
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": "default"}, "spec": spec}


def scaled(count: int, pods: Object) -> Object:
    """A template and how many pods it makes."""
    return {"replicas": count, "template": pods}


def roles(**parts: tuple[int, Object]) -> Object:
    """Replica specs."""
    return {name: scaled(*part) for name, part in parts.items()}


def said(manifest: Object) -> tuple[list[str], list[str]]:
    """Return the faults for which admission refuses the workload, and the warnings about it."""
    sources = Sources(objects={key_of(manifest): manifest})
    faults, advice = review(manifest, sources)
    told = [*advice, *typos_of(manifest, sources, (*faults, *advice))]
    return [str(each) for each in faults], [str(each) for each in told]


def gangs_of(*manifests: Object) -> list[Gang]:
    """Return the gangs of workloads and pods, with the expected pods of the workloads."""
    pods = [pod_of(each) for each in manifests if each["kind"] == "Pod"]
    objects = {key_of(each): each for each in manifests if each["kind"] != "Pod"}
    return list(read_all(expanded(Sources(pods, objects))[0]).gangs)
