"""The Baize guide's path: topology and flavor as the document has them, then Jobs in a queue of the pool.

super-node-1: node-0 … node-3        super-node-3: node-8 … node-10
super-node-2: node-4 … node-6, and node-7, whose driver is not ready
"""

import pytest
import yaml
from system import EXAMPLES, Object, Phalanx, all_bound

from controlplane.recording import WatchEvent, bound

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

GUIDE = EXAMPLES / "kueue"
POOL = ("nodes.yaml", "topology-and-flavor.yaml", "pool-and-queue.yaml")
GOES_ON = {"kwok.phalanx.dev/goes-on": "true"}
"""A Job's pod with this annotation runs until it is deleted; other pods end at once."""
GPU = "metax-tech.com/gpu"
QUOTA = (
    "waits for quota: the gang needs 8 metax-tech.com/gpu, and flavor tas-flavor of ClusterQueue metax-pool has 0 of "
    "72 left"
)


def waits_for_quota(phalanx: Phalanx, gang: str) -> bool:
    """Return whether the Gang waits for quota."""
    return str(phalanx.status(gang).get("message", "")).startswith(QUOTA)


def start(phalanx: Phalanx) -> None:
    """Apply the nodes, then the objects of the pool."""
    phalanx.apply_files(GUIDE / POOL[0])
    phalanx.cluster.await_nodes(f"node-{index}" for index in range(11))
    phalanx.apply_files(*(GUIDE / name for name in POOL[1:]))


def apply_job(phalanx: Phalanx, name: str) -> str:
    """Apply one of the guide's Jobs, as written but for the annotation."""
    manifest = yaml.safe_load((GUIDE / f"{name}.yaml").read_text(encoding="utf-8"))
    metadata = manifest["spec"]["template"]["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), **GOES_ON}
    return phalanx.apply(manifest)


def nodes_of_job(phalanx: Phalanx, job: str) -> list[str]:
    """The nodes of a Job's pods in the order of their indices; "" for a pod without one."""
    mine = [pod for pod in phalanx.pods() if pod["metadata"]["labels"].get("job-name") == job]
    index = "batch.kubernetes.io/job-completion-index"
    mine.sort(key=lambda pod: int(pod["metadata"]["annotations"][index]))
    return [pod["spec"].get("nodeName", "") for pod in mine]


def await_job(phalanx: Phalanx, job: str, count: int) -> list[str]:
    """Wait until all pods of a Job have nodes."""

    def all_there() -> bool:
        nodes = nodes_of_job(phalanx, job)
        return len(nodes) == count and all(nodes)

    phalanx.wait(all_there, f"{count} pods of {job} to be bound")
    return nodes_of_job(phalanx, job)


def await_queue(phalanx: Phalanx, columns: list[str]) -> None:
    """Wait until kubectl shows these columns of the LocalQueue: name, ClusterQueue, waiting gangs, released gangs."""

    def shown() -> list[str]:
        lines: str = phalanx.cluster.kubectl("get", "localqueue", "training", "--no-headers")
        return lines.split()[:4]

    phalanx.wait(lambda: shown() == columns, f"kubectl to show {columns}")


def job(name: str, size: int) -> Object:
    """A Job in the queue, of pods that take a node's GPUs each."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi", GPU: "8"}, "limits": {GPU: "8"}}
    container = {"name": "worker", "image": "busybox", "resources": resources}
    spec = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": GOES_ON}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "training"}},
        "spec": {"parallelism": size, "completions": size, "completionMode": "Indexed", "template": template},
    }


def test_the_guides_job_fills_the_super_node_that_holds_it_and_the_quota_holds_across_restarts(
    phalanx: Phalanx,
) -> None:
    start(phalanx)
    apply_job(phalanx, "llm-pretrain")
    assert await_job(phalanx, "llm-pretrain", 4) == ["node-0", "node-1", "node-2", "node-3"]
    assert phalanx.await_phase("llm-pretrain", "Placed")["flavors"] == ["tas-flavor"]
    apply_job(phalanx, "llm-sft")
    assert await_job(phalanx, "llm-sft", 5) == ["node-4", "node-5", "node-6", "node-8", "node-9"]
    apply_job(phalanx, "llm-tune")
    phalanx.wait(lambda: waits_for_quota(phalanx, "llm-tune"), "the Job to wait for quota")
    await_queue(phalanx, ["training", "metax-pool", "1", "2"])
    phalanx.cluster.program("controller").kill()
    phalanx.deployment.start_controller()
    phalanx.submit(job("after-the-restart", 1))
    phalanx.wait(
        lambda: phalanx.status("after-the-restart").get("message", "").startswith(QUOTA), "the new one to wait, too"
    )
    assert nodes_of_job(phalanx, "llm-tune") == [""]
    await_queue(phalanx, ["training", "metax-pool", "2", "2"])
    pool = phalanx.cluster.request("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/metax-pool")["status"]
    assert [each["name"] for each in pool["flavorsUsage"]] == ["tas-flavor"]
    assert {"name": GPU, "total": "72", "borrowed": "0"} in pool["flavorsUsage"][0]["resources"]
    assert [(each["type"], each["reason"]) for each in pool["conditions"]] == [("Active", "Ready")]
    phalanx.cluster.kubectl("delete", "job", "llm-pretrain", "after-the-restart")
    assert await_job(phalanx, "llm-tune", 1) == ["node-10"]


def test_in_a_queue_of_strict_order_a_job_that_fits_waits_for_an_older_one_that_does_not(phalanx: Phalanx) -> None:
    """The quota is 72; six pods of 8 run, four more wait, and two would fit."""
    start(phalanx)
    queue = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/metax-pool"
    strict = {"spec": {"queueingStrategy": "StrictFIFO"}}
    phalanx.cluster.request("PATCH", queue, strict, "application/merge-patch+json")
    phalanx.submit(job("running", 6))
    await_job(phalanx, "running", 6)
    phalanx.submit(job("older", 4))
    phalanx.wait(
        lambda: phalanx.status("older").get("message", "").startswith("waits for quota"), "the quota to be full"
    )
    phalanx.submit(job("younger", 2))
    waits = "waits for gang default/older, which is before it in ClusterQueue metax-pool (StrictFIFO)"
    phalanx.wait(lambda: phalanx.status("younger").get("message") == waits, "the younger to be told whom it waits for")
    phalanx.cluster.kubectl("delete", "job", "older")
    await_job(phalanx, "younger", 2)


def test_a_job_written_suspended_is_started_and_can_be_applied_again(phalanx: Phalanx) -> None:
    start(phalanx)
    apply_job(phalanx, "llm-pretrain")
    await_job(phalanx, "llm-pretrain", 4)
    before = {pod["metadata"]["uid"] for pod in phalanx.pods()}
    apply_job(phalanx, "llm-pretrain")
    phalanx.apply_files(*(GUIDE / name for name in POOL[1:]))
    found = phalanx.cluster.request("GET", "/apis/batch/v1/namespaces/default/jobs/llm-pretrain")
    assert found["spec"]["suspend"] is False
    assert {pod["metadata"]["uid"] for pod in phalanx.pods()} == before
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in phalanx.pods())


def test_files_come_in_any_order_and_what_is_not_there_yet_is_waited_for(phalanx: Phalanx) -> None:
    start(phalanx)
    phalanx.cluster.kubectl("delete", "clusterqueue,resourceflavor,topology.kueue.x-k8s.io", "--all")
    phalanx.apply_once_told("waits for ClusterQueue metax-pool", job("early", 2))
    phalanx.apply_files(GUIDE / "pool-and-queue.yaml")
    phalanx.wait(
        lambda: phalanx.status("early").get("message") == "waits for ResourceFlavor tas-flavor", "the flavor's name"
    )
    phalanx.apply_files(GUIDE / "topology-and-flavor.yaml")
    assert await_job(phalanx, "early", 2) == ["node-4", "node-5"]


def test_a_flavors_tolerations_come_with_the_release_and_its_labels_bound_the_nodes(phalanx: Phalanx) -> None:
    start(phalanx)
    for number in (4, 5, 6):
        phalanx.cluster.kubectl("taint", "node", f"node-{number}", "metax=reserved:NoSchedule")
        phalanx.cluster.kubectl("label", "node", f"node-{number}", "pool=reserved")
    reserved = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "reserved"},
        "spec": {
            "nodeLabels": {"pool": "reserved"},
            "nodeTaints": [{"key": "metax", "value": "reserved", "effect": "NoSchedule"}],
            "tolerations": [{"key": "metax", "operator": "Exists", "effect": "NoSchedule"}],
            "topologyName": "default",
        },
    }
    flavors = [{"name": name, "resources": [{"name": GPU, "nominalQuota": 24}]} for name in ("reserved", "tas-flavor")]
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "metax-pool"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [
                        {
                            "name": "any",
                            "resources": [
                                {"name": "cpu", "nominalQuota": 100},
                                {"name": "memory", "nominalQuota": "1Ti"},
                            ],
                        }
                    ],
                },
                {"coveredResources": [GPU], "flavors": flavors},
            ],
        },
    }
    anything = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "any"}}
    phalanx.submit(anything, reserved, queue, job("first", 3))
    assert await_job(phalanx, "first", 3) == ["node-4", "node-5", "node-6"]
    keys = [each.get("key") for each in phalanx.pods()[0]["spec"]["tolerations"]]
    assert keys.count("metax") == 1
    assert "node.kubernetes.io/not-ready" in keys
    phalanx.submit(job("second", 3))
    assert await_job(phalanx, "second", 3) == ["node-8", "node-9", "node-10"]
    assert phalanx.await_phase("second", "Placed")["flavors"] == ["any", "tas-flavor"]
    phalanx.submit(job("third", 4))
    never = phalanx.await_phase("third", "Unplaceable")["message"]
    assert never == "; ".join(
        f"needs 32 {GPU}, and flavor {name} of ClusterQueue metax-pool never has more than 24"
        for name in ("reserved", "tas-flavor")
    )


def test_plain_pods_of_a_group_start_together(phalanx: Phalanx) -> None:
    start(phalanx)

    def member(index: int) -> Object:
        spec = job("", 1)["spec"]["template"]["spec"]
        labels = {"kueue.x-k8s.io/queue-name": "training", "kueue.x-k8s.io/pod-group-name": "group"}
        labels["kueue.x-k8s.io/pod-group-pod-index"] = str(index)
        annotations = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        annotations["kueue.x-k8s.io/podset-required-topology"] = "shanghai-cube/super-node"
        metadata = {"name": f"member-{index}", "namespace": "default", "labels": labels, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    with phalanx.record() as recorder:
        phalanx.submit(member(1))
        assert phalanx.await_phase("group", "Waiting")["message"] == "waits for 1 more pod: 1 of 2 exist"
        phalanx.submit(member(0))
        events = recorder.wait_for(all_bound(["member-0", "member-1"]))
    assert [seen(events, f"member-{index}") for index in (0, 1)] == ["node-4", "node-5"]


def seen(events: list[WatchEvent], name: str) -> str:
    """The node that a pod was bound to."""
    return next(bound(event) for event in events if event.name == name and bound(event))


UNKNOWN_LEVEL = (
    'spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]: "rack" is not a level of '
    "Topology.kueue.x-k8s.io default; its levels are shanghai-cube/super-node (shanghai-cube/super-node), "
    "kubernetes.io/hostname (kubernetes.io/hostname)"
)
CONTRADICTION = (
    "spec.template.metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]: contradicts "
    "kueue.x-k8s.io/podset-preferred-topology; keep one of them"
)
LEVEL = "shanghai-cube/super-node"
REFUSED = {
    "an unknown level": ({"podset-required-topology": "rack"}, UNKNOWN_LEVEL),
    "any node and one level": (
        {"podset-unconstrained-topology": "true", "podset-preferred-topology": LEVEL},
        CONTRADICTION,
    ),
}


@pytest.mark.parametrize(("annotations", "answer"), REFUSED.values(), ids=REFUSED)
def test_kubectl_shows_what_is_wrong(phalanx: Phalanx, annotations: dict[str, str], answer: str) -> None:
    start(phalanx)
    wrong = job("wrong", 2)
    wrong["spec"]["template"]["metadata"] = {
        "annotations": {f"kueue.x-k8s.io/{key}": value for key, value in annotations.items()}
    }
    phalanx.await_refusal(f"Job default/wrong: {answer}", wrong)
