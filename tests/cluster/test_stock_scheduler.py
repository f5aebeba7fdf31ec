"""The stock kube-scheduler itself says where a pod can go; eligibility and room must say the same, node by node.

Every pod of the table is created once for every node, pinned to it by name, and either binds or says why it cannot.

       zone a             zone b                  zone c       no zone
    ┌─────┴─────┐     ┌─────┴──────────┐            │             │
   a1          a2    b1               b2           c1            n0
   db, 3 cpu   port  keeps web off    taint gpu    cordoned      2 pods only, one there
"""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from cluster_objects import apart, asking, expression, near, required_nodes, spread

from cluster.capturing import snapshot_of
from cluster.eligibility.nodes import Eligibility
from cluster.node_state import NodeState, room
from cluster.snapshot import Snapshot
from cluster.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from controlplane.control_plane import ControlPlane, wait_until
from kube.objects import Node, Pod
from kube.requests import pod_requests

pytestmark = pytest.mark.controlplane

ZONE = "zone"
HOST = "kubernetes.io/hostname"
PODS = "/api/v1/namespaces/default/pods"
NODES = ("a1", "a2", "b1", "b2", "c1", "n0")


def node(name: str, labels: dict[str, str], pods: int = 20) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **labels}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "example.com/gpu": "2", "pods": str(pods)}},
    }


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = spec.pop("containers", asking(cpu="100m"))
    for container in (*containers, *spec.get("initContainers", ())):
        container.update({"image": "none", "name": container.get("name", "c")})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": containers, **spec},
    }


THERE = (
    pod("db", {"app": "db"}, nodeName="a1", containers=asking(cpu="3")),
    pod("port", {"app": "port"}, nodeName="a2", containers=[{"ports": [{"containerPort": 80, "hostPort": 80}]}]),
    pod("shy", {"app": "shy"}, nodeName="b1", affinity=apart("web", ZONE)),
    pod("alone", {"app": "alone"}, nodeName="n0"),
)
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/nowhere"},
        "storageClassName": "",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression(ZONE, "In", "a")]}]}},
    },
}


@pytest.fixture(scope="module")
def furnished() -> Iterator[tuple[ControlPlane, Snapshot]]:
    """A cluster of this module's own as in the drawing above, and the product's snapshot of it."""
    with ControlPlane() as plane:
        furnish(plane)
        yield plane, look(plane)


def furnish(plane: ControlPlane) -> None:
    zones = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"}
    plane.add_nodes(
        node(name, {ZONE: zones[name], "generation": name[1]} if name in zones else {}, 2 if name == "n0" else 20)
        for name in NODES
    )
    for each in THERE:
        created = plane.request("POST", PODS, each)
        assert created["kind"] == "Pod", created
    plane.apply([VOLUME, CLAIM])
    plane.kubectl("wait", "pvc/data", "--for=jsonpath={.status.phase}=Bound", "--timeout=120s")
    plane.kubectl("taint", "node", "b2", "gpu=yes:NoSchedule")
    plane.kubectl("cordon", "c1")
    plane.kubectl("wait", "node/c1", "--for=jsonpath={.spec.taints[0].key}", "--timeout=120s")


def look(plane: ControlPlane) -> Snapshot:
    def items(path: str, kind: Any) -> Any:
        return [msgspec.convert(each, kind, strict=False) for each in plane.request("GET", path)["items"]]

    namespaces = {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in plane.request("GET", "/api/v1/namespaces")["items"]
    }
    return snapshot_of(
        items("/api/v1/nodes", Node),
        items("/api/v1/pods", Pod),
        namespaces=namespaces,
        claims=items("/api/v1/persistentvolumeclaims", PersistentVolumeClaim),
        volumes=items("/api/v1/persistentvolumes", PersistentVolume),
        storage_classes=items("/apis/storage.k8s.io/v1/storageclasses", StorageClass),
    )


def zone(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [expression(ZONE, operator, *values)]}


def tolerating(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


WEB = {"app": "web"}
ANYWHERE: dict[str, Any] = {"namespaceSelector": {}}
SIDECAR = {**asking(cpu="2")[0], "name": "side", "restartPolicy": "Always"}
BIG_INIT = {**asking(cpu="2")[0], "name": "init"}
TWO_TERMS = required_nodes(zone("In", "a"), zone("DoesNotExist"))

TABLE: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "anything": ({}, {}),
    "tolerates the taint": ({}, tolerating(key="gpu", value="yes", effect="NoSchedule")),
    "tolerates another value": ({}, tolerating(key="gpu", value="no")),
    "tolerates everything": ({}, tolerating(operator="Exists")),
    "tolerates the cordon": ({}, tolerating(key="node.kubernetes.io/unschedulable", operator="Exists")),
    "node selector": ({}, {"nodeSelector": {ZONE: "a"}}),
    "affinity in": ({}, {"affinity": required_nodes(zone("In", "a", "c"))}),
    "affinity not in": ({}, {"affinity": required_nodes(zone("NotIn", "a"))}),
    "affinity not there": ({}, {"affinity": required_nodes(zone("DoesNotExist"))}),
    "affinity greater": ({}, {"affinity": required_nodes({"matchExpressions": [expression("generation", "Gt", "1")]})}),
    "affinity, two terms": ({}, {"affinity": TWO_TERMS}),
    "host port": ({}, {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}),
    "another host port": ({}, {"containers": [{"ports": [{"containerPort": 80, "hostPort": 81}]}]}),
    "the host's network": ({}, {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}),
    "two cpus": ({}, {"containers": asking(cpu="2")}),
    "too many cpus": ({}, {"containers": asking(cpu="5")}),
    "just what is left": ({}, {"containers": asking(cpu="1")}),
    "one more than is left": ({}, {"containers": asking(cpu="1001m")}),
    "limits only": ({}, {"containers": [{"resources": {"limits": {"cpu": "2"}}}]}),
    "a resource by name": ({}, {"containers": [{"resources": {"limits": {"example.com/gpu": 2}}}]}),
    "more of it than there is": ({}, {"containers": [{"resources": {"limits": {"example.com/gpu": 3}}}]}),
    "a large init container": ({}, {"initContainers": [BIG_INIT]}),
    "a sidecar beside two cpus": ({}, {"initContainers": [SIDECAR], "containers": asking(cpu="2500m")}),
    "pod-level requests": ({}, {"resources": {"requests": {"cpu": "2"}}}),
    "near db": ({}, {"affinity": near("db", ZONE)}),
    "near db on its host": ({}, {"affinity": near("db", HOST)}),
    "near nobody": ({}, {"affinity": near("nobody", ZONE)}),
    "near its own kind": (WEB, {"affinity": near("web", HOST)}),
    "near its own kind by zone": ({"app": "first"}, {"affinity": near("first", ZONE)}),
    "apart from db": ({}, {"affinity": apart("db", ZONE)}),
    "apart from db in any namespace": ({}, {"affinity": apart("db", ZONE, **ANYWHERE)}),
    "apart from db of another namespace": ({}, {"affinity": apart("db", ZONE, namespaces=["kube-system"])}),
    "kept off by another": (WEB, {}),
    "spread over zones": (
        {"app": "db"},
        {"topologySpreadConstraints": spread("db", ZONE, nodeAffinityPolicy="Ignore")},
    ),
    "spread where it can go": ({"app": "db"}, {"topologySpreadConstraints": spread("db", ZONE)}),
    "spread with taints": (
        {"app": "db"},
        {"topologySpreadConstraints": spread("db", HOST, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")},
    ),
    "spread over more zones than there are": (
        {"app": "db"},
        {"topologySpreadConstraints": spread("db", ZONE, minDomains=5, nodeAffinityPolicy="Ignore")},
    ),
    "spread by a wide skew": (
        {"app": "db"},
        {"topologySpreadConstraints": spread("db", ZONE, 2, nodeAffinityPolicy="Ignore")},
    ),
    "a volume of zone a": ({}, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}),
}


NUMBERS = itertools.count()


@pytest.mark.parametrize("name", TABLE)
def test_the_stock_scheduler_agrees_on_every_node(furnished: tuple[ControlPlane, Snapshot], name: str) -> None:
    plane, snapshot = furnished
    labels, spec = TABLE[name]
    for state in snapshot.nodes:
        # kwok removes a pod by its name, whatever has come after it: no name is used twice
        asked = pinned(
            pod(f"asked-{next(NUMBERS)}", labels, **msgspec.json.decode(msgspec.json.encode(spec))), state.name
        )
        ours, its = verdict(msgspec.convert(asked, Pod, strict=False), state, snapshot), outcome(plane, asked)
        assert ours == "" if its == "bound" else ours and ours in its, f"{state.name}: {ours!r} against {its!r}"


def pinned(manifest: dict[str, Any], to: str) -> dict[str, Any]:
    """The pod with the node's name in every term of its required node affinity."""
    here = {"matchFields": [expression("metadata.name", "In", to)]}
    affinity = manifest["spec"].setdefault("affinity", {})
    required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    affinity.update(required_nodes(*({**term, **here} for term in terms)))
    return manifest


def verdict(asked: Pod, state: NodeState, snapshot: Snapshot) -> str:
    """Why not, in the words of the stock scheduler; "" for yes."""
    reason = Eligibility(asked, snapshot).exclusion(state)
    if reason:
        # It does not say which taint.
        return "node(s) had untolerated taint(s)" if "untolerated taint" in reason else reason
    free, _ = room(state, priority=0)
    short = [name for name, wanted in pod_requests(asked).items() if wanted > free.get(name, 0)]
    return ("Too many pods" if short[0] == "pods" else f"Insufficient {short[0]}") if short else ""


def outcome(plane: ControlPlane, manifest: dict[str, Any]) -> str:
    """Return what the stock scheduler does with the pod: "bound", or its message. The pod is deleted afterwards."""
    created = plane.request("POST", PODS, manifest)
    assert created["kind"] == "Pod", created
    path = f"{PODS}/{manifest['metadata']['name']}"
    try:
        return decision(plane, path)
    finally:
        plane.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
        wait_until(lambda: plane.request("GET", path)["kind"] == "Status", 120, "the pod to go")


def decision(plane: ControlPlane, path: str) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        now = plane.request("GET", path)
        if now["spec"].get("nodeName"):
            return "bound"
        for condition in now["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                return str(condition["message"])
        time.sleep(0.01)
    raise AssertionError("the scheduler did not decide")
