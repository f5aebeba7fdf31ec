"""One replicated job of a JobSet is a gang, by a Gang object that its pod template names. Others start as usual.

Racks r1: n0 … n3, r2: n4 … n6. A pod of the gang fills most of a node, the driver asks for little. The JobSet
controller is the real one.
"""

import pytest
import yaml
from system import Object, Phalanx
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane.operator_processes import Running
from controlplane.recording import bound
from kube.keys import GANG, GATE

pytestmark = pytest.mark.controlplane

R1 = {"n0", "n1", "n2", "n3"}
TRAINERS = {f"w-nodes-0-{index}" for index in range(4)}


@pytest.fixture
def racks(jobset: Running, phalanx: Phalanx) -> Phalanx:
    """Seven nodes in two racks, a topology over them, and the operator's webhooks."""
    jobset.register()
    return apply_two_racks(phalanx, 7)


def gang(pods: int) -> Object:
    """Return a Gang of so many pods in one rack."""
    metadata = {"name": "trainers", "namespace": "default"}
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": metadata,
        "spec": {"minMember": pods, "required": "rack"},
    }


def job_set(trainers: int) -> Object:
    """Return a JobSet with a driver of no gang, and so many pods of the gang."""
    found: Object = yaml.safe_load(yaml.safe_dump(ROWS["JobSet"].manifest(), sort_keys=False))
    found["metadata"].pop("annotations", None)
    _, nodes = found["spec"]["replicatedJobs"]
    spec = nodes["template"]["spec"]
    spec["parallelism"] = spec["completions"] = trainers
    spec["template"]["metadata"].setdefault("labels", {})[GANG] = "trainers"
    for container in spec["template"]["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": "6"}}
    return found


def of_job_set(phalanx: Phalanx) -> dict[str, Object]:
    """Return the JobSet's pods by name, without the random ends of the names."""
    return {each["metadata"]["name"].rpartition("-")[0]: each for each in phalanx.pods()}


def nodes(phalanx: Phalanx) -> dict[str, str]:
    """Where they run, those that do."""
    return {name: node for name, each in of_job_set(phalanx).items() if (node := each["spec"].get("nodeName"))}


@pytest.mark.long
def test_its_pods_start_together_in_a_rack_and_the_driver_does_not_wait(racks: Phalanx) -> None:
    with racks.record() as recorder:
        racks.submit(gang(4), job_set(4))
        racks.wait(lambda: set(nodes(racks)) == {"w-driver-0-0", *TRAINERS}, "all pods to be bound")
        events = [each for each in recorder.events if each.name.startswith("w-nodes-")]
    complete = [number for number, event in enumerate(events) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in events[:complete]), "some started before all were there"
    assert {node for name, node in nodes(racks).items() if name in TRAINERS} == R1
    racks.await_phase("trainers", "Placed")
    assert not racks.gang("w"), "the JobSet as a whole is none"
    racks.cluster.kubectl("delete", "jobset", "w", "--wait=false")
    racks.wait(lambda: not racks.pods(), "its pods to go")


@pytest.mark.long
def test_one_too_many_and_none_of_them_starts_but_the_driver_does(racks: Phalanx) -> None:
    with racks.record() as recorder:
        racks.submit(gang(5), job_set(5))
        message = racks.await_phase("trainers", "Unplaceable")["message"]
        racks.wait(lambda: "w-driver-0-0" in nodes(racks), "the driver to run")
        racks.wait(lambda: len(racks.pods()) == 6, "all pods to be made")
        events = [each for each in recorder.events if each.name.startswith("w-nodes-")]
    assert "needs 5 pods in one rack: r1 fits 4 of 5" in message
    assert not any(bound(event) for event in events)
    gates = {name: each["spec"].get("schedulingGates") for name, each in of_job_set(racks).items()}
    assert [name for name, found in gates.items() if found != [{"name": GATE}]] == ["w-driver-0-0"]
