"""Levels of one role in Run:ai's words, with the operators of KubeRay and JobSet.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node.
"""

from collections.abc import Mapping

import pytest
import yaml
from system import Object, Phalanx
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane.operator_processes import Running

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

TOPOLOGY = {"kai.scheduler/topology": "network"}
ONE_RACK = {"kai.scheduler/topology-required-placement": "rack"}
R1, R2 = {"n0", "n1", "n2", "n3"}, {"n4", "n5", "n6"}


@pytest.fixture
def racks(phalanx: Phalanx) -> Phalanx:
    """Seven nodes in two racks, and Run:ai's topology over them."""
    return apply_two_racks(phalanx, 7, "Run:ai's")


def filling(kind: str) -> Object:
    """Return a workload of the kind that only names its topology; each pod fills a node."""
    found: Object = yaml.safe_load(yaml.safe_dump(ROWS[kind].manifest()).replace("cpu: '1'", "cpu: '6'"))
    found["metadata"]["annotations"] = dict(TOPOLOGY)
    return found


def nodes_by(phalanx: Phalanx, *labels: str) -> Mapping[str, set[str]]:
    """Return the nodes of the pods, grouped by the values of these labels."""
    found: dict[str, set[str]] = {}
    for pod in phalanx.pods():
        by = "-".join(pod["metadata"]["labels"].get(label, "") for label in labels)
        found.setdefault(by, set()).add(pod["spec"].get("nodeName", ""))
    return found


@pytest.mark.usefixtures("kuberay")
def test_a_group_of_a_ray_cluster_shares_a_rack_and_the_head_is_where_there_is_room(racks: Phalanx) -> None:
    cluster = filling("RayCluster")
    group = cluster["spec"]["workerGroupSpecs"][0]
    group |= {"replicas": 4, "minReplicas": 4, "maxReplicas": 4}
    group["template"].setdefault("metadata", {}).setdefault("annotations", {}).update(ONE_RACK)
    racks.apply_once_told("gang default/w: 5 pods fit", cluster)
    label = "ray.io/node-type"
    racks.wait(lambda: nodes_by(racks, label).get("worker") == R1, "the workers to be in the rack that holds four")
    racks.wait(lambda: nodes_by(racks, label).get("head", {""}) < R2, "the head to be in the other one")
    racks.await_phase("w", "Placed")


def test_each_job_of_a_job_set_shares_a_rack_of_its_own(racks: Phalanx, jobset: Running) -> None:
    jobset.register()
    workload = filling("JobSet")
    entry = workload["spec"]["replicatedJobs"][1]
    entry["replicas"] = 2
    entry["template"]["metadata"] = {"annotations": dict(ONE_RACK)}
    racks.apply_once_told("gang default/w: 7 pods fit", workload)
    labels = ("jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index")

    def parted() -> bool:
        found = nodes_by(racks, *labels)
        return len(found) == 3 and all(each < R1 or each == R2 for name, each in found.items() if name != "driver-0")

    racks.wait(parted, "each Job to be in one rack")
    assert len(set().union(*nodes_by(racks, *labels).values())) == 7
    racks.await_phase("w", "Placed")
