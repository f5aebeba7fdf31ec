"""Workloads of every kind, and what admission and the dry run make of them."""

from copy import deepcopy
from typing import Any

from gangs.dialects import read_all, review
from gangs.expanding import expanded
from gangs.manifests import key_of, pod_of
from gangs.model import Gang
from gangs.slips import slips_of
from gangs.sources import Sources

Object = dict[str, Any]


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
    """What admission refuses it for, and what it warns of."""
    sources = Sources(objects={key_of(manifest): manifest})
    faults, advice = review(manifest, sources)
    told = [*advice, *slips_of(manifest, sources, (*faults, *advice))]
    return [str(each) for each in faults], [str(each) for each in told]


def gangs_of(*manifests: Object) -> list[Gang]:
    """The gangs that come of workloads, once their pods are there."""
    pods = [pod_of(each) for each in manifests if each["kind"] == "Pod"]
    objects = {key_of(each): each for each in manifests if each["kind"] != "Pod"}
    return list(read_all(expanded(Sources(pods, objects))[0]).gangs)
