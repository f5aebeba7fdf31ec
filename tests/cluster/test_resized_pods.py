"""During a resize in place a pod counts with the requests that the stock scheduler counts."""

import json
from functools import partial
from typing import Any

import pytest
from cluster_objects import asking, pod
from resizes import RESIZES

from cluster.api.trimming import trim_pod
from controlplane.control_plane import ControlPlane, wait_until
from kube.requests import pod_requests

PODS = "/api/v1/namespaces/default/pods"
CPU = 8000
"""Of every node, in thousandths."""


@pytest.mark.parametrize("what", RESIZES)
def test_the_largest_of_what_is_asked_allocated_and_had_counts(what: str) -> None:
    spec, status, cpu = RESIZES[what]
    whole = pod(**spec, status=status)
    assert pod_requests(whole) == {"cpu": cpu, "pods": 1}
    assert pod_requests(trim_pod(whole)) == {"cpu": cpu, "pods": 1}


def test_what_says_nothing_new_is_not_kept() -> None:
    spec, status, _ = RESIZES["as it was asked"]
    told = {**status, "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
    assert trim_pod(pod(**spec, status=told)) == trim_pod(pod(**spec))


def test_overhead_and_other_resources_are_counted_beside() -> None:
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "5"}}}]}
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2", "memory": "3"}}]}
    whole = pod(**spec, overhead={"cpu": "1"}, status=status)
    assert pod_requests(whole) == pod_requests(trim_pod(whole)) == {"cpu": 3000, "memory": 5, "pods": 1}


@pytest.mark.controlplane
def test_the_stock_scheduler_takes_them_for_the_same(cluster: ControlPlane) -> None:
    """Each pod gets a node, and two more pods request the rest of it: one exactly, and one a thousandth more."""
    cluster.add_nodes(_node(f"n{number}") for number in range(len(RESIZES)))
    for number, (spec, status, _) in enumerate(RESIZES.values()):
        _create(cluster, f"resized-{number}", {**spec, "nodeName": f"n{number}"})
        _tell(cluster, f"resized-{number}", status)
    probes = {
        f"{which}-{number}": left + more
        for number, (_, _, cpu) in enumerate(RESIZES.values())
        for left in [CPU - cpu]
        for which, more in (("too-much", 1), ("fits", 0))
    }
    for name, cpu in probes.items():
        pinned = {"kubernetes.io/hostname": f"n{name.rpartition('-')[2]}"}
        _create(cluster, name, {"containers": asking(cpu=f"{cpu}m"), "nodeSelector": pinned})
        if name.startswith("too-much"):
            wait_until(partial(_is_tried, cluster, name), 60, f"{name} to be tried")
    wait_until(lambda: all(_is_tried(cluster, name) for name in probes), 120, "all pods to be tried")
    bound = {name for name in probes if _pod(cluster, name)["spec"].get("nodeName")}
    assert bound == {name for name in probes if name.startswith("fits")}


def _node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": f"{CPU}m", "memory": "8Gi", "pods": "10"}},
    }


def _create(cluster: ControlPlane, name: str, spec: dict[str, Any]) -> None:
    for each in (*spec["containers"], *spec.get("initContainers", ())):
        each["image"] = "none"
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    created = cluster.request("POST", PODS, made)
    assert created["kind"] == "Pod", created


def _tell(cluster: ControlPlane, name: str, status: dict[str, Any]) -> None:
    """As its node would."""
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)


def _pod(cluster: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.request("GET", f"{PODS}/{name}")
    return found


def _is_tried(cluster: ControlPlane, name: str) -> bool:
    pod = _pod(cluster, name)
    told = pod["status"].get("conditions", ())
    return bool(pod["spec"].get("nodeName")) or any(each["type"] == "PodScheduled" for each in told)
