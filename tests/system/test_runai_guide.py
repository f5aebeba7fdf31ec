"""The Run:ai guide's Job and figure, on a real control plane.

zone-1 / block-1
├── rack-a: gb200-a-0 … gb200-a-17, of which workload 1 uses the first 12
└── rack-b: gb200-b-0 … gb200-b-17, of which workload 2 uses the first 15
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from system import EXAMPLES, Phalanx

pytestmark = pytest.mark.controlplane

RUNAI = EXAMPLES / "runai"
FREE_IN_A = [f"gb200-a-{index}" for index in range(12, 18)]
FREE_IN_B = [f"gb200-b-{index}" for index in range(15, 18)]
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"


@pytest.fixture
def racks(phalanx: Phalanx) -> Iterator[Phalanx]:
    """The figure's cluster, workloads 1 and 2 running, with its topology."""
    phalanx.apply_files(RUNAI / "nodes.yaml", RUNAI / "running-workloads.yaml", RUNAI / "topology.yaml")
    phalanx.cluster.await_nodes(f"gb200-{rack}-{index}" for rack in "ab" for index in range(18))
    yield phalanx
    phalanx.cluster.kubectl("delete", "topologies.kai.scheduler", "--all")


def written(file: str = "job.yaml") -> list[dict[str, Any]]:
    """The objects of an example; the pods of Jobs go on running, which they do not without a kubelet."""
    objects = list(yaml.safe_load_all((RUNAI / file).read_text(encoding="utf-8")))
    for each in objects:
        if each["kind"] == "Job":
            each["spec"]["template"]["metadata"] = {"annotations": {"kwok.phalanx.dev/goes-on": "true"}}
    return objects


def job(name: str, pods: int, **annotations: str | None) -> dict[str, Any]:
    """The guide's Job under another name and of another size; annotations by the end of their key, None: without."""
    (manifest,) = written()
    keys = {"topology": "", "required": "-required-placement", "preferred": "-preferred-placement"}
    for end, value in annotations.items():
        key = f"kai.scheduler/topology{keys[end]}"
        del manifest["metadata"]["annotations"][key]
        if value is not None:
            manifest["metadata"]["annotations"][key] = value
    manifest["metadata"]["name"] = name
    manifest["spec"] |= {"parallelism": pods, "completions": pods}
    return manifest


def nodes_of(phalanx: Phalanx, job_name: str, namespace: str = "default") -> list[str]:
    """The nodes of a Job's pods; "" for one without."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=batch.kubernetes.io/job-name={job_name}"
    pods = phalanx.cluster.request("GET", path)["items"]
    return sorted(each["spec"].get("nodeName", "") for each in pods)


def await_nodes(phalanx: Phalanx, job_name: str, expected: list[str], namespace: str = "default") -> None:
    phalanx.wait(lambda: nodes_of(phalanx, job_name, namespace) == sorted(expected), f"{job_name} on {expected}")


@pytest.mark.long
def test_workload_3_lands_wholly_in_rack_a(racks: Phalanx) -> None:
    racks.submit(*written())
    await_nodes(racks, "topology-aware-job", FREE_IN_A)
    status = racks.await_phase("topology-aware-job", "Placed")
    assert (status["topology"], status["proof"]) == ("network", "Optimal")
    levels = {each["level"]: (each["mode"], len(each["domains"])) for each in status["levels"]}
    assert levels == {"zone": ("required", 1), "block": ("none", 1), "rack": ("preferred", 1), "node": ("none", 6)}


@pytest.mark.long
def test_a_job_of_three_nodes_leaves_rack_a_whole(racks: Phalanx) -> None:
    racks.submit(job("three", 3))
    await_nodes(racks, "three", FREE_IN_B)
    racks.submit(job("six", 6, required="rack", preferred=None))
    await_nodes(racks, "six", FREE_IN_A)


@pytest.mark.long
def test_seven_nodes_escalate_above_the_rack_and_never_start_in_part_where_they_may_not(racks: Phalanx) -> None:
    racks.submit(job("strict", 7, required="topology-rack", preferred="hostname"))
    status = racks.await_phase("strict", "Unplaceable")
    assert "needs 7 pods in one rack: zone-1/block-1/rack-a fits 6 of 7" in status["message"]
    assert set(nodes_of(racks, "strict")) == {""}
    racks.cluster.kubectl("delete", "job", "strict", "--wait=false")
    racks.submit(job("preferring", 7, required=None))
    await_nodes(racks, "preferring", [*FREE_IN_A, FREE_IN_B[0]])
    (rack,) = (each for each in racks.await_phase("preferring", "Placed")["levels"] if each["level"] == "rack")
    assert (rack["mode"], sorted(each["pods"] for each in rack["domains"])) == ("preferred", [1, 6])


@pytest.mark.long
def test_an_automatic_namespace_prefers_the_node_in_the_topology_of_the_pool(racks: Phalanx) -> None:
    racks.submit(*written("automatic/job.yaml")[:1])
    racks.submit(topology("other", "example.com/pool=other"))
    racks.submit(*written("automatic/job.yaml")[1:])
    await_nodes(racks, "distributed-training", FREE_IN_A, "team-a")
    path = "/apis/phalanx.dev/v1alpha1/namespaces/team-a/gangs/distributed-training"

    def status() -> dict[str, Any]:
        found: dict[str, Any] = racks.cluster.request("GET", path).get("status") or {}
        return found

    racks.wait(lambda: status().get("phase") == "Placed", "the automatic gang")
    assert status()["topology"] == "network"
    assert [each["mode"] for each in status()["levels"]] == ["none", "none", "none", "preferred"]
    racks.cluster.kubectl("delete", "namespace", "team-a", "--wait=false")


@pytest.mark.long
def test_a_detached_topology_is_used_on_and_a_deleted_one_leaves_what_runs_and_holds_back_what_does_not(
    racks: Phalanx,
) -> None:
    racks.submit(job("before", 3))
    await_nodes(racks, "before", FREE_IN_B)
    racks.cluster.kubectl("annotate", "topologies.kai.scheduler", "network", "phalanx.dev/node-pools-")
    racks.submit(job("detached", 2))
    racks.await_phase("detached", "Placed")
    suspended = job("suspended", 2)
    suspended["spec"]["suspend"] = True
    racks.submit(suspended)
    racks.cluster.kubectl("delete", "topologies.kai.scheduler", "network")
    racks.cluster.kubectl("patch", "job", "suspended", "-p", '{"spec": {"suspend": false}}')
    racks.wait(lambda: nodes_of(racks, "suspended") == ["", ""], "the resumed pods")
    racks.wait(
        lambda: racks.status("suspended").get("message") == "waits for Topology.kai.scheduler network",
        "the resumed Job to wait for its topology",
    )
    assert nodes_of(racks, "before") == FREE_IN_B
    assert all(nodes_of(racks, "detached"))
    assert racks.status("before")["phase"] == "Placed"
    racks.apply_files(RUNAI / "topology.yaml")
    racks.await_phase("suspended", "Placed")


def topology(name: str, pools: str = "") -> dict[str, Any]:
    """The guide's topology under another name, tied to these pools."""
    (manifest,) = written("topology.yaml")
    annotations = {"phalanx.dev/node-pools": pools} if pools else {}
    return {**manifest, "metadata": {"name": name, "annotations": annotations}}


@pytest.mark.long
def test_wrong_requests_are_refused_at_kubectl_apply(racks: Phalanx) -> None:
    at = "metadata.annotations[kai.scheduler/topology-"
    racks.await_refusal(
        f'Job default/j: {at}preferred-placement]: "zone" is wider than the required level "rack"; '
        "prefer rack or a narrower level, or leave it out",
        job("j", 6, required="rack", preferred="zone"),
    )
    racks.await_refusal(
        f'Job default/j: {at}preferred-placement]: "topology-rack" is the required level "rack" itself; '
        "prefer a level below it, such as node, or leave it out",
        job("j", 6, required="rack", preferred="topology-rack"),
    )
    racks.await_refusal(
        f'Job default/j: {at}required-placement]: "row" is not a level of Topology.kai.scheduler network',
        job("j", 6, required="row"),
    )
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "annotations": {"kai.scheduler/topology": "network"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}},
        },
    }
    racks.await_refusal("a DaemonSet cannot be made a gang by annotations yet", daemons)
    racks.await_refusal(
        "kai.scheduler/node-pool=gb200 belongs to Topology.kai.scheduler network already",
        topology("second", "kai.scheduler/node-pool=gb200"),
    )
    racks.await_refusal(
        "the node labels of a topology cannot be changed",
        {**topology("network"), "spec": {"levels": [{"nodeLabel": "example.com/other"}]}},
    )


@pytest.mark.long
def test_the_pods_of_any_workload_are_a_gang_by_their_own_annotations(racks: Phalanx) -> None:
    (manifest,) = written()
    metadata = {"labels": {"app": "w"}, "annotations": {**manifest["metadata"]["annotations"]}}
    metadata["annotations"]["kai.scheduler/batch-min-member"] = "6"
    spec = {**manifest["spec"]["template"]["spec"], "restartPolicy": "Always"}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "server", "namespace": "default"},
        "spec": {
            "replicas": 6,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": metadata["labels"]},
            "template": {"metadata": metadata, "spec": spec},
        },
    }
    racks.submit(workload)
    nodes = racks.await_bound([f"server-{index}" for index in range(6)])
    assert list(nodes.values()) == FREE_IN_A
    assert racks.await_phase("server", "Placed")["topology"] == "network"
