"""What the cluster has and what is asked of it.

Nodes of 8 GPUs in racks of 20 and blocks of 1,000, and pods that fill a node each.
"""

from typing import Any

from kube.keys import API_VERSION, GANG

Manifest = dict[str, Any]

BLOCK, RACK = "example.com/block", "example.com/rack"
PER_BLOCK, PER_RACK = 1000, 20
WITHIN_A_BLOCK = 1000
"""Gangs of up to so many pods ask for one block; every gang would rather be in one rack."""
NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GANGS = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/gangs"
POD_GROUPS = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
HELD = "example.com/held"
"""The gate of pods that are let go by the benchmark itself."""
FEATURE_GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
RUNTIME_CONFIG = ("scheduling.k8s.io/v1beta1=true",)
"""What the scheduler's own gangs need."""
_CAPACITY = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}


def node(number: int) -> Manifest:
    """One fake node."""
    name = f"n{number:05d}"
    labels = {"kubernetes.io/hostname": name, BLOCK: f"b{number // PER_BLOCK}", RACK: f"r{number // PER_RACK}"}
    metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels}
    status = {"allocatable": _CAPACITY, "capacity": _CAPACITY}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def ready(of: Manifest) -> bool:
    """Whether a node can take pods."""
    conditions = of["status"].get("conditions", ())
    condition = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return condition and not of["spec"].get("taints")


def rack_of(node_name: str) -> int:
    """The number of a node's rack."""
    return int(node_name[1:]) // PER_RACK


def topology() -> Manifest:
    """The topology of these nodes."""
    levels = [{"name": "block", "nodeLabel": BLOCK}, {"name": "rack", "nodeLabel": RACK}]
    return {"apiVersion": API_VERSION, "kind": "Topology", "metadata": {"name": "racks"}, "spec": {"levels": levels}}


def gang(name: str, size: int) -> Manifest:
    """A Gang object of so many pods."""
    spec: Manifest = {"minMember": size, "preferred": "rack", "podSets": [{"name": "main", "count": size}]}
    if size <= WITHIN_A_BLOCK:
        spec["required"] = "block"
    return {"apiVersion": API_VERSION, "kind": "Gang", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod_group(name: str, size: int) -> Manifest:
    """A PodGroup of the scheduler's own of so many pods. It knows one level, which it requires."""
    spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": size}}}
    if size <= WITHIN_A_BLOCK:
        spec["schedulingConstraints"] = {"topology": [{"key": BLOCK}]}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def held(name: str, size: int) -> list[Manifest]:
    """So many pods of 8 GPUs, each tied to a node of its own, that wait for a gate of nobody's to be taken away."""
    found = []
    for number, pod in enumerate(pods(name, size)):
        its_node = {"key": "metadata.name", "operator": "In", "values": [node(number)["metadata"]["name"]]}
        terms = {"nodeSelectorTerms": [{"matchFields": [its_node]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        found.append({**pod, "spec": {**pod["spec"], "affinity": affinity, "schedulingGates": [{"name": HELD}]}})
    return found


def pods(name: str, size: int, *, member: bool = False, grouped: bool = False) -> list[Manifest]:
    """So many pods of 8 GPUs; `member`: of the gang of that name, `grouped`: of the scheduler's own."""
    gpus = {"nvidia.com/gpu": "8"}
    resources = {"requests": {"cpu": "8", "memory": "16Gi", **gpus}, "limits": gpus}
    spec = {
        "containers": [{"name": "main", "image": "pause", "resources": resources}],
        "terminationGracePeriodSeconds": 0,
        **({"schedulingGroup": {"podGroupName": name}} if grouped else {}),
    }
    labels = {GANG: name} if member else {}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "namespace": NAMESPACE, "labels": labels},
            "spec": spec,
        }
        for number in range(size)
    ]
