"""Gang objects in a queue of Kueue's, beside Jobs in the same one: on the nodes and with the pool of the Baize guide.

super-node-1: node-0 … node-3        super-node-3: node-8 … node-10
super-node-2: node-4 … node-6, and node-7, whose driver is not ready        the pool: 72 GPUs, 8 a node
"""

import pytest
from system import EXAMPLES, Object, Phalanx, one_line

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

GUIDE = EXAMPLES / "kueue"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
GOES_ON = {"kwok.phalanx.dev/goes-on": "true"}
GPU = "metax-tech.com/gpu"
SUPER_NODE = "shanghai-cube/super-node"
NO_QUOTA = (
    "waits for quota: the gang needs 8 metax-tech.com/gpu, and flavor tas-flavor of ClusterQueue metax-pool has 0 of "
    "72 left"
)


KUEUE: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "kueue-mutating-webhook-configuration"},
    "webhooks": [
        {
            "name": "mclusterqueue.kb.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"name": "kueue-webhook-service", "namespace": "kueue-system"}},
            "rules": [
                {
                    "apiGroups": ["kueue.x-k8s.io"],
                    "apiVersions": ["v1beta1"],
                    "operations": ["CREATE"],
                    "resources": ["workloads"],
                }
            ],
        }
    ],
}
"""The webhook configuration by which Kueue is detected. No process answers it: its kind is not used here."""


def gang(name: str, size: int, **spec: object) -> Object:
    """A Gang in the queue."""
    metadata = {"name": name, "namespace": "default"}
    spec = {"minMember": size, "queue": "training", **spec}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": spec}


def template(gang: str = "", queue: str = "") -> Object:
    """Pods that take a node's GPUs each, in a Gang, or in a queue of their own, or both."""
    labels = {"phalanx.dev/gang": gang, QUEUE_NAME: queue}
    container = {"name": "worker", "image": "busybox", "resources": {"limits": {GPU: "8"}}}
    metadata = {"labels": {key: value for key, value in labels.items() if value}, "annotations": GOES_ON}
    return {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}


def job(name: str, size: int, gang: str = "", queue: str = "") -> Object:
    """Return a Job of such pods. With a queue and no gang it is a gang of Kueue's dialect."""
    own = {QUEUE_NAME: queue} if queue else {}
    spec = {"parallelism": size, "completions": size, "completionMode": "Indexed", "template": template(gang)}
    metadata = {"name": name, "namespace": "default", "labels": own}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def start(phalanx: Phalanx) -> None:
    """Create the guide's nodes, and the pool without its queue."""
    phalanx.apply_files(GUIDE / "nodes.yaml")
    phalanx.cluster.await_nodes(f"node-{index}" for index in range(11))
    phalanx.apply_files(GUIDE / "topology-and-flavor.yaml")


def nodes_of(phalanx: Phalanx, job: str) -> list[str]:
    """The nodes of a Job's pods; "" for a pod without one."""
    mine = [pod for pod in phalanx.pods() if pod["metadata"]["labels"].get("job-name") == job]
    return sorted(pod["spec"].get("nodeName", "") for pod in mine)


def await_nodes(phalanx: Phalanx, job: str, count: int) -> list[str]:
    """Wait until all pods of a Job have nodes."""

    def all_there() -> bool:
        nodes = nodes_of(phalanx, job)
        return len(nodes) == count and all(nodes)

    phalanx.wait(all_there, f"{count} pods of {job} to be bound")
    return nodes_of(phalanx, job)


def await_message(phalanx: Phalanx, gang: str, message: str) -> None:
    """Wait until the Gang's message begins with this text."""
    phalanx.wait(lambda: phalanx.status(gang).get("message", "").startswith(message), f"{gang} to say {message}")


def await_counts(phalanx: Phalanx, waiting: str, running: str) -> None:
    """Wait until kubectl shows these numbers for the LocalQueue."""

    def shown() -> list[str]:
        lines: str = phalanx.cluster.kubectl("get", "localqueue", "training", "--no-headers")
        return lines.split()[:4]

    phalanx.wait(lambda: shown() == ["training", "metax-pool", waiting, running], "kubectl to show the queue")


def test_gangs_and_jobs_share_one_quota_and_give_it_back(phalanx: Phalanx) -> None:
    start(phalanx)
    told = one_line(phalanx.apply(gang("llm", 4, required=SUPER_NODE)))
    assert "is a label and charges nothing: there is no queue training in default" in told
    phalanx.apply_files(GUIDE / "pool-and-queue.yaml")
    phalanx.submit(job("llm", 4, gang="llm", queue="training"))
    assert await_nodes(phalanx, "llm", 4) == ["node-0", "node-1", "node-2", "node-3"]
    assert phalanx.await_phase("llm", "Placed")["flavors"] == ["tas-flavor"]
    phalanx.submit(job("jobs", 5, queue="training"))
    await_nodes(phalanx, "jobs", 5)
    phalanx.submit(gang("late", 1), job("late", 1, gang="late"))
    await_message(phalanx, "late", NO_QUOTA)
    await_counts(phalanx, "1", "2")
    phalanx.cluster.program("controller").kill()
    phalanx.deployment.start_controller()
    phalanx.submit(job("later", 1, queue="training"))
    await_message(phalanx, "later", NO_QUOTA)
    assert (nodes_of(phalanx, "late"), nodes_of(phalanx, "later")) == ([""], [""])
    pool = phalanx.cluster.request("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/metax-pool")["status"]
    assert {"name": GPU, "total": "72", "borrowed": "0"} in pool["flavorsUsage"][0]["resources"]
    phalanx.cluster.kubectl("delete", "job/llm", "gang/llm")
    assert [len(await_nodes(phalanx, each, 1)) for each in ("late", "later")] == [1, 1]
    await_counts(phalanx, "0", "3")


def test_a_gang_waits_for_its_queue_and_for_its_turn_in_it(phalanx: Phalanx) -> None:
    """In a strict queue an older Gang waits for quota. No younger gang passes it, even if that gang would fit."""
    start(phalanx)
    phalanx.apply_files(GUIDE / "pool-and-queue.yaml")
    queue = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/metax-pool"
    strict = {"spec": {"queueingStrategy": "StrictFIFO"}}
    phalanx.cluster.request("PATCH", queue, strict, "application/merge-patch+json")
    phalanx.submit(job("running", 6, queue="training"))
    await_nodes(phalanx, "running", 6)
    phalanx.submit(gang("older", 4), job("older", 4, gang="older"))
    phalanx.wait(lambda: phalanx.status("older").get("message", "").startswith("waits for quota"), "no quota for it")
    phalanx.submit(job("younger", 2, queue="training"))
    waits = "waits for gang default/older, which is before it in ClusterQueue metax-pool (StrictFIFO)"
    await_message(phalanx, "younger", waits)
    elsewhere = gang("astray", 1, queue="nowhere")
    assert "waits for LocalQueue default/nowhere" in one_line(phalanx.apply(elsewhere))
    phalanx.submit(job("astray", 1, gang="astray"))
    await_message(phalanx, "astray", "waits for LocalQueue default/nowhere")
    differs = '"z" differs from "training", the queue of Gang default/older (spec.queue)'
    phalanx.await_refusal(differs, job("other", 1, gang="older", queue="z"))
    phalanx.cluster.kubectl("delete", "job/older", "gang/older")
    await_nodes(phalanx, "younger", 2)


def test_where_kueue_itself_runs_a_gang_waits_until_its_queues_are_adopted(phalanx: Phalanx) -> None:
    """A gang that has started stays with Phalanx to its end, including the replacement of a member."""
    start(phalanx)
    phalanx.apply_files(GUIDE / "pool-and-queue.yaml")
    phalanx.apply_once_told("waits for 2 more pods", gang("begun", 2))
    phalanx.submit(job("begun", 2, gang="begun"))
    await_nodes(phalanx, "begun", 2)
    phalanx.submit(KUEUE)
    waits = "queue default/training to be counted by Phalanx: it is left to Kueue, which runs in this cluster"
    phalanx.apply_once_told(waits, gang("late", 1))
    phalanx.submit(job("late", 1, gang="late"))
    phalanx.wait(lambda: waits in phalanx.status("late").get("message", ""), "it to wait")
    victim = next(pod for pod in phalanx.pods() if pod["metadata"]["labels"].get("job-name") == "begun")
    phalanx.cluster.kubectl("delete", "pod", victim["metadata"]["name"])
    await_nodes(phalanx, "begun", 2)
    assert nodes_of(phalanx, "late") == [""]
    phalanx.cluster.kubectl("annotate", "mutatingwebhookconfiguration", "zz-phalanx", "phalanx.dev/adopt=kueue")
    await_nodes(phalanx, "late", 1)
