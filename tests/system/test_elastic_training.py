"""A PyTorchJob with a variable number of workers, and one whose pod fails: Kubeflow's operator creates the pods.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node. A master and three workers fit in r1 alone.
"""

import json

import pytest
import yaml
from leader_first import number_of, placeholders, rival
from system import Object, Phalanx, pod, unschedulable
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane.operator_processes import Running
from controlplane.recording import bound

pytestmark = pytest.mark.controlplane

WORKERS = "/spec/pytorchReplicaSpecs/Worker/replicas"
R1 = ["n0", "n1", "n2", "n3"]
ELASTIC = {"minReplicas": 2, "maxReplicas": 4}
PODS = ["w-master-0", "w-worker-0", "w-worker-1", "w-worker-2"]


@pytest.fixture
def racks(training_operator: Running, phalanx: Phalanx) -> Phalanx:
    """Seven nodes in two racks, a topology over them, and the operator's webhooks."""
    training_operator.register()
    return apply_two_racks(phalanx, 7)


def job(**spec: Object) -> Object:
    """Return a PyTorchJob of a master and three workers in one rack; each pod fills a node. `spec`: more fields."""
    manifest = ROWS["PyTorchJob"].manifest(required="rack")
    found: Object = yaml.safe_load(yaml.safe_dump(manifest, sort_keys=False).replace("cpu: '1'", "cpu: '6'"))
    found["spec"] |= spec
    return found


def places(phalanx: Phalanx) -> dict[str, str]:
    """Return the nodes of the job's pods by name, "" for a waiting pod; ending pods are left out."""
    of = [each for each in phalanx.pods() if each["metadata"]["name"].startswith("w-")]
    there = [each for each in of if "deletionTimestamp" not in each["metadata"]]
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in there}


def have_workers(phalanx: Phalanx, number: int) -> None:
    """Change how many workers it has."""
    patch = json.dumps([{"op": "replace", "path": WORKERS, "value": number}])
    phalanx.cluster.kubectl("patch", "pytorchjob", "w", "--type=json", "-p", patch)


@pytest.mark.long
def test_an_elastic_job_starts_with_fewer_and_takes_up_more_beside_them(racks: Phalanx) -> None:
    """Two workers are enough to start. The third waits for capacity in the rack of the others, though r2 has some."""
    for number in (3, 4, 5):
        racks.submit(pod(f"other-{number}", cpu=6, nodeSelector={"kubernetes.io/hostname": f"n{number}"}))
    racks.await_bound([f"other-{number}" for number in (3, 4, 5)])
    with racks.record() as recorder:
        racks.apply_once_told("gang default/w: 3 of 4 pods fit in r1: n0..2", job(elasticPolicy=ELASTIC))
        racks.wait(lambda: sorted(places(racks).values()) == ["", *R1[:3]], "the minimum to run in r1, and one to wait")
        events = [each for each in recorder.events if each.name.startswith("w-")]
    made = [number for number, event in enumerate(events) if event.type == "ADDED"]
    assert not any(bound(event) for event in events[: made[2]]), "some started before as many as must be were there"
    started = places(racks)
    (waiting,) = (name for name, node in started.items() if not node)
    assert waiting == "w-worker-2"
    racks.cluster.kubectl("delete", "pod", "other-3", "--wait=false")
    racks.wait(lambda: places(racks) == {**started, waiting: "n3"}, "the last to come beside the others")
    racks.await_phase("w", "Placed")


@pytest.mark.long
def test_a_worker_more_waits_for_the_rack_and_one_less_gives_its_room_back(racks: Phalanx) -> None:
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", job(elasticPolicy=ELASTIC))
    full = dict(zip(PODS, R1, strict=True))
    racks.wait(lambda: places(racks) == full, "all to run in r1, by rank")
    have_workers(racks, 4)
    racks.wait(lambda: places(racks) == {**full, "w-worker-3": ""}, "one more to wait")

    def told() -> bool:
        conditions = racks.pod("w-worker-3")["status"].get("conditions", ())
        return any("1 more finds no room" in each.get("message", "") for each in conditions)

    racks.wait(told, "it to say for what")
    racks.wait(lambda: racks.status("w")["message"] == "4 pods are bound on n0..3, 1 more waits", "the gang to say it")
    have_workers(racks, 2)
    less = {name: node for name, node in full.items() if name != "w-worker-2"}
    racks.wait(lambda: places(racks) == less, "two of them to go, and nobody to move")
    racks.submit(rival(3))
    racks.await_bound(["rival-3"])  # nothing is held for a worker that is not wanted any more
    assert places(racks) == less
    racks.wait(lambda: racks.status("w")["members"]["expected"] == 3, "the gang to say of how many it is")
    racks.await_phase("w", "Placed")


@pytest.mark.long
def test_a_pod_that_fails_is_made_again_in_its_place(racks: Phalanx) -> None:
    """The operator deletes a pod that ends by a signal, and creates another one in its place.

    A rival gang of equal priority waits for the node of the deleted pod and does not get it.
    """
    made = job()
    for role in made["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "ExitCode"
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3, proven optimal", made)
    full = dict(zip(PODS, R1, strict=True))
    racks.wait(lambda: places(racks) == full, "all to run in r1, by rank")
    racks.await_phase("w", "Placed")
    failing = racks.pod("w-worker-1")
    rivals = [rival(number_of(node)) for node in R1 if node != failing["spec"]["nodeName"]]
    racks.submit(*rivals)
    names = [each["metadata"]["name"] for each in rivals]
    racks.wait(lambda: all(unschedulable(racks.pod(name)) for name in names), "the others to be tried in vain")
    ended = {"name": failing["spec"]["containers"][0]["name"], "state": {"terminated": {"exitCode": 137}}}
    status = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
    with racks.record() as recorder:
        racks.cluster.kubectl(
            "patch", "pod", "w-worker-1", "--subresource=status", "--type=merge", "-p", json.dumps(status)
        )
        uid = failing["metadata"]["uid"]
        racks.wait(lambda: racks.pod("w-worker-1").get("metadata", {}).get("uid", uid) != uid, "another to be made")
        racks.wait(lambda: places(racks) == full, "it to run in its place")
        events = recorder.events
    assert not [event.name for event in events if event.name in names and bound(event)]
    racks.await_phase("w", "Placed")
    racks.cluster.kubectl("delete", "pytorchjob", "w", "--wait=false")
    racks.wait(lambda: not places(racks) and not racks.gang("w") and not placeholders(racks), "all of it to go")
