"""The KAI guide's steps, applied as its document has them.

gpu-zone-1
├── rack-a: dgx-h100-01, dgx-h100-02 (8 GPUs, NVSwitch)
├── rack-b: dgx-h100-03, dgx-h100-04 (8 GPUs, NVSwitch)
└── rack-c: hgx-a100-01 (4 GPUs, NVLink without NVSwitch), l40s-01 (8 GPUs, PCIe)
"""

import json
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
import yaml
from system import EXAMPLES, Object, Phalanx, scheduled_message

from controlplane.control_plane import wait_until

pytestmark = pytest.mark.controlplane

KAI = EXAMPLES / "kai"
NODES = [*(f"dgx-h100-0{number}" for number in range(1, 5)), "hgx-a100-01", "l40s-01"]
TRAINING, INFERENCE = "ml-training", "ml-inference"
PATIENCE = 300.0


def _is_gone(phalanx: Phalanx, path: str) -> bool:
    return bool(phalanx.cluster.request("GET", path).get("code") == HTTPStatus.NOT_FOUND)


class Guide:
    """The guide's cluster, and the steps of its reader."""

    def __init__(self, phalanx: Phalanx) -> None:
        self.phalanx = phalanx
        for name in ("kai-scheduler", TRAINING, INFERENCE):
            path = f"/api/v1/namespaces/{name}"
            wait_until(partial(_is_gone, phalanx, path), PATIENCE, f"{name} to go")
        self.apply("nodes.yaml", "namespaces.yaml")
        phalanx.cluster.await_nodes(NODES)

    def apply(self, *names: str) -> str:
        """`kubectl apply` of the guide's files; returns what kubectl prints, warnings included and made one line."""
        told = ""
        for name in names:
            answer = self.phalanx.cluster.kubectl_result("apply", "-f", str(KAI / name))
            assert answer.returncode == 0, answer.stderr
            told += answer.stdout + answer.stderr
        return told.replace("\nWarning: ", " ")

    def pods(self, namespace: str) -> list[Object]:
        """The pods of a namespace."""
        found: list[Object] = self.phalanx.cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found

    def nodes(self, namespace: str, group: str) -> list[str]:
        """Where the pods of a gang run; "" for each that has no node."""
        mine = [p for p in self.pods(namespace) if p["metadata"]["labels"].get("phalanx.dev/gang") == group]
        return [pod["spec"].get("nodeName", "") for pod in mine]

    def await_nodes(self, namespace: str, group: str, count: int) -> list[str]:
        """Wait until so many pods of the gang have nodes, and return the nodes in order."""

        def bound() -> bool:
            found = self.nodes(namespace, group)
            return len(found) == count and all(found)

        self.phalanx.wait(bound, f"{count} pods of {group} to be bound")
        return sorted(self.nodes(namespace, group))

    def await_message(self, namespace: str, pod: str, text: str) -> None:
        """Wait until the pod, which is still gated, has this message."""

        def said() -> bool:
            found = self.phalanx.cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
            gated = found["spec"].get("schedulingGates") == [{"name": "phalanx.dev/gang"}]
            return gated and text in scheduled_message(found)

        self.phalanx.wait(said, f"{pod} to say {text!r}")

    def gang(self, namespace: str, name: str) -> dict[str, Any]:
        """A Gang object."""
        path = f"/apis/phalanx.dev/v1alpha1/namespaces/{namespace}/gangs/{name}"
        found: dict[str, Any] = self.phalanx.cluster.request("GET", path)
        return found

    def await_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait until a PodGroup of the trainings shows a phase and its gang's words; return its status."""
        path = f"/apis/scheduling.run.ai/v2/namespaces/{TRAINING}/podgroups/{name}"

        def status() -> dict[str, Any]:
            found: dict[str, Any] = self.phalanx.cluster.request("GET", path).get("status") or {}
            return found

        self.phalanx.wait(
            lambda: status().get("phase") == phase and bool(status().get("conditions")), f"{name} {phase}"
        )
        return status()

    def config(self, change: str, to: str) -> str:
        """The guide's ConfigMap with one line of it changed."""
        manifest = yaml.safe_load((KAI / "tas-config.yaml").read_text())
        text = manifest["data"]["config.yaml"]
        assert change in text
        manifest["data"]["config.yaml"] = text.replace(change, to)
        return yaml.safe_dump(manifest)

    def configure(self, change: str, to: str) -> None:
        """Apply it."""
        self.phalanx.apply(yaml.safe_load(self.config(change, to)))


@pytest.mark.long
def test_the_guide_step_by_step(phalanx: Phalanx) -> None:
    guide = Guide(phalanx)
    # Step 3: the node's labels, written as the guide writes them and by kubectl label
    guide.apply("node-labels/topology-labels.yaml")
    labels = ("nvidia.com/nvswitch.present=true", "gpu.topology/interconnect=nvswitch")
    phalanx.cluster.kubectl("label", "node", "dgx-h100-01", *labels)
    # Step 4: no restart is needed; admission warns about levels that it cannot place by
    told = guide.apply("tas-config.yaml")
    for level in ("gpu", "numa-node"):
        assert f'"{level}" lies below the node: it counts for ResourceClaims' in told
    # Step 5: 4 pods of 2 GPUs fill one node
    told = guide.apply("topology-aware-training.yaml")
    assert "gang ml-training/ddp-training-tas: waits for 4 more pods: 0 of 4 exist" in told
    (node,) = set(guide.await_nodes(TRAINING, "ddp-training-tas", 4))
    assert node.startswith("dgx-h100")
    written = next(yaml.safe_load_all((KAI / "topology-aware-training.yaml").read_text()))["spec"]
    for version in ("v2", "v2alpha2"):
        path = f"/apis/scheduling.run.ai/{version}/namespaces/{TRAINING}/podgroups/ddp-training-tas"
        assert phalanx.cluster.request("GET", path)["spec"] == written
    # Step 6: one pod of two waits; the second completes the gang, in the rack that still has two nodes
    guide.apply("multi-node-tas.yaml")
    guide.await_message(TRAINING, "trainer-node-0", "waits for 1 more pod: 1 of 2 exist")
    guide.phalanx.wait(
        lambda: (
            guide.await_phase("multi-node-training", "Pending")["conditions"][0]["message"]
            == "waits for 1 more pod: 1 of 2 exist"
        ),
        "the PodGroup to say so, too",
    )
    guide.apply("complete/trainer-node-1.yaml")
    taken = guide.await_nodes(TRAINING, "multi-node-training", 2)
    assert guide.await_phase("multi-node-training", "Running")["running"] == 2
    racks = [["dgx-h100-01", "dgx-h100-02"], ["dgx-h100-03", "dgx-h100-04"]]
    assert [taken] == [rack for rack in racks if node not in rack]
    for name in ("tas-config.yaml", "multi-node-tas.yaml"):
        guide.apply(name)
        difference = phalanx.cluster.kubectl_result("diff", "-f", str(KAI / name))
        assert (difference.returncode, difference.stdout) == (0, "")
    # Step 7: two pods of three wait; the router completes the pipeline on one node
    guide.apply("disaggregated-serving.yaml")
    guide.await_message(INFERENCE, "prefill-worker", "waits for 1 more pod: 2 of 3 exist")
    guide.await_message(INFERENCE, "decode-worker", "waits for 1 more pod: 2 of 3 exist")
    guide.apply("complete/router.yaml")
    serving = set(guide.await_nodes(INFERENCE, "llm-serving-pipeline", 3))
    assert len(serving) == 1
    assert serving <= {each for rack in racks for each in rack} - set(taken)
    sets = {each["name"] for each in guide.gang(INFERENCE, "llm-serving-pipeline")["spec"]["podSets"]}
    assert sets == {"main", "prefill", "decode"}
    # Step 9: a small job leaves the NVSwitch nodes alone
    guide.apply("benchmark-topology.yaml")
    assert guide.await_nodes(TRAINING, "nccl-benchmark", 1) == ["hgx-a100-01"]
    # Step 8: events tell what was decided about the topology
    for words in (("4 pods fit on", "required nvlink-domain"), ("2 pods fit in gpu-zone-1/rack-",)):
        phalanx.wait(partial(is_told_of_topology, phalanx, *words), f"an event that says {words}")


def is_told_of_topology(phalanx: Phalanx, *words: str) -> bool:
    """Return whether an event about the topology holds all these words."""
    return bool(told_of_topology(phalanx, *words))


def told_of_topology(phalanx: Phalanx, *words: str) -> list[str]:
    """The lines of `kubectl get events` about the topology that hold all these words."""
    listed = phalanx.cluster.kubectl("get", "events", "-n", TRAINING).splitlines()
    return [line for line in listed if "topology" in line.lower() and all(each in line for each in words)]


@pytest.mark.long
def test_the_configmap_is_read_live(phalanx: Phalanx) -> None:
    guide = Guide(phalanx)
    guide.configure("enabled: true", "enabled: false")
    # switched off, the members start together and the scope counts for nothing: two nodes of 8 GPUs hold 4 pods of 4
    pod_group, job = yaml.safe_load_all((KAI / "topology-aware-training.yaml").read_text())
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 4
    off = "has no effect: topologyAwareScheduling.enabled is false in ConfigMap kai-scheduler/kai-scheduler-config"
    phalanx.apply_once_told(off, pod_group)
    phalanx.submit(job)
    assert len(set(guide.await_nodes(TRAINING, "ddp-training-tas", 4))) == 2
    phalanx.cluster.kubectl(
        "delete", "-n", TRAINING, "job/ddp-nvlink-training", "podgroups.scheduling.run.ai/ddp-training-tas"
    )
    phalanx.wait(lambda: not guide.pods(TRAINING), "the pods to go")
    # a wrong text is refused where it is written
    wrong = phalanx.cluster.kubectl_result("apply", "-f", "-", stdin=guide.config("strategy: prefer", "strategy: like"))
    assert wrong.returncode != 0
    assert 'policies[2].strategy: "like" is not known; write pack or prefer' in wrong.stderr
    misspelt = (KAI / "benchmark-topology.yaml").read_text().replace("nvlink-locality", "nvlink-localty")
    # switched on again, 16 GPUs are more than any NVLink domain has
    guide.configure("enabled: true", "enabled: true")
    phalanx.submit(pod_group, job)
    phalanx.wait(lambda: "needs 4 pods in one nvlink-domain" in json.dumps(guide.pods(TRAINING)), "the pods to say why")
    assert not any(guide.nodes(TRAINING, "ddp-training-tas"))
    unknown = '"nvlink-localty" is not a policy of ConfigMap kai-scheduler/kai-scheduler-config'
    phalanx.await_refusal(unknown, *yaml.safe_load_all(misspelt))


NETWORK = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "network"},
    "spec": {"levels": [{"nodeLabel": "topology.kubernetes.io/zone"}, {"nodeLabel": "topology.kubernetes.io/rack"}]},
}
"""zone > rack > node."""


@pytest.mark.long
def test_subgroups_have_minimums_and_places_of_their_own(phalanx: Phalanx) -> None:
    guide = Guide(phalanx)
    rack = {"topology": "network", "requiredTopologyLevel": "rack"}
    parts = [{"name": name, "minMember": 2, "topologyConstraint": rack} for name in ("prefill", "decode")]
    spec = {"minMember": 4, "subGroups": parts}
    metadata = {"name": "serve", "namespace": TRAINING}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    phalanx.submit(NETWORK, group)
    for name in ("prefill", "decode"):
        for number in (0, 1):
            phalanx.submit(server(f"{name}-{number}", name))
            if (name, number) == ("decode", 0):
                guide.await_message(TRAINING, "prefill-0", "waits for 1 more pod")
    taken = guide.await_nodes(TRAINING, "serve", 4)
    assert taken == [f"dgx-h100-0{number}" for number in range(1, 5)]
    nodes = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in guide.pods(TRAINING)}
    racks = [{nodes["prefill-0"], nodes["prefill-1"]}, {nodes["decode-0"], nodes["decode-1"]}]
    assert sorted(map(sorted, racks)) == [["dgx-h100-01", "dgx-h100-02"], ["dgx-h100-03", "dgx-h100-04"]]
    phalanx.await_refusal(
        '"router" is no subgroup of PodGroup ml-training/serve that pods join; write one of prefill, decode',
        server("router", "router"),
    )


def server(name: str, part: str) -> Object:
    """A pod of 8 GPUs that joins a subgroup, as KAI Scheduler's own users write it."""
    limits = {"nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    metadata = {
        "name": name,
        "namespace": TRAINING,
        "annotations": {"pod-group-name": "serve"},
        "labels": {"kai.scheduler/subgroup-name": part},
    }
    spec = {"schedulerName": "kai-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown scope": (
        {"spec": {"minMember": 2, "topologyPolicy": {"scope": "nvlink"}}},
        (
            'spec.topologyPolicy.scope: "nvlink" is not a scope; '
            "the scopes are gpu, numa-node, node, nvlink-domain, rack, zone"
        ),
    ),
    "no minimum": (
        {"spec": {"queue": "training"}},
        "spec.minMember: is missing; write the number of pods that must start together",
    ),
    "an operator nobody knows": (
        {"spec": {"minMember": 2, "topologyPolicy": {"affinity": {"required": [{"key": "a", "operator": "Is"}]}}}},
        (
            'spec.topologyPolicy.affinity.required[0].operator: "Is" is not known; '
            "write one of In, NotIn, Exists, DoesNotExist, Gt, Lt"
        ),
    ),
}


@pytest.mark.long
def test_wrong_groups_are_refused_by_kubectl_in_both_versions(phalanx: Phalanx) -> None:
    job = next(yaml.safe_load_all((KAI / "benchmark-topology.yaml").read_text()))
    annotations = job["spec"]["template"].pop("metadata")["annotations"]
    job["metadata"] = {"name": "wrong", "namespace": "default", "annotations": annotations}
    result = phalanx.cluster.kubectl_result("apply", "-f", "-", stdin=yaml.safe_dump(job))
    assert result.returncode != 0
    assert "does not reach the pods; write it at spec.template.metadata.annotations" in result.stderr
    metadata = {"name": "wrong", "namespace": "default"}
    for version in ("v2", "v2alpha2"):
        for part, answer in REFUSED.values():
            manifest = {"apiVersion": f"scheduling.run.ai/{version}", "kind": "PodGroup", "metadata": metadata, **part}
            result = phalanx.cluster.kubectl_result("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
            assert result.returncode != 0
            assert f"PodGroup default/wrong: {answer}" in result.stderr
