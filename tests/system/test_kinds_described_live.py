"""A kind of an invented operator, described by a WorkloadKind while Phalanx runs, on a real control plane.

The definition is made in the test, and what the operator makes by `workload_operators`. Racks r1: n0 … n3, r2: n4 … n6.
"""

from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner
from system import Object, Phalanx, one_line
from two_racks import apply_two_racks
from workload_operators import described, training_run

from cli.main import group
from controlplane.control_plane import ControlPlane
from controlplane.recording import bound

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

R1 = {"n0", "n1", "n2", "n3"}
ROW = training_run()
NAME = "trainingruns.ml.example.com"
RUNS = "/apis/ml.example.com/v1/namespaces/default/trainingruns"
ACCESS: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reads-training-runs", "labels": {"phalanx.dev/aggregate-to-workload-kinds": "true"}},
    "rules": [{"apiGroups": ["ml.example.com"], "resources": ["trainingruns"], "verbs": ["list", "watch"]}],
}


def definition() -> Object:
    """The invented kind, whatever is written in its objects."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": "TrainingRun", "plural": "trainingruns", "singular": "trainingrun", "listKind": "TrainingRunList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": "ml.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def clean(control_plane: ControlPlane) -> Iterator[None]:
    """Nothing of the invented kind stays."""
    yield
    for each in (f"crd/{NAME}", f"clusterrole/{ACCESS['metadata']['name']}", f"workloadkind/{NAME}"):
        control_plane.kubectl_result("delete", "--ignore-not-found", each)


@pytest.fixture
def racks(phalanx: Phalanx, clean: None) -> Phalanx:
    """Seven nodes in two racks, and a topology over them."""
    del clean
    return apply_two_racks(phalanx, 7)


def filling(**annotations: str) -> Object:
    """A workload of pods of which each fills a node."""
    found: Object = yaml.safe_load(yaml.safe_dump(ROW.manifest(**annotations)).replace("cpu: '1'", "cpu: '6'"))
    return found


def ready(phalanx: Phalanx) -> Object:
    """Return the condition of the WorkloadKind; empty if it has none."""
    found = phalanx.cluster.request("GET", f"/apis/phalanx.dev/v1alpha1/workloadkinds/{NAME}")
    conditions: list[Object] = found.get("status", {}).get("conditions", [])
    return conditions[0] if conditions else {}


def running(phalanx: Phalanx) -> dict[str, str]:
    """Where the pods that have nodes are."""
    pods = ((each["metadata"]["name"], each["spec"].get("nodeName", "")) for each in phalanx.pods())
    return {name: node for name, node in pods if node}


def expected(phalanx: Phalanx) -> int:
    """Return the number of pods that the gang's status expects."""
    return int(phalanx.status("w").get("members", {}).get("expected", 0))


def make(phalanx: Phalanx, *pods: Object) -> None:
    """Create the pods that the operator creates."""
    for each in pods:
        answer = phalanx.cluster.request("POST", "/api/v1/namespaces/default/pods", each)
        assert answer["kind"] == "Pod", answer


def install(phalanx: Phalanx) -> None:
    """Install the definition, and wait until the API server serves the kind.

    The API server recreates the store of a definition when its names are accepted. A watch that was opened before may
    receive nothing until it counts as dead.
    """
    phalanx.submit(definition())
    phalanx.cluster.kubectl("wait", "--for=condition=established", f"crd/{NAME}")


def test_a_described_kind_is_a_gang_without_a_restart(racks: Phalanx) -> None:
    install(racks)
    unknown = "asks for nothing: TrainingRun of ml.example.com is no kind that Phalanx knows"
    racks.apply_once_told(unknown, filling(gang="true"))
    racks.cluster.request("DELETE", f"{RUNS}/w")

    racks.submit(described())
    racks.wait(lambda: ready(racks).get("reason") == "Forbidden", "the WorkloadKind to say what it lacks")
    assert "phalanx.dev/aggregate-to-workload-kinds" in ready(racks)["message"]
    told = CliRunner().invoke(group, ["doctor", "--fix", "--kubeconfig", str(racks.cluster.kubeconfig)]).output
    assert "Phalanx may not read trainingruns.ml.example.com" in told
    assert "kubectl create clusterrole" in told
    racks.submit(ACCESS)
    racks.wait(lambda: ready(racks).get("status") == "True", "the WorkloadKind to be in force")

    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", filling(gang="true", required="rack"))
    workload = racks.cluster.request("GET", f"{RUNS}/w")
    *first, last = ROW.pods(workload)
    with racks.record() as recorder:
        make(racks, *first)
        racks.wait(lambda: "waits for 1 more pod" in racks.status("w").get("message", ""), "the gang to say why")
        assert (racks.status("w")["phase"], running(racks)) == ("Waiting", {})
        make(racks, last)
        racks.wait(lambda: len(running(racks)) == len(ROW.names), "all pods to be bound")
        events = recorder.events
    complete = max(number for number, event in enumerate(events) if event.type == "ADDED")
    assert not any(bound(event) for event in events[:complete])
    assert set(running(racks).values()) == R1
    racks.wait(lambda: racks.status("w").get("members", {}).get("bound") == len(ROW.names), "the gang to say so")
    (owner,) = racks.gang("w")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("TrainingRun", workload["metadata"]["uid"])

    gone = max(ROW.names)
    racks.cluster.kubectl("delete", "pod", gone)
    make(racks, last)
    racks.wait(lambda: len(running(racks)) == len(ROW.names), "the pod that takes its place")
    assert set(running(racks).values()) == R1
    racks.cluster.request("DELETE", f"{RUNS}/w")
    racks.wait(lambda: not racks.gang("w") and not racks.pods(), "the gang and its pods to go with the workload")


def test_what_is_described_otherwise_holds_from_then_on_and_after_a_restart(racks: Phalanx) -> None:
    install(racks)
    racks.submit(ACCESS, described())
    racks.wait(lambda: ready(racks).get("status") == "True", "the WorkloadKind to be in force")
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", filling(gang="true", required="rack"))
    racks.wait(lambda: expected(racks) == len(ROW.names), "the gang to wait for its pods")
    other = described()
    other["spec"]["podTemplates"][0]["replicas"] = "spec.roles.*.atLeast"
    racks.submit(other)
    racks.wait(lambda: expected(racks) == len(ROW.sets), "the gang to have one pod of each template")
    racks.cluster.program("controller").kill()
    racks.cluster.program("webhook").kill()
    racks.ensure_servers()
    racks.deployment.register_webhook()
    racks.submit(described())
    racks.wait(lambda: expected(racks) == len(ROW.names), "the gang to have four again")
    told = CliRunner().invoke(group, ["why", "default/w", "--kubeconfig", str(racks.cluster.kubeconfig)]).output
    assert "waits for 1 more pod of chief: 0 of 1 exist" in one_line(told)
    racks.cluster.kubectl("delete", "workloadkind", NAME)
    racks.wait(lambda: not racks.gang("w"), "the gang to go with what describes its kind")


def test_a_wrong_workload_kind_is_refused_with_one_clear_error(racks: Phalanx) -> None:
    wrong = described()
    wrong["spec"]["podTemplates"][0]["replicas"] = "spec.groups.*.count"
    racks.await_refusal(
        "spec.podTemplates[0].replicas: spec.groups.*.count has a * that spec.roles.*.pods has not", wrong
    )
    known = {**described(), "metadata": {"name": "tfjobs.kubeflow.org"}}
    known["spec"] = {**known["spec"], "group": "kubeflow.org", "kind": "TFJob", "resource": "tfjobs"}
    racks.await_refusal("spec.kind: TFJob of kubeflow.org is known to Phalanx itself; delete this WorkloadKind", known)
    unnamed = {**described(), "metadata": {"name": "runs"}}
    racks.await_refusal("metadata.name is the resource with its group", unnamed)
    racks.submit(described())
    second = {**described(), "metadata": {"name": "runs.ml.example.com"}}
    second["spec"] = {**second["spec"], "resource": "runs"}
    racks.await_refusal(f"TrainingRun of ml.example.com is described by WorkloadKind {NAME} already", second)
    racks.wait(lambda: ready(racks).get("status") == "False", "the WorkloadKind to say what it lacks")


def test_it_comes_with_its_first_workload_and_the_gang_outlives_it(racks: Phalanx) -> None:
    install(racks)
    racks.submit(ACCESS)
    workload = filling(gang="true", required="rack", min_member="3")
    racks.submit(described(), workload)  # one `kubectl apply`
    stored = racks.cluster.request("GET", f"{RUNS}/w")
    assert [each["pods"]["metadata"]["labels"]["phalanx.dev/pod-set"] for each in stored["spec"]["roles"]] == [
        "chief",
        "worker",
    ]
    make(racks, *ROW.pods(stored))
    racks.wait(lambda: len(running(racks)) == len(ROW.names), "all pods to be bound")
    assert set(running(racks).values()) == R1
    racks.wait(lambda: racks.status("w").get("members", {}).get("bound") == len(ROW.names), "the gang to say so")

    racks.cluster.kubectl("delete", "workloadkind", NAME)
    lost = "waits for a WorkloadKind that describes TrainingRun of ml.example.com"
    racks.cluster.kubectl("delete", "pod", max(ROW.names))
    make(racks, list(ROW.pods(stored))[-1])
    racks.wait(lambda: lost in racks.status("w").get("message", ""), "the gang to say what it lacks")
    assert racks.gang("w")["spec"]["minMember"] == 3
    assert len(running(racks)) == len(ROW.names) - 1
    again = {**workload, "spec": {**workload["spec"], "note": "again"}}
    again["metadata"] = {
        **again["metadata"],
        "resourceVersion": racks.cluster.request("GET", f"{RUNS}/w")["metadata"]["resourceVersion"],
    }
    racks.cluster.request("PUT", f"{RUNS}/w", again)
    kept = racks.cluster.request("GET", f"{RUNS}/w")["spec"]
    assert (kept["note"], kept["roles"]) == ("again", stored["spec"]["roles"])
    racks.submit(described())
    racks.wait(lambda: len(running(racks)) == len(ROW.names), "the pod to start when its kind is described again")


def test_a_kind_that_the_resource_does_not_have_is_told(racks: Phalanx) -> None:
    other = described()
    other["spec"]["kind"] = "Training"
    install(racks)
    racks.submit(ACCESS, other)
    racks.wait(lambda: ready(racks).get("reason") == "WrongKind", "the WorkloadKind to say what is wrong")
    said = f"{NAME} are of kind TrainingRun, not Training: correct spec.kind"
    assert (ready(racks)["status"], ready(racks)["message"]) == ("False", said)
    racks.submit(described())
    racks.wait(lambda: ready(racks).get("status") == "True", "the WorkloadKind to be in force")
