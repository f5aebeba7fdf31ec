"""A TrainJob by Phalanx's keys and others': Kubeflow's Trainer makes a JobSet of it and of its runtime, the gang.

Both are the real ones, and so is the runtime, from the Trainer's module. Racks r1: n0 … n3, r2: n4 … n6. A pod fills a
node, so that a gang of four fits in r1 alone.
"""

import json
from collections.abc import Iterator

import pytest
import yaml
from asking import DIALECTS, RACK, dialects, too_many
from replaced import delete_and_await_nothing, delete_and_await_successor
from system import Object, Phalanx, pod, unschedulable
from two_racks import apply_two_racks

from controlplane import operators
from controlplane.control_plane import ControlPlane
from controlplane.operator_processes import Running, running
from controlplane.recording import bound
from controlplane.running.stages import GOES_ON
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import PLACEHOLDER

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

R1 = ["n0", "n1", "n2", "n3"]
RUNTIME = "manifests/base/runtimes/torch_distributed.yaml"
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/w"
RANK = "batch.kubernetes.io/job-completion-index"


@pytest.fixture(scope="module")
def both(control_plane: ControlPlane) -> Iterator[tuple[Running, Running]]:
    """The operators of JobSets and TrainJobs."""
    with running(control_plane, "jobset") as job_sets, running(control_plane, "trainer") as trainer:
        yield job_sets, trainer


@pytest.fixture
def dialect() -> str:
    """The system whose keys are used, unless a test sets another one."""
    return "ours"


@pytest.fixture
def racks(both: tuple[Running, Running], phalanx: Phalanx, dialect: str) -> Phalanx:
    """Seven nodes in two racks, a topology over them, the operators' webhooks and a runtime whose pods go on.

    Kueue's keys name the level where the pod templates are, and those of a TrainJob are its runtime's.
    """
    for each in both:
        each.register()
    runtime = yaml.safe_load((operators.source("trainer") / RUNTIME).read_text())
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    level = {"kueue.x-k8s.io/podset-required-topology": RACK} if dialect == "Kueue's" else {}
    job["template"]["spec"]["template"]["metadata"] = {"annotations": {GOES_ON: "true", **level}}
    apply_two_racks(phalanx, 7, dialect).apply(runtime)
    return phalanx


def train_job(nodes: int, dialect: str = "ours") -> Object:
    """Return a TrainJob of this number of pods in one rack, of which each fills a node."""
    found: Object = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": nodes, "resourcesPerNode": {"requests": {"cpu": "6"}}},
        },
    }
    DIALECTS[dialect](found)
    return found


STEP = "dataset-initializer"


def with_initializer() -> Object:
    """The runtime, with a step before the training that it waits for: as the Trainer's own runtimes for fine-tuning."""
    found: Object = yaml.safe_load((operators.source("trainer") / RUNTIME).read_text())
    found["metadata"]["name"] = "initialized"
    (training,) = found["spec"]["template"]["spec"]["replicatedJobs"]
    training["template"]["spec"]["template"]["metadata"] = {"annotations": {GOES_ON: "true"}}
    training["dependsOn"] = [{"name": STEP, "status": "Complete"}]
    container = {"name": STEP, "image": "b", "resources": {"requests": {"cpu": "1"}}}
    pods = {"metadata": {"annotations": {GOES_ON: "true"}}, "spec": {"containers": [container]}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": STEP}
    before = {"name": STEP, "template": {"metadata": {"labels": labels}, "spec": {"template": pods}}}
    found["spec"]["template"]["spec"]["replicatedJobs"] = [before, training]
    return found


def placeholders(phalanx: Phalanx) -> list[str]:
    """Return the nodes on which capacity is reserved for expected pods."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods?labelSelector={PLACEHOLDER}"
    return sorted(each["status"].get("nominatedNodeName", "") for each in phalanx.cluster.request("GET", path)["items"])


def nodes(phalanx: Phalanx) -> list[str]:
    """Where its pods are, in the order of their ranks."""
    of = [(int(each["metadata"]["labels"][RANK]), each["spec"].get("nodeName", "")) for each in phalanx.pods()]
    return [node for _, node in sorted(of)]


@dialects
def test_its_job_set_starts_whole_is_mended_and_goes_with_it(racks: Phalanx, dialect: str) -> None:
    wanted = train_job(4, dialect)
    with racks.record() as recorder:
        racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3, proven optimal", wanted)
        racks.wait(lambda: nodes(racks) == R1, "all pods to be bound, in the order of their ranks")
        events = recorder.events
    complete = [number for number, event in enumerate(events) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in events[:complete])
    racks.await_phase("w", "Placed")
    stored = racks.cluster.request("GET", PATH)
    assert stored["spec"].get("annotations") == wanted["metadata"].get("annotations")
    (owner,) = racks.gang("w")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("JobSet", "w")

    if dialect == "ours":  # a Job waits ten seconds before it makes a pod again
        deleted = next(each for each in racks.pods() if each["spec"]["nodeName"] == "n2")
        delete_and_await_successor(racks, deleted, R1)
    assert nodes(racks) == R1, "in the order of their ranks, as before"
    delete_and_await_nothing(racks, lambda: racks.cluster.request("DELETE", PATH, {"propagationPolicy": "Background"}))


@dialects
def test_one_pod_too_many_and_none_starts(racks: Phalanx, dialect: str) -> None:
    wanted = train_job(5, dialect)
    said = too_many(dialect)
    with racks.record() as recorder:
        racks.apply_once_told(said, wanted)
        assert said in racks.await_phase("w", "Unplaceable")["message"]
        events = recorder.events
    assert not any(bound(event) for event in events)
    assert len(racks.pods()) == 5
    assert all(each["spec"]["schedulingGates"] for each in racks.pods())


def test_a_queue_for_its_job_set_is_none_but_that_on_itself(racks: Phalanx) -> None:
    wanted = train_job(4, "Kueue's")
    wanted["spec"]["labels"] = {"kueue.x-k8s.io/queue-name": "other"}
    racks.await_refusal('is "other", but the TrainJob itself says "q"; remove one of the two', wanted)


def test_the_room_of_the_training_is_held_while_its_data_are_fetched(racks: Phalanx) -> None:
    """Both steps are one gang: the initializer's pod runs beside a node's pod, in the same rack."""
    racks.submit(with_initializer())
    wanted = train_job(4)
    wanted["spec"] |= {
        "runtimeRef": {"name": "initialized"},
        "initializer": {"dataset": {"storageUri": "hf://some/data"}},
    }
    racks.apply_once_told("gang default/w: 5 pods fit in r1: n0..3, proven optimal", wanted)
    racks.wait(lambda: placeholders(racks) == R1, "room to be held for the training")
    racks.wait(lambda: [bool(each["spec"].get("nodeName")) for each in racks.pods()] == [True], "the first step to run")
    rivals = [f"rival-{number}" for number in range(4)]
    at = ({"kubernetes.io/hostname": node} for node in R1)
    racks.submit(*(pod(name, cpu=6, nodeSelector=where) for name, where in zip(rivals, at, strict=True)))
    racks.wait(lambda: all(unschedulable(racks.pod(each)) for each in rivals), "the rivals to be turned away")
    (first,) = (each["metadata"]["name"] for each in racks.pods() if each["metadata"]["name"] not in rivals)
    racks.wait(lambda: racks.pod(first)["status"]["phase"] == "Running", "its pod to run")
    done = json.dumps({"status": {"phase": "Succeeded"}})
    racks.cluster.kubectl("patch", "pod", first, "--subresource=status", "--type=merge", "-p", done)

    def trained() -> list[str]:
        mine = (each for each in racks.pods() if each["metadata"]["name"] not in (first, *rivals))
        return [
            node
            for _, node in sorted((int(p["metadata"]["labels"][RANK]), p["spec"].get("nodeName", "")) for p in mine)
        ]

    racks.wait(lambda: trained() == R1, "the training to run where its room was held")
    racks.wait(lambda: not placeholders(racks), "no placeholder to be left")
    assert not any(racks.nodes_of(rivals).values())
    racks.await_phase("w", "Placed")
