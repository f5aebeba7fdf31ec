"""The control plane is a real one: stock API server, scheduler and controllers, with nodes that kwok plays."""

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from emptying import empty

from controlplane.api import RefusedError
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.programs.binaries import VERSION
from controlplane.recording import Recorder, WatchEvent, bound
from controlplane.running.stages import COMPLETES_AFTER, GOES_ON, TERMINATES_AFTER

pytestmark = pytest.mark.controlplane

PODS = "/api/v1/namespaces/default/pods"
PATIENCE = 300.0
"""Seconds within which a pod that ends at once is gone, and a slow one is not."""


def node(name: str, **spec: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "8"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations or {}}
    containers = [{"name": "main", "image": "main", "resources": {"requests": {"cpu": "1"}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def runs(name: str) -> Any:
    return lambda events: any(e.name == name and e.object["status"].get("phase") == "Running" for e in events)


def test_the_api_server_knows_its_version(cluster: ControlPlane) -> None:
    assert json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"] == VERSION


def test_a_node_is_ready_with_the_room_its_manifest_states(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0"), node("cordoned", unschedulable=True)])
    found = cluster.request("GET", "/api/v1/nodes/n-0")
    assert found["status"]["allocatable"] == node("n-0")["status"]["allocatable"]
    assert found["status"]["capacity"] == found["status"]["allocatable"]
    assert not found["spec"].get("taints")


def test_many_nodes_take_pods_soon(cluster: ControlPlane) -> None:
    cluster.add_nodes(node(f"n-{index}") for index in range(100))
    taints = [each["spec"].get("taints") for each in cluster.request("GET", "/api/v1/nodes")["items"]]
    assert taints == [None] * 100


def test_a_refused_manifest_is_told_at_once(cluster: ControlPlane) -> None:
    with pytest.raises(RefusedError, match=r"Node Not_A_Name: .*lowercase RFC 1123"):
        cluster.add_nodes([node("fine"), node("Not_A_Name")])


def test_the_stock_scheduler_binds_a_pod_and_it_runs(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0")])
    with Recorder(cluster) as recorder:
        cluster.create(PODS, [pod("p")])
        events = recorder.wait_for(runs("p"))
    story = [(event.type, bound(event), event.object["status"]["phase"]) for event in events]
    assert story[0] == ("ADDED", "", "Pending")
    assert story[-1] == ("MODIFIED", "n-0", "Running")
    assert story.index(("MODIFIED", "n-0", "Pending")) < len(story) - 1
    conditions = {each["type"]: each["status"] for each in events[-1].object["status"]["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"
    told = ("get", "events", "--field-selector", "reason=Scheduled", "-o", "wide")
    wait_until(lambda: "default-scheduler" in cluster.kubectl(*told), PATIENCE, "the scheduler's event")


def test_containers_of_every_sort_are_reported_running_or_done(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0")])
    starting = [{"name": "once", "image": "i"}, {"name": "beside", "image": "i", "restartPolicy": "Always"}]
    with Recorder(cluster) as recorder:
        cluster.create(PODS, [pod("p", initContainers=starting)])
        status = recorder.wait_for(runs("p"))[-1].object["status"]
    states = {
        each["name"]: set(each["state"]) for each in status["initContainerStatuses"] + status["containerStatuses"]
    }
    assert states == {"once": {"terminated"}, "beside": {"running"}, "main": {"running"}}
    assert status["podIP"] == status["podIPs"][0]["ip"]
    assert status["hostIP"] == "127.0.0.1"


def test_a_job_is_made_into_pods_and_completes(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0")])
    template = {"spec": {**pod("")["spec"], "restartPolicy": "Never"}}
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": template}
    cluster.apply([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}])
    cluster.kubectl("wait", "--for=condition=Complete", "job/j", "--timeout=120s")
    assert cluster.request("GET", "/apis/batch/v1/namespaces/default/jobs/j")["status"]["succeeded"] == 3


def job(name: str, annotations: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """Return a Job of one pod with these annotations."""
    template = {"metadata": {"annotations": annotations}, "spec": {**pod("")["spec"], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def in_phase(phase: str) -> Callable[[list[WatchEvent]], bool]:
    """Return the condition that the last event shows a pod in this phase."""
    return lambda events: bool(events) and events[-1].object["status"].get("phase") == phase


def test_a_jobs_pod_completes_after_the_time_that_it_names(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0")])
    with Recorder(cluster) as recorder:
        cluster.apply([job("j", {COMPLETES_AFTER: "4s"})])
        events = recorder.wait_for(in_phase("Succeeded"))
    began = next(each.at for each in events if each.object["status"].get("phase") == "Running")
    assert events[-1].at - began >= 2, "by the clock of one who may hear of the beginning late"


def test_a_jobs_pod_that_is_deleted_while_it_runs_fails_and_its_job_creates_another(cluster: ControlPlane) -> None:
    """With a podFailurePolicy, a Job creates the next pod only when the deleted one has failed."""
    cluster.add_nodes([node("n-0")])
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    with Recorder(cluster) as recorder:
        cluster.apply([job("j", {GOES_ON: "true"}, podFailurePolicy={"rules": [rule]})])
        name = recorder.wait_for(in_phase("Running"))[-1].name
        cluster.kubectl("delete", "pod", name, "--wait=false")
        recorder.wait_for(lambda seen: any(each.name != name for each in seen))
        events = [each for each in recorder.events if each.name == name]
    assert events[-1].type == "DELETED"
    assert events[-1].object["status"]["phase"] == "Failed"


@pytest.mark.parametrize(
    ("manifest", "seconds"),
    [
        pytest.param(pod("p"), 0.0, id="a plain one ends"),
        pytest.param(pod("p", priorityClassName="low-priority"), 3.0, id="one of the slow class takes its time"),
        pytest.param(pod("p", {TERMINATES_AFTER: "1500ms"}), 1.5, id="an annotated one as long as it says"),
        pytest.param(
            pod("p", {TERMINATES_AFTER: "8s"}, priorityClassName="low-priority"), 8.0, id="the annotation decides"
        ),
    ],
)
def test_how_long_a_pod_terminates(cluster: ControlPlane, manifest: dict[str, Any], seconds: float) -> None:
    low = {"kind": "PriorityClass", "metadata": {"name": "low-priority"}, "value": 0}
    cluster.apply([{"apiVersion": "scheduling.k8s.io/v1", **low}])
    cluster.add_nodes([node("n-0")])
    with Recorder(cluster) as recorder:
        cluster.create(PODS, [manifest])
        recorder.wait_for(runs("p"))
        cluster.kubectl("delete", "pod", "p", "--wait=false")
        events = recorder.wait_for(lambda seen: seen[-1].type == "DELETED")
    asked = next(event.at for event in events if event.object["metadata"].get("deletionTimestamp"))
    assert events[-1].at - asked >= seconds / 2, "by the clock of one who may hear of the beginning late"


def test_a_pod_that_a_finalizer_keeps_is_ended_once(cluster: ControlPlane) -> None:
    """Kwok deletes by name: when it asked again, the next pod of that name was there."""
    cluster.add_nodes([node("n-0")])
    kept = pod("kept", {TERMINATES_AFTER: "500ms"})
    kept["metadata"]["finalizers"] = ["example.com/kept"]
    with Recorder(cluster) as recorder:
        cluster.create(PODS, [kept])
        recorder.wait_for(runs("kept"))
        cluster.kubectl("delete", "pod", "kept", "--wait=false")
        recorder.wait_for(lambda seen: seen[-1].object["metadata"].get("deletionGracePeriodSeconds") == 0)
        time.sleep(1.5)  # as long as it took to ask three times
        cluster.kubectl("patch", "pod", "kept", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        recorder.wait_for(lambda seen: seen[-1].type == "DELETED")
    log = (cluster.directory / "kwok.log").read_text()
    asked = [line for line in log.splitlines() if "Delete pod" in line and "default/kept" in line]
    assert len(asked) == 1


def test_a_service_account_has_its_own_rights_only(cluster: ControlPlane) -> None:
    cluster.kubectl("create", "serviceaccount", "reader")
    cluster.kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    cluster.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
    try:
        config = str(cluster.kubeconfig_for("default", "reader"))
        listed = ("--kubeconfig", config, "get", "pods")
        wait_until(lambda: cluster.kubectl_result(*listed).returncode == 0, PATIENCE, "the binding to take effect")
        assert cluster.kubectl(*listed) == ""
        refused = cluster.kubectl("--kubeconfig", config, "get", "nodes", check=False)
        assert 'User "system:serviceaccount:default:reader" cannot list resource "nodes"' in refused
    finally:
        cluster.kubectl("delete", "serviceaccount/reader", "role/reader", "rolebinding/reader")


def test_a_failed_kubectl_says_why(cluster: ControlPlane) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        cluster.kubectl("get", "pod", "nobody")
    assert 'pods "nobody" not found' in caught.value.stderr
    assert caught.value.__notes__ == [caught.value.stderr]


def test_the_scheduler_can_be_frozen_and_goes_on(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0")])
    scheduler = cluster.program("kube-scheduler")
    with Recorder(cluster) as recorder:
        scheduler.freeze()
        try:
            cluster.create(PODS, [pod("p")])
            recorder.wait_for(bool)
            with pytest.raises(TimeoutError, match=r"not seen within 1 s; the last events: \['ADDED p'\]"):
                recorder.wait_for(runs("p"), seconds=1)
        finally:
            scheduler.thaw()
        recorder.wait_for(runs("p"))


def test_a_program_beside_it_is_stopped_with_its_children(cluster: ControlPlane) -> None:
    program = cluster.run("beside", ["sh", "-c", "echo started; sleep 1000 & wait"])
    wait_until(lambda: program.tail() == "started" and bool(children(program.pid)), PATIENCE, "the program")
    with pytest.raises(RuntimeError, match="beside runs already"):
        program.start()
    with pytest.raises(RuntimeError, match="beside runs already"):
        cluster.run("beside", ["true"])
    (child,) = children(program.pid)
    program.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), PATIENCE, "the child's end")


def test_recorders_end_at_once_and_keep_what_they_saw(cluster: ControlPlane) -> None:
    with Recorder(cluster) as recorder, Recorder(cluster, "/api/v1/nodes") as nodes:
        cluster.add_nodes([node("n-0")])
        cluster.create(PODS, [pod("p")])
        recorder.wait_for(runs("p"))
        nodes.wait_for(lambda seen: len(seen) > 1)
    assert {event.name for event in recorder.events} == {"p"}
    assert isinstance(recorder.of("p")[0], WatchEvent)
    assert {event.name for event in nodes.events} == {"n-0"}


def test_an_emptied_cluster_has_nothing_of_the_test_before(cluster: ControlPlane) -> None:
    cluster.add_nodes([node("n-0")])
    own = f"own-{uuid.uuid4().hex[:8]}"
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("")["spec"]}
    deployment = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    columns = {"plural": "things", "singular": "thing", "kind": "Thing"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {"group": "test.phalanx.dev", "scope": "Namespaced", "names": columns, "versions": [version]}
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "d"}}}
    hook = {"name": "a.test.phalanx.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    called = {**hook, "clientConfig": {"url": "https://127.0.0.1:1"}}
    things = {"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "things.test.phalanx.dev"}}
    cluster.apply(
        [
            {"kind": "CustomResourceDefinition", **things, "spec": definition},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": deployment},
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "d"}, "spec": budget},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}},
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 5},
        ]
    )
    cluster.kubectl("wait", "--for=condition=Established", "crd/things.test.phalanx.dev", "--timeout=120s")
    hooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    cluster.apply(
        [
            {
                "apiVersion": "test.phalanx.dev/v1",
                "kind": "Thing",
                "metadata": {"name": "t", "namespace": own},
            },
            {**hooks, "metadata": {"name": "h"}, "webhooks": [called]},
        ]
    )
    cluster.kubectl("wait", "--for=condition=Available", "deployment/d", "--timeout=120s")
    try:
        empty(cluster)
        left = "pods,nodes,deployments,replicasets,things.test.phalanx.dev,poddisruptionbudgets"
        assert cluster.kubectl("get", left, "--all-namespaces", "-o", "name") == ""
        assert cluster.kubectl("get", "mutatingwebhookconfigurations", "-o", "name") == ""
        assert "/c\n" not in cluster.kubectl("get", "priorityclasses", "-o", "name")
        phase = ("--ignore-not-found", "-o", "jsonpath={.status.phase}")
        assert cluster.kubectl("get", "namespace", own, *phase) in ("Terminating", "")
    finally:
        cluster.kubectl("delete", "crd", "things.test.phalanx.dev")
