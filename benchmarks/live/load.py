"""The objects of the live benchmark: nodes, topologies, gangs, pods and Jobs.

Nodes have 8 GPUs, in racks of 20 and blocks of 1,000. Each pod fills a node.
"""

from typing import Any

from kube.keys import API_VERSION, GANG

Manifest = dict[str, Any]

BLOCK, RACK = "example.com/block", "example.com/rack"
POOL = {"example.com/pool": "gpu"}
"""A label that all nodes have, because a flavor of Kueue must name a node label."""
PER_BLOCK, PER_RACK = 1000, 20
WITHIN_A_BLOCK = 1000
"""Gangs of up to this many pods require one block. Every gang prefers one rack."""
NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GANGS = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/gangs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
POD_GROUPS = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
QUEUE = "queue"
"""Kueue's queue of `NAMESPACE`."""
GOES_ON = {"kwok.phalanx.dev/goes-on": "true"}
"""An annotation of a Job's pods: kwok runs them until they are deleted."""
HELD = "example.com/held"
"""The scheduling gate of pods that the benchmark itself releases."""
FEATURE_GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
RUNTIME_CONFIG = ("scheduling.k8s.io/v1beta1=true",)
"""The API server's flags for the API of the scheduler's own gangs."""
_CAPACITY = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}


def node(number: int, per_block: int = PER_BLOCK, per_rack: int = PER_RACK) -> Manifest:
    """Return the manifest of a node that kwok simulates, with the labels of its rack and block."""
    name = f"n{number:05d}"
    domains = {BLOCK: f"b{number // per_block}", RACK: f"r{number // per_rack}"}
    labels = {"kubernetes.io/hostname": name, **domains, **POOL}
    metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels}
    status = {"allocatable": _CAPACITY, "capacity": _CAPACITY}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def ready(of: Manifest) -> bool:
    """Whether a node is ready and has no taint."""
    conditions = of["status"].get("conditions", ())
    condition = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return condition and not of["spec"].get("taints")


def number_of(node_name: str) -> int:
    """Return the number of a node from its name."""
    return int(node_name[1:])


def rack_of(node_name: str) -> int:
    """Return the number of a node's rack."""
    return number_of(node_name) // PER_RACK


def block_of(node_name: str) -> int:
    """Return the number of a node's block."""
    return number_of(node_name) // PER_BLOCK


def job_of(pod: Manifest) -> str:
    """Return the name of the Job that created a pod; empty if no Job did."""
    return str(pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name", ""))


def topology() -> Manifest:
    """Return a Topology with the levels of these nodes: block and rack."""
    levels = [{"name": "block", "nodeLabel": BLOCK}, {"name": "rack", "nodeLabel": RACK}]
    return {"apiVersion": API_VERSION, "kind": "Topology", "metadata": {"name": "racks"}, "spec": {"levels": levels}}


def gang(name: str, size: int) -> Manifest:
    """Return a Gang object of `size` pods, which all must start together."""
    spec: Manifest = {"minMember": size, "preferred": "rack", "podSets": [{"name": "main", "count": size}]}
    if size <= WITHIN_A_BLOCK:
        spec["required"] = "block"
    return {"apiVersion": API_VERSION, "kind": "Gang", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod_group(name: str, size: int) -> Manifest:
    """Return a PodGroup of `size` pods for the scheduler's own gangs (alpha). Up to `WITHIN_A_BLOCK` pods require one
    block.
    """
    spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": size}}}
    if size <= WITHIN_A_BLOCK:
        spec["schedulingConstraints"] = {"topology": [{"key": BLOCK}]}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def held(name: str, size: int) -> list[Manifest]:
    """Return `size` pods of 8 GPUs, each tied by affinity to a node of its own, and gated by the gate `HELD`."""
    found = []
    for number, pod in enumerate(pods(name, size)):
        its_node = {"key": "metadata.name", "operator": "In", "values": [node(number)["metadata"]["name"]]}
        terms = {"nodeSelectorTerms": [{"matchFields": [its_node]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        found.append({**pod, "spec": {**pod["spec"], "affinity": affinity, "schedulingGates": [{"name": HELD}]}})
    return found


def pods(name: str, size: int, *, member: bool = False, grouped: bool = False) -> list[Manifest]:
    """Return `size` pods of 8 GPUs. `member`: of the gang `name`; `grouped`: of the scheduler's own PodGroup `name`."""
    spec = {**pod_spec(), **(_in_group(name) if grouped else {})}
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


def pod_spec(gpus: int = 8) -> Manifest:
    """Return the spec of a pod that requests this number of GPUs."""
    asked = {"nvidia.com/gpu": str(gpus)}
    resources = {"requests": {"cpu": str(gpus), "memory": f"{2 * gpus}Gi", **asked}, "limits": asked}
    container = {"name": "main", "image": "pause", "resources": resources}
    return {"containers": [container], "terminationGracePeriodSeconds": 0}


def job(
    name: str, size: int, *, gang: bool = False, queued: bool = False, grouped: bool = False, gpus: int = 8
) -> Manifest:
    """Return a Job of `size` pods, each with so many GPUs. `gang`: the Job is a gang of Phalanx; `queued`: it is in
    Kueue's queue; `grouped`: its pods are in the scheduler's own PodGroup `name`.

    Kueue refuses a required and a preferred level together. So Jobs of up to `WITHIN_A_BLOCK` pods require one block,
    and larger ones prefer one rack.
    """
    within = size <= WITHIN_A_BLOCK
    wishes = {"phalanx.dev/preferred": "rack", **({"phalanx.dev/required": "block"} if within else {})}
    level = ("kueue.x-k8s.io/podset-required-topology", BLOCK) if within else (_PREFERRED, RACK)
    template = {
        "metadata": {"annotations": {**GOES_ON, **(dict([level]) if queued else {})}},
        "spec": {**pod_spec(gpus), **(_in_group(name) if grouped else {}), "restartPolicy": "Never"},
    }
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "annotations": {GANG: "true", **wishes} if gang else {},
        "labels": {"kueue.x-k8s.io/queue-name": QUEUE} if queued else {},
    }
    counts = {"completions": size, "parallelism": size, "completionMode": "Indexed", "backoffLimit": 1000}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**counts, "template": template}}


def _in_group(name: str) -> Manifest:
    """Return the fields of a pod's spec that put the pod into the scheduler's own PodGroup."""
    return {"schedulingGroup": {"podGroupName": name}}


_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
