"""Workloads of every kind whose annotations make gangs, and what their operators make of them.

The operators' rules are those of their sources: Kubeflow's training operator v1.8 (pkg/core, pkg/controller.v1) and the
StatefulSet controller. Nothing of them runs here: tests make what they would make, in their order.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

NAME = "w"


def template(cpu: str = "1") -> Object:
    """A pod template without labels."""
    return {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "image": "b", "resources": {"requests": {"cpu": cpu}}}]},
    }


def owned(manifest: Object, **more: object) -> Object:
    """A reference to the object that makes another."""
    metadata = manifest["metadata"]
    found = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": metadata["name"]}
    return {**found, "uid": metadata.get("uid", "u"), "controller": True, **more}


def made(manifest: Object, of: Object, name: str, labels: Mapping[str, str]) -> Object:
    """A pod of a template, as an operator makes it for one of its objects."""
    pod = {"apiVersion": "v1", "kind": "Pod", **deepcopy(of)}
    pod["metadata"] = {
        **pod.get("metadata", {}),
        "name": name,
        "namespace": "default",
        "labels": {**(pod.get("metadata", {}).get("labels") or {}), **labels},
        "ownerReferences": [owned(manifest)],
    }
    return pod


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of workload of four pods. `sets`: the pods of each role; `pods`: what the operator makes of a manifest."""

    api_version: str
    kind: str
    spec: Callable[[], Object]
    sets: Mapping[str, int]
    pods: Callable[[Object], Iterator[Object]]
    names: tuple[str, ...]
    ended: str = ""
    """The condition by which it says that it is over."""
    suspend: tuple[str, ...] = ()
    """The field that suspends it."""
    minimum: Mapping[str, Any] = field(default_factory=dict)
    """What its spec says for three of its pods to be enough."""

    @property
    def group(self) -> str:
        """Its API group."""
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        """Its version."""
        return self.api_version.partition("/")[2]

    def manifest(self, **annotations: str) -> Object:
        """A workload with annotations of ours; underscores stand for dashes."""
        said = {f"phalanx.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        metadata = {"name": NAME, "namespace": "default", "annotations": said}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "spec": self.spec()}


def of_replicas(kind: str, field_name: str, *, leader: str = "Master", minimum: Object | None = None) -> Row:
    """A kind of the training operator, of a leader and three workers."""

    def spec() -> Object:
        return {
            field_name: {
                leader: {"replicas": 1, "template": template()},
                "Worker": {"replicas": 3, "template": template()},
            }
        }

    def pods(manifest: Object) -> Iterator[Object]:
        for role, part in manifest["spec"][field_name].items():
            for index in range(part.get("replicas", 1)):
                labels = {
                    "training.kubeflow.org/job-name": manifest["metadata"]["name"],
                    "training.kubeflow.org/operator-name": f"{kind.lower()}-controller",
                    "training.kubeflow.org/replica-type": role.lower(),
                    "training.kubeflow.org/replica-index": str(index),
                }
                name = f"{manifest['metadata']['name']}-{role.lower()}-{index}"
                yield made(manifest, part["template"], name, labels)

    return Row(
        api_version="kubeflow.org/v1",
        kind=kind,
        spec=spec,
        sets={leader.lower(): 1, "worker": 3},
        pods=pods,
        names=(f"w-{leader.lower()}-0", "w-worker-0", "w-worker-1", "w-worker-2"),
        ended="Succeeded",
        suspend=("runPolicy", "suspend"),
        minimum=minimum or {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
    )


def _stateful_set() -> Row:
    def spec() -> Object:
        pods = template()
        pods["metadata"]["labels"] = {"app": NAME}
        return {
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "serviceName": NAME,
            "selector": {"matchLabels": {"app": NAME}},
            "template": pods,
        }

    def pods(manifest: Object) -> Iterator[Object]:
        for index in range(manifest["spec"].get("replicas", 1)):
            name = f"{manifest['metadata']['name']}-{index}"
            labels = {"apps.kubernetes.io/pod-index": str(index), "statefulset.kubernetes.io/pod-name": name}
            yield made(manifest, manifest["spec"]["template"], name, labels)

    return Row("apps/v1", "StatefulSet", spec, {"main": 4}, pods, ("w-0", "w-1", "w-2", "w-3"))


ROWS: Mapping[str, Row] = {
    "PyTorchJob": of_replicas("PyTorchJob", "pytorchReplicaSpecs"),
    "PyTorchJob, elastic": of_replicas(
        "PyTorchJob", "pytorchReplicaSpecs", minimum={"elasticPolicy": {"minReplicas": 2}}
    ),
    "TFJob": of_replicas("TFJob", "tfReplicaSpecs", leader="Chief"),
    "XGBoostJob": of_replicas("XGBoostJob", "xgbReplicaSpecs"),
    "PaddleJob": of_replicas("PaddleJob", "paddleReplicaSpecs"),
    "JAXJob": of_replicas("JAXJob", "jaxReplicaSpecs", leader="Coordinator"),
    "StatefulSet": _stateful_set(),
}
