"""A Job in a queue is suspended by its user, resumed, and made from its manifest again: on a real API server."""

from pathlib import Path

import pytest
import yaml
from suspended_words import LIFTED, SUSPENDED
from system import Object, Phalanx, one_line

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

FILES = Path(__file__).parent.parent / "faults" / "suspended"
JOB = "/apis/batch/v1/namespaces/default/jobs/j4"
WAITS = "waits for Job default/j4 to be resumed (it is suspended by spec.suspend)"


def nodes() -> list[Object]:
    """Ten nodes of 8 GPUs below three super nodes: of 4, 3 and 3 nodes."""
    room = {"cpu": "64", "memory": "512Gi", "metax-tech.com/gpu": "8", "pods": "110"}
    made = []
    for number, above in enumerate(["sn1"] * 4 + ["sn2"] * 3 + ["sn3"] * 3):
        name = f"n{number}"
        labels = {"metax-tech.com/driver.ready": "true", "shanghai-cube/super-node": above}
        metadata = {"name": name, "labels": labels | {"kubernetes.io/hostname": name}}
        status = {"capacity": room, "allocatable": room}
        made.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    return made


def start(phalanx: Phalanx, *how: str) -> None:
    """The queue on its nodes, and the Job running there; `how`: arguments of `kubectl apply`."""
    phalanx.cluster.add_nodes(nodes())
    phalanx.apply_files(FILES / "topology-and-flavor.yaml", FILES / "pool.yaml")
    phalanx.apply_once_told("4 pods fit", *yaml.safe_load_all((FILES / "job.yaml").read_text()))
    # A Job of the same name whose first pods are still being made would wait five minutes for those of the trial.
    phalanx.wait(lambda: running(phalanx) == 4, "the trial's pods to be bound")
    phalanx.cluster.kubectl("delete", "job", "j4")
    phalanx.wait(lambda: not phalanx.pods() and not phalanx.gang("j4"), "the trial to be gone")
    phalanx.cluster.kubectl("apply", *how, "-f", str(FILES / "job.yaml"))
    phalanx.wait(lambda: running(phalanx) == 4, "the Job's pods to be bound")


def running(phalanx: Phalanx) -> int:
    """Pods of the namespace that have a node."""
    return sum(bool(each["spec"].get("nodeName")) for each in phalanx.pods())


def suspended(phalanx: Phalanx) -> bool:
    """Return whether the Job is suspended."""
    return bool(phalanx.cluster.request("GET", JOB)["spec"]["suspend"])


def patch(phalanx: Phalanx, value: str) -> str:
    """Run `kubectl patch` as a user does; return its output."""
    answer = phalanx.cluster.kubectl_result("patch", "job", "j4", "-p", f'{{"spec":{{"suspend":{value}}}}}')
    assert answer.returncode == 0, answer.stderr
    return one_line(answer.stdout + answer.stderr)


def apply_again(phalanx: Phalanx, *how: str) -> str:
    """`kubectl apply` the same file; return its output."""
    answer = phalanx.cluster.kubectl_result("apply", *how, "-f", str(FILES / "job.yaml"))
    assert answer.returncode == 0, answer.stderr
    return one_line(answer.stdout + answer.stderr)


@pytest.mark.parametrize(
    "how",
    [pytest.param((), id="client-side"), pytest.param(("--server-side",), marks=pytest.mark.long, id="server-side")],
)
def test_a_users_own_suspension_holds_and_the_manifests_is_lifted_once(phalanx: Phalanx, how: tuple[str, ...]) -> None:
    start(phalanx, *how)
    before = {each["metadata"]["uid"] for each in phalanx.pods()}
    assert LIFTED in apply_again(phalanx, *how)
    assert not suspended(phalanx)
    assert phalanx.cluster.kubectl_result("diff", *how, "-f", str(FILES / "job.yaml")).returncode == 0
    assert {each["metadata"]["uid"] for each in phalanx.pods()} == before

    assert SUSPENDED in patch(phalanx, "true")
    phalanx.wait(lambda: not phalanx.pods(), "the Job controller to delete the pods")
    phalanx.wait(lambda: phalanx.status("j4").get("message") == WAITS, "the Gang to say so")
    assert suspended(phalanx)
    assert phalanx.status("j4")["reason"] == "ObjectsMissing"
    queue = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/q"
    phalanx.wait(
        lambda: phalanx.cluster.request("GET", queue)["status"]["admittedWorkloads"] == 0, "its quota to be given back"
    )

    patch(phalanx, "false")
    phalanx.wait(lambda: running(phalanx) == 4, "the Job to run again")
    assert before.isdisjoint(each["metadata"]["uid"] for each in phalanx.pods())


def test_a_dry_run_of_a_suspension_changes_nothing(phalanx: Phalanx) -> None:
    start(phalanx)
    answer = phalanx.cluster.kubectl_result("patch", "job", "j4", "--dry-run=server", "-p", '{"spec":{"suspend":true}}')
    assert SUSPENDED in one_line(answer.stderr)
    assert not suspended(phalanx)


def test_a_suspended_job_leaves_its_room_to_others(phalanx: Phalanx) -> None:
    start(phalanx)
    (job,) = yaml.safe_load_all((FILES / "job.yaml").read_text())
    job["metadata"]["name"], job["spec"]["parallelism"], job["spec"]["completions"] = "j9", 9, 9
    del job["spec"]["suspend"]
    phalanx.submit(job)
    phalanx.await_phase("j9", "Waiting")
    patch(phalanx, "true")
    phalanx.await_phase("j9", "Placed")
    assert suspended(phalanx)
    assert "spec.suspend" not in apply_again(phalanx)
    assert suspended(phalanx)
