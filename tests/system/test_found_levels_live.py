"""A cluster without any topology object, on a real control plane: the levels are found on the nodes.

zone-a: node-0 node-1      zone-b: node-2 node-3 node-4
"""

from typing import Any

import pytest
from node_manifests import node_manifest
from system import Phalanx

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

ZONE = "topology.kubernetes.io/zone"


def node(index: int, zone: str) -> dict[str, Any]:
    """A node of 8 cpu in a zone."""
    return node_manifest(f"node-{index}", {ZONE: zone})


def job(name: str, pods: int, required: str) -> dict[str, Any]:
    """A Job of whole nodes that asks for one domain of a level; its pods go on running."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    template = {
        "metadata": {"annotations": {"kwok.phalanx.dev/goes-on": "true"}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": {"phalanx.dev/required": required}},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template},
    }


def test_a_job_requires_a_zone_by_its_label_and_one_that_fits_no_zone_never_starts_in_part(phalanx: Phalanx) -> None:
    for index in range(5):
        phalanx.submit(node(index, "zone-a" if index < 2 else "zone-b"))
    phalanx.cluster.await_nodes(f"node-{index}" for index in range(5))
    phalanx.apply_once_told("needs 4 pods in one zone: zone-b fits 3 of 4", job("four", 4, ZONE))
    phalanx.submit(job("three", 3, ZONE))
    status = phalanx.await_phase("three", "Placed")
    assert {each["node"] for each in status["assignments"]} == {"node-2", "node-3", "node-4"}
    assert [(each["level"], each["mode"]) for each in status["levels"]] == [("zone", "required"), ("node", "none")]
    assert phalanx.await_phase("four", "Unplaceable")["members"]["bound"] == 0
