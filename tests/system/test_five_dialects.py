"""Gangs of all five systems, and a Gang of Phalanx, compete for one cluster that holds two of them at a time.

zone z ─ spine s1 / rack r1: n0 n1 n2 n3 n4 n5      8 cpu each; a gang is two pods of 8 cpu, one whole node each,
spine s2 / rack r2: n6                     but n6 is a stranger's
"""

from typing import Any

import pytest
from node_manifests import node_manifest
from system import Phalanx, pod, pod_group

from controlplane.recording import WatchEvent, bound

pytestmark = pytest.mark.controlplane

SPINE, ASW, POD = "network.topology.nvidia.com/spine", "alibabacloud.com/asw-id", "alibabacloud.com/point-of-delivery"
RACK = "example.com/rack"
SIZE = 2
SYSTEMS = ("koordinator", "kueue", "kai", "runai", "ack", "phalanx")

Object = dict[str, Any]


def node(number: int) -> Object:
    """Return a node with a place in the topology of every dialect."""
    place = "1" if number < 6 else "2"
    labels = {SPINE: f"s{place}", ASW: f"a{place}", POD: f"p{place}", RACK: f"r{place}"}
    return node_manifest(f"n{number}", labels)


def cluster_objects() -> list[Object]:
    """Return the cluster-wide topologies and queues of all dialects."""
    layers = [
        {"labelKey": [POD], "topologyLayer": "PoDTopologyLayer"},
        {"labelKey": [ASW], "parentTopologyLayer": "PoDTopologyLayer", "topologyLayer": "ASWTopologyLayer"},
        {"parentTopologyLayer": "ASWTopologyLayer", "topologyLayer": "NodeTopologyLayer"},
    ]
    quota = [{"name": "cpu", "nominalQuota": 64}, {"name": "memory", "nominalQuota": "1Ti"}]
    flavor = {"name": "racks", "resources": quota}
    group = {"coveredResources": ["cpu", "memory"], "flavors": [flavor]}
    return [
        _object("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "default", networkTopologySpec=layers),
        _object("kueue.x-k8s.io/v1beta1", "Topology", "racks", levels=[{"nodeLabel": RACK}]),
        _object("kueue.x-k8s.io/v1beta1", "ResourceFlavor", "racks", nodeLabels={RACK: "r1"}, topologyName="racks"),
        _object("kueue.x-k8s.io/v1beta1", "ClusterQueue", "pool", namespaceSelector={}, resourceGroups=[group]),
        _object("kueue.x-k8s.io/v1beta1", "LocalQueue", "team", "default", clusterQueue="pool"),
        _object("kai.scheduler/v1alpha1", "Topology", "network", levels=[{"nodeLabel": RACK}]),
        _object("phalanx.dev/v1alpha1", "Topology", "own", levels=[{"name": "rack", "nodeLabel": RACK}]),
    ]


def _object(api_version: str, kind: str, name: str, namespace: str = "", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def job(name: str, *, labels: Any = None, annotations: Any = None, template: Any = None) -> Object:
    """An indexed Job of two pods of a whole node each."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    made = _object("batch/v1", "Job", name, "default", parallelism=SIZE, completions=SIZE, completionMode="Indexed")
    made["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    made["spec"]["template"] = {"metadata": template or {}, "spec": spec}
    return made


def requests() -> list[Object]:
    """One gang in the words of each system."""
    ack = {
        "pod-group.scheduling.sigs.k8s.io/name": "ack",
        "pod-group.scheduling.sigs.k8s.io/min-available": str(SIZE),
        "network-topology-job-name": "ack",
        "network-topology-job-namespace": "default",
    }
    strategy = [{"layer": "ASWTopologyLayer", "strategy": "MustGather"}]
    kai = [pod(f"kai-{index}", schedulerName="kai-scheduler") for index in range(SIZE)]
    for each in kai:
        each["metadata"]["annotations"] = {"scheduling.run.ai/pod-group": "kai"}
    own = [pod(f"phalanx-{index}") for index in range(SIZE)]
    for each in own:
        each["metadata"]["labels"] = {"phalanx.dev/gang": "phalanx"}
    return [
        pod_group("koordinator", SIZE, ("ASWTopologyLayer", "MustGather")),
        *(pod(f"koordinator-{index}", "koordinator") for index in range(SIZE)),
        job(
            "kueue",
            labels={"kueue.x-k8s.io/queue-name": "team"},
            template={"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}},
        ),
        _object("scheduling.run.ai/v2", "PodGroup", "kai", "default", minMember=SIZE),
        *kai,
        job(
            "runai",
            annotations={"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"},
        ),
        _object(
            "scheduling.koordinator.sh/v1alpha1",
            "JobNetworkTopology",
            "ack",
            "default",
            topologyStrategy=strategy,
            workerNum=SIZE,
        ),
        job("ack", template={"labels": ack}),
        _object("phalanx.dev/v1alpha1", "Gang", "phalanx", "default", minMember=SIZE, required="rack", topology="own"),
        *own,
    ]


def system_of(event: WatchEvent) -> str:
    """Return the system of the pod that the event is about."""
    return event.name.split("-")[0]


def running(phalanx: Phalanx) -> dict[str, list[str]]:
    """The bound pods of each system."""
    found: dict[str, list[str]] = {name: [] for name in SYSTEMS}
    for each in phalanx.pods():
        name = each["metadata"]["name"].split("-")[0]
        if name in found and each["spec"].get("nodeName") and not each["metadata"].get("deletionTimestamp"):
            found[name].append(each["metadata"]["name"])
    return found


def test_gangs_of_all_systems_share_a_cluster_and_none_starts_in_part(phalanx: Phalanx) -> None:
    phalanx.cluster.add_nodes(node(number) for number in range(7))
    phalanx.submit(*cluster_objects())
    phalanx.submit(pod("stranger", cpu=7, nodeSelector={"kubernetes.io/hostname": "n6"}))
    with phalanx.record() as recorder:
        phalanx.submit(*(pod(f"filler-{index}", nodeName=f"n{index}", cpu=8) for index in (4, 5)))
        phalanx.submit(*requests())
        phalanx.await_bound(["stranger"])
        served: set[str] = set()
        while len(served) < len(SYSTEMS):
            phalanx.wait(lambda: bool(whole(phalanx)), f"another gang to run after {sorted(served)}")
            for name in whole(phalanx):
                served.add(name)
                _end(phalanx, name)
    started = [(system_of(event), event.name) for event in recorder.events if bound(event)]
    for name in SYSTEMS:
        assert len({member for system, member in started if system == name}) == SIZE, name
    stranger = [event for event in recorder.events if event.name == "stranger"]
    assert not any(event.object["spec"].get("schedulingGates") for event in stranger)


def whole(phalanx: Phalanx) -> list[str]:
    """Return the gangs that run now. No pod of another gang runs for longer than a moment."""
    return [name for name, pods in running(phalanx).items() if len(pods) == SIZE]


def _end(phalanx: Phalanx, name: str) -> None:
    """End the gang: delete the object that created it."""
    if name in ("kueue", "runai", "ack"):
        phalanx.cluster.kubectl("delete", "job", name, "--wait=false")
    phalanx.wait(lambda: not _delete_pods(phalanx, name), f"the pods of {name} to go")


def _delete_pods(phalanx: Phalanx, name: str) -> list[str]:
    left = [p["metadata"]["name"] for p in phalanx.pods() if p["metadata"]["name"].split("-")[0] == name]
    if left:
        phalanx.cluster.kubectl_result("delete", "pod", *left, "--force", "--grace-period=0")
    return left
