"""Workloads of other kinds on a real control plane: their pods are one gang, or kubectl says what they are instead.

Super nodes sn1: n0 … n3, sn2: n4 … n6, sn3: n7 … n9, of 8 GPUs a node.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from foreign_kinds import served
from node_manifests import node_manifest
from system import Object, Phalanx, one_line
from test_doctor import doctor
from workload_operators import ROWS

from controlplane.control_plane import ControlPlane
from gangs.workloads.kind_table import WORKLOADS

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("definitions"), pytest.mark.long]

FILES = Path(__file__).parents[1] / "faults" / "kinds"
CLUSTER = ("topology-and-flavor", "pool")
GPU, LEVEL = "metax-tech.com/gpu", "kueue.x-k8s.io/podset-required-topology"
POLICY = "scheduling.run.ai/topology-policy"
SN1 = {"n0", "n1", "n2", "n3"}
DEFINED = {
    ("kubeflow.org", "PyTorchJob"): "v1",
    ("kubeflow.org", "MPIJob"): "v1",
    ("jobset.x-k8s.io", "JobSet"): "v1alpha2",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "v1",
    ("ray.io", "RayCluster"): "v1",
    ("serving.knative.dev", "Service"): "v1",
    ("batch.volcano.sh", "Job"): "v1alpha1",
}
"""Kinds of other projects, without their operators, and their versions."""
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/phalanx"


def document(name: str) -> Object:
    """Return the content of one of the example files."""
    found: Object = yaml.safe_load((FILES / f"{name}.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def definitions(control_plane: ControlPlane) -> Iterator[None]:
    """Serve the kinds of other projects until the module's tests are over."""
    with served(control_plane, DEFINED):
        yield


@pytest.fixture
def kinds(phalanx: Phalanx) -> Phalanx:
    """The pool of the Baize guide, and the kinds of other projects."""
    nodes = []
    for number in range(10):
        part = {"shanghai-cube/super-node": f"sn{1 if number < 4 else 2 if number < 7 else 3}"}
        made = node_manifest(f"n{number}", {**part, "metax-tech.com/driver.ready": "true"}, 64)
        made["status"] = {key: {**room, GPU: "8"} for key, room in made["status"].items()}
        nodes.append(made)
    phalanx.submit(*nodes)
    phalanx.cluster.await_nodes(f"n{number}" for number in range(10))
    phalanx.apply_files(*(FILES / f"{name}.yaml" for name in CLUSTER))
    return phalanx


def created(phalanx: Phalanx, manifest: Object, *, dry: bool = True) -> str:
    """Apply the object (a dry run if `dry`), and return the warnings and errors that kubectl prints."""
    options = ["--dry-run=server"] if dry else []
    answer = phalanx.cluster.kubectl_result("apply", *options, "-f", "-", stdin=yaml.safe_dump(manifest))
    return one_line(answer.stderr)


def spread(phalanx: Phalanx, start: str) -> list[str]:
    """Return the nodes of the pods whose names begin with `start`."""
    pods = [each for each in phalanx.pods() if each["metadata"]["name"].startswith(start)]
    return sorted(each["spec"].get("nodeName", "") for each in pods)


def await_spread(phalanx: Phalanx, start: str, count: int) -> list[str]:
    """Wait until so many of these pods run."""
    phalanx.wait(lambda: len(list(filter(None, spread(phalanx, start)))) == count, f"{count} pods {start}… to run")
    return spread(phalanx, start)


def operate(phalanx: Phalanx, name: str) -> None:
    """Make the pods of a PyTorchJob, as its operator does."""
    path = f"/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/{name}"
    job = phalanx.cluster.request("GET", path)
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name, "uid": job["metadata"]["uid"]}
    for role, part in job["spec"]["pytorchReplicaSpecs"].items():
        for index in range(part["replicas"]):
            pod = {"apiVersion": "v1", "kind": "Pod", **deepcopy(part["template"])}
            pod["metadata"] |= {
                "name": f"{name}-{role.lower()}-{index}",
                "ownerReferences": [{**owner, "controller": True}],
                "labels": {
                    **pod["metadata"].get("labels", {}),
                    "training.kubeflow.org/replica-type": role.lower(),
                    "training.kubeflow.org/replica-index": str(index),
                },
            }
            answer = phalanx.cluster.request("POST", "/api/v1/namespaces/default/pods", pod)
            assert answer["kind"] == "Pod", answer


def test_a_stateful_set_is_one_gang_in_its_super_node(kinds: Phalanx) -> None:
    manifest = document("kueue-statefulset-required")
    kinds.apply_once_told("gang default/st: 4 pods fit in sn1: n0..3, proven optimal", manifest)
    assert set(await_spread(kinds, "st-", 4)) == SN1
    status = kinds.await_phase("st", "Placed")
    assert (status["members"]["bound"], kinds.gang("st")["metadata"]["ownerReferences"][0]["kind"]) == (
        4,
        "StatefulSet",
    )
    kinds.cluster.kubectl("delete", "pod", "st-2")
    assert set(await_spread(kinds, "st-", 4)) == SN1
    kinds.cluster.kubectl("delete", "statefulset", "st")
    kinds.wait(lambda: not kinds.gang("st"), "the gang to go with its StatefulSet")


def test_a_pytorch_job_starts_whole_each_replica_spec_in_a_super_node(kinds: Phalanx) -> None:
    manifest = document("kueue-pytorchjob-template-queue")
    kinds.apply_once_told("gang default/bzq: 5 pods fit in sn1 and sn", manifest)
    operate(kinds, "bzq")
    await_spread(kinds, "bzq-", 5)
    assert set(spread(kinds, "bzq-worker-")) == SN1
    assert kinds.await_phase("bzq", "Placed")["members"]["bound"] == 5


def test_a_pytorch_job_that_names_a_queue_on_itself_is_a_gang_of_it(kinds: Phalanx) -> None:
    manifest = document("kueue-pytorchjob-template-queue")
    queued = {**manifest, "metadata": {**manifest["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "q"}}}
    for part in queued["spec"]["pytorchReplicaSpecs"].values():
        part["template"]["metadata"]["labels"] = {}
    kinds.apply_once_told("gang default/bzq: 5 pods fit in sn1 and sn", queued)
    operate(kinds, "bzq")
    await_spread(kinds, "bzq-", 5)
    assert kinds.await_phase("bzq", "Placed")["members"]["bound"] == 5
    part["template"]["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "other"}
    queued["metadata"]["name"] = "two"
    kinds.await_refusal('"other" differs from "q" of the PyTorchJob', queued)


def test_a_ray_cluster_that_names_a_queue_on_itself_is_a_gang_of_it(kinds: Phalanx) -> None:
    row = ROWS["RayCluster"]
    asks = "{requests: {" + GPU + ": 8}, limits: {" + GPU + ": 8}}"
    text = yaml.safe_dump(row.manifest()).replace("resources:\n", "resources: " + asks + "\n")
    manifest = yaml.safe_load(re.sub(r"\n +requests:\n +cpu: '1'", "", text))
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    kinds.apply_once_told("gang default/w: 4 pods fit in", manifest)
    stored = kinds.cluster.request("GET", "/apis/ray.io/v1/namespaces/default/rayclusters/w")
    for pod in row.pods(stored):
        assert kinds.cluster.request("POST", "/api/v1/namespaces/default/pods", pod)["kind"] == "Pod"
    await_spread(kinds, "w-", 4)
    status = kinds.await_phase("w", "Placed")
    assert (status["members"]["bound"], kinds.gang("w")["metadata"]["ownerReferences"][0]["kind"]) == (4, "RayCluster")


def test_the_pods_of_a_deployment_are_said_to_be_alone_and_its_remedy_makes_a_gang(kinds: Phalanx) -> None:
    manifest = document("kueue-deployment-required")
    said = (
        f"Deployment default/dt: spec.template.metadata.annotations[{LEVEL}]: holds for each pod alone, not for all "
        "together: as in Kueue the pods of a Deployment are admitted one by one; for one gang make a Gang with "
        "required: shanghai-cube/super-node and minMember, and label the pod template phalanx.dev/gang: <its name> "
        "instead"
    )
    kinds.wait(lambda: said in created(kinds, manifest), "kubectl to say so")
    own = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "dt", "namespace": "default"}}
    own["spec"] = {"minMember": 4, "required": "shanghai-cube/super-node"}
    manifest["spec"]["template"]["metadata"] = {"labels": {"app": "dt", "phalanx.dev/gang": "dt"}}
    kinds.submit(own, manifest)
    assert set(await_spread(kinds, "dt-", 4)) == SN1


def carrying(kind: str, key: str, place: str) -> Object:
    """A workload of no pods with a key on itself ("metadata") or on its pods' template. `kind`: with its group, where
    several have it.
    """
    at = "labels" if key in LABELS else "annotations"
    said = {at: {key: "x"}}
    template: Object = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "b"}]}}
    metadata: Object = {"name": "w", "namespace": "default"}
    if place == "metadata":
        metadata |= said
    else:
        template["metadata"].setdefault(at, {}).update(said[at])
    kind, _, group = kind.partition(".")
    group = group or next(group for group, name in WORKLOADS if name == kind)
    version = DEFINED.get((group, kind), "v1")
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": metadata,
        "spec": {"tasks": [{"template": template}]} if "volcano" in group else _spec(kind, template),
    }


def _spec(kind: str, template: Object) -> Object:
    template["spec"]["restartPolicy"] = "Never" if kind in ("Job", "CronJob") else "Always"
    selector = {"matchLabels": {"app": "w"}}
    specs: dict[str, Object] = {
        # paused: its ReplicaSet, with a copy of its annotations, would be counted whenever it comes
        "Deployment": {"selector": selector, "template": template, "replicas": 2, "paused": True},
        "Job": {"template": template},
        "CronJob": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
        "JobSet": {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"template": template}}}]},
        "LeaderWorkerSet": {"leaderWorkerTemplate": {"workerTemplate": template}},
        "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
        "MPIJob": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
        "RayCluster": {"workerGroupSpecs": [{"replicas": 2, "template": template}]},
        "Service": {"template": template},
    }
    return specs.get(kind, {"selector": selector, "template": template, "replicas": 2})


LABELS = ("pod-group.scheduling.sigs.k8s.io", "phalanx.dev/gang", "kueue.x-k8s.io/queue-name")
EVERY_KEY = (*LABELS, LEVEL, POLICY, "kai.scheduler/topology-required-placement", "gang.scheduling.koordinator.sh/name")
KINDS = ("Job", "CronJob", "StatefulSet", "Deployment", "ReplicaSet", *(f"{kind}.{group}" for group, kind in DEFINED))


def calls(phalanx: Phalanx) -> dict[str, float]:
    """How often the API server has called each validating webhook, by its own count."""
    metrics = str(phalanx.cluster.request("GET", "/metrics"))
    ours = r'[^}]*name="([^"]*phalanx[^"]*)"[^}]*type="validating"[^}]*'
    found: dict[str, float] = {}
    for name, count in re.findall(
        rf"^apiserver_admission_webhook_request_total\{{{ours}\}} (\S+)$", metrics, re.MULTILINE
    ):
        found[name] = found.get(name, 0) + float(count)
    return found


@pytest.mark.parametrize("place", ["metadata", "template"])
def test_every_key_on_every_kind_is_sent_once_and_other_workloads_never(kinds: Phalanx, place: str) -> None:
    for kind in KINDS:
        before = sum(calls(kinds).values())
        for key in EVERY_KEY:
            kinds.cluster.applier.create(carrying(kind, key, place), dry_run=True)
        after = sum(calls(kinds).values())
        assert after - before == len(EVERY_KEY), kind
        kinds.cluster.applier.create(carrying(kind, "example.com/key", place), dry_run=True)
        assert sum(calls(kinds).values()) == after, kind


MISPLACED = {
    "kai-deployment-policy-on-metadata": (
        f"Deployment default/dpol: metadata.annotations[{POLICY}]: does not reach the pods: write it at "
        f"spec.template.metadata.annotations[{POLICY}]"
    ),
    "kai-deployment-policy-on-template": (
        f"Deployment default/dpt: spec.template.metadata.annotations[{POLICY}]: places each pod alone: as in KAI "
        "Scheduler each pod of a Deployment is its own group; for one gang make a PodGroup with minMember, and write "
        "scheduling.run.ai/pod-group: <its name> on all its pod templates instead"
    ),
    "koordinator-keys-on-job-metadata": (
        "Job default/jm: metadata.labels[pod-group.scheduling.sigs.k8s.io]: does not reach the pods: write it at "
        "spec.template.metadata.labels[pod-group.scheduling.sigs.k8s.io]"
    ),
    "kai-pytorchjob-group-on-metadata": (
        "PyTorchJob default/kp: metadata.annotations[scheduling.run.ai/pod-group]: does not reach the pods: write it "
        "at spec.pytorchReplicaSpecs.*.template.metadata.annotations[scheduling.run.ai/pod-group]"
    ),
    "runai-knative": (
        "Service default/kn: metadata.annotations[kai.scheduler/topology]: a Service cannot be made a gang by "
        "annotations yet; write it on the pod template, with kai.scheduler/batch-min-member: <pods that must start "
        "together>"
    ),
}


def test_keys_in_the_wrong_place_are_told_at_apply(kinds: Phalanx) -> None:
    for name, text in MISPLACED.items():
        kinds.wait(lambda text=text, name=name: text in created(kinds, document(name)), text)  # type: ignore[misc]


def test_keys_that_come_to_a_workload_later_are_told(kinds: Phalanx) -> None:
    for kind in ("Job", "Deployment"):
        manifest = carrying(kind, "example.com/key", "metadata")
        assert created(kinds, manifest, dry=False) == ""
        assert one_line(kinds.cluster.kubectl_result("annotate", kind, "w", "example.com/other=x").stderr) == ""
        label = kinds.cluster.kubectl_result("label", kind, "w", "phalanx.dev/gang=g")
        said = f"{kind} default/w: metadata.labels[phalanx.dev/gang]: does not reach the pods: write it at "
        assert said in one_line(label.stderr)
        anew = ", in a Job made anew: the template of this one does not change"
        assert (anew in one_line(label.stderr)) == (kind == "Job")
    late = kinds.cluster.kubectl_result("annotate", "job", "w", "phalanx.dev/required=shanghai-cube/super-node")
    text = (
        "Job default/w: metadata.annotations: came too late: the Job was made without it or without Phalanx; delete it"
    )
    assert text in one_line(late.stderr)
    assert late.returncode == 0
    assert text in " ".join(doctor(kinds).stdout.split())


def test_nobody_answers_and_workloads_come_in_all_the_same(kinds: Phalanx) -> None:
    kinds.cluster.program("webhook").kill()
    assert created(kinds, document("kai-deployment-policy-on-metadata"), dry=False) == ""
    assert kinds.cluster.kubectl_result("label", "deployment", "dpol", "phalanx.dev/gang=g").returncode == 0
