"""Admission on a real API server: our manifests, our server under its own service account, kubectl."""

import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from manual_clock import ManualClock
from servers import PATIENCE, REPOSITORY, RunningServer, stop

from certs.cluster_edge import CONFIGURATIONS
from certs.files import write_self_signed
from cli.installation.installed_objects import custom_resource_definitions, system_objects, webhook_configurations
from cluster.api.connecting import connect
from cluster.api.token_reviews import Access, AccessError, AccessReviewer
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.running.ports import free_ports
from gangs.sources import Sources
from webhook.rereading import Rereader

pytestmark = pytest.mark.controlplane

GROUP = "pod-group.scheduling.sigs.k8s.io"
SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
WRONG_SPEC: dict[str, Any] = {SPEC: "{"}
RACK = "admission.example.com/rack"
CALLS = "apiserver_admission_webhook_request_total"


def pod(name: str, *, gang: str | None = None, scheduler: str | None = None) -> dict[str, Any]:
    """A pod as a user writes it."""
    metadata: dict[str, Any] = {"name": name}
    if gang is not None:
        metadata["labels"] = {GROUP: gang}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    spec: dict[str, Any] = {"containers": [container]}
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pod_group(name: str, minimum: int = 4, **annotations: str) -> dict[str, Any]:
    """A Koordinator PodGroup."""
    metadata = {"name": name, "annotations": annotations}
    spec = {"minMember": minimum}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def job(pods: int, **annotations: str) -> dict[str, Any]:
    """Return an indexed Job with a generated name; a `_` in a keyword becomes a `-` in the annotation."""
    written = {f"phalanx.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = pod("unused")["spec"] | {"restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "train-", "annotations": written},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": {"spec": spec}},
    }


def deployment(**annotations: str) -> dict[str, Any]:
    """A Deployment called wrong."""
    labels = {"app": "wrong"}
    template = {"metadata": {"labels": labels}, "spec": pod("unused")["spec"]}
    metadata = {"name": "wrong", "annotations": {f"phalanx.dev/{key}": value for key, value in annotations.items()}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace of a control plane, by kubectl."""

    plane: ControlPlane
    name: str

    def kubectl(self, *arguments: str, manifests: tuple[dict[str, Any], ...] = ()) -> tuple[int, str, str]:
        """Run kubectl; return exit status, stdout and stderr. `-f -` reads the `manifests`."""
        text = yaml.safe_dump_all(manifests) if manifests else None
        answer = self.plane.kubectl_result(*arguments, "-n", self.name, stdin=text)
        return answer.returncode, answer.stdout, answer.stderr

    def apply(self, *manifests: dict[str, Any], arguments: tuple[str, ...] = ()) -> str:
        """Apply the manifests; return kubectl's stderr."""
        status, _, errors = self.kubectl("apply", *arguments, "-f", "-", manifests=manifests)
        assert status == 0, errors
        return errors

    def dry_run(self, manifest: dict[str, Any]) -> str:
        """The warnings to `create --dry-run=server`, in one line."""
        status, _, errors = self.kubectl("create", "--dry-run=server", "-f", "-", manifests=(manifest,))
        assert status == 0, errors
        return errors.replace("\nWarning: ", " ")

    def get(self, *arguments: str) -> dict[str, Any]:
        """An object or a list."""
        status, output, errors = self.kubectl("get", *arguments, "-o", "json")
        assert status == 0, errors
        found: dict[str, Any] = json.loads(output)
        return found


def calls(plane: ControlPlane) -> dict[str, float]:
    """Return how often the API server has called each webhook of Phalanx, by its own metrics."""
    found: dict[str, float] = {}
    for line in plane.kubectl("get", "--raw", "/metrics").splitlines():
        if line.startswith(CALLS):
            name = line.partition('name="')[2].partition('"')[0]
            found[name] = found.get(name, 0) + float(line.rpartition(" ")[2])
    return found


class Installation:
    """A webhook server in a process of its own, as its service account; stopped and started again at will."""

    def __init__(self, plane: ControlPlane, certificates: Path) -> None:
        self.plane = plane
        self.certificates = certificates
        self.ports = free_ports(2)
        self.server = self.start()

    def start(self) -> RunningServer:
        """Start `phalanx webhook` and wait until it is ready."""
        port, health_port = self.ports
        kubeconfig = self.plane.kubeconfig_for("phalanx-system", "phalanx-webhook")
        command = [sys.executable, "-m", "cli.main", "webhook", "--host=127.0.0.1", f"--port={port}"]
        command += [f"--health-port={health_port}", f"--cert-dir={self.certificates}", f"--kubeconfig={kubeconfig}"]
        process = subprocess.Popen(command, cwd=REPOSITORY)
        self.server = RunningServer(process, port, health_port, self.certificates)
        try:
            self.server.wait("/readyz", 200)
        except AssertionError:
            self.stop()
            raise
        return self.server

    def stop(self) -> None:
        """Stop it as a cluster would."""
        stop(self.server.process)


@pytest.fixture(scope="module")
def installation(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Everything installed from the manifests of the product, the webhook by URL."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = write_self_signed(folder, ["localhost"], ["127.0.0.1"])
    control_plane.apply([*custom_resource_definitions(), *system_objects()])
    definitions = [each["metadata"]["name"] for each in custom_resource_definitions()]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", *definitions)
    installation = Installation(control_plane, folder)
    try:
        for kind, name in CONFIGURATIONS:
            control_plane.kubectl("delete", kind, name, "--ignore-not-found")
        control_plane.apply(webhook_configurations(f"https://127.0.0.1:{installation.ports[0]}", authority))
        _await_gating(control_plane)
        yield installation
    finally:
        installation.stop()
        for kind, name in CONFIGURATIONS:
            control_plane.kubectl("delete", kind, name, "--ignore-not-found")


def _await_gating(plane: ControlPlane) -> None:
    """The API server takes notice of new webhooks a moment later."""
    text = yaml.safe_dump(pod("probe", gang="none"))
    arguments = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    wait_until(
        lambda: "phalanx.dev/gang" in plane.kubectl(*arguments, stdin=text), PATIENCE, "the webhook to be called"
    )


@pytest.fixture
def namespace(installation: Installation) -> Iterator[Namespace]:
    """A namespace of this test's own."""
    name = f"admission-{uuid.uuid4().hex[:8]}"
    installation.plane.kubectl("create", "namespace", name)
    yield Namespace(installation.plane, name)
    installation.plane.kubectl("delete", "namespace", name, "--wait=false")


def test_a_gangs_pod_is_gated_labelled_and_given_to_the_stock_scheduler(namespace: Namespace) -> None:
    warnings = namespace.apply(pod("p0", gang="llm", scheduler="koord-scheduler"))
    assert f"PodGroup {namespace.name}/llm" in warnings
    found = namespace.get("pod", "p0")
    assert found["spec"]["schedulingGates"] == [{"name": "phalanx.dev/gang"}]
    assert found["spec"]["schedulerName"] == "default-scheduler"
    assert found["metadata"]["labels"] == {
        GROUP: "llm",
        "phalanx.dev/gang": "llm",
        "phalanx.dev/dialect": "koordinator",
    }
    assert found["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_the_same_files_can_be_applied_again_and_differ_in_nothing(namespace: Namespace) -> None:
    manifests = pod_group("llm"), pod("p0", gang="llm", scheduler="koord-scheduler")
    namespace.apply(*manifests)
    before = namespace.get("pod", "p0")["spec"]
    namespace.apply(*manifests)
    assert namespace.kubectl("diff", "-f", "-", manifests=manifests)[:2] == (0, "")
    namespace.apply(*manifests, arguments=("--server-side", "--force-conflicts"))
    assert namespace.get("pod", "p0")["spec"] == before


def test_a_pod_group_is_answered_with_what_it_waits_for(namespace: Namespace) -> None:
    warnings = namespace.apply(pod_group("llm"))
    assert f"gang {namespace.name}/llm" in warnings
    assert "waits for 4 more pods" in warnings


def test_what_a_gang_waits_for_is_found_on_the_api_server(namespace: Namespace) -> None:
    """One `kubectl apply` sends all objects. The webhook's watches deliver the topology soon after the gang's review.

    The webhook waits for the topology for a second at most, so a busy machine gets a few tries.
    """
    topology = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "late"}}
    spec = {"minMember": 2, "required": "shelf"}
    gang = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "llm"}, "spec": spec}
    shelf = {"name": "shelf", "nodeLabel": "admission.example.com/shelf"}
    objects = ({**topology, "spec": {"levels": [shelf]}}, gang, pod_group("pods"))
    for _ in range(3):
        warnings = namespace.apply(*objects)
        if "Topology" not in warnings:
            break
        namespace.kubectl("delete", "topologies.phalanx.dev/late", "gang/llm")
    rereader = Rereader(connect(str(namespace.plane.kubeconfig_for("phalanx-system", "phalanx-webhook"))))
    try:
        assert "Topology" not in warnings, warnings
        for awaited in ("Topology late", 'Topology with a level "shelf"', f"PodGroup {namespace.name}/pods"):
            (key,) = rereader.arrived(Sources(), [awaited]).objects
            assert f"{key[1]} {key[2]}/{key[3]}" in {"Topology /late", f"PodGroup {namespace.name}/pods"}
        nothing = Sources()
        for missing in (
            "Topology early",
            f"PodGroup {namespace.name}/none",
            f"Nothing {namespace.name}/pods",
            "4 more pods",
        ):
            assert rereader.arrived(nothing, [missing]) is nothing
    finally:
        namespace.kubectl("delete", "topologies.phalanx.dev", "late")


def test_a_jobs_dry_run_is_answered_with_its_plan_and_changes_nothing(namespace: Namespace) -> None:
    """Rack r0 holds admission-0 and admission-1, of 2 cpu each: four pods of 1 cpu fit."""
    labels = [{"kubernetes.io/hostname": name, RACK: "r0"} for name in ("admission-0", "admission-1")]
    allocatable = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    namespace.plane.add_nodes(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": each["kubernetes.io/hostname"], "labels": each},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
        for each in labels
    )
    levels = [{"name": "rack", "nodeLabel": RACK}]
    topology = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "racks"}}
    namespace.apply({**topology, "spec": {"levels": levels}})
    fits = job(4, gang="true", required="rack", topology="racks")
    deadline = time.monotonic() + PATIENCE
    while "4 pods fit in r0" not in (told := namespace.dry_run(fits)):
        assert time.monotonic() < deadline, told  # the webhook's watches learn of nodes and topology a moment later
    assert "admission-0" in told
    assert "needs 5 pods" in namespace.dry_run(job(5, gang="true", required="rack", topology="racks"))
    assert namespace.get("jobs,pods")["items"] == []
    namespace.kubectl("delete", "topologies.phalanx.dev", "racks")
    namespace.kubectl("delete", "nodes", "admission-0", "admission-1")


def test_a_job_in_an_automatic_namespace_is_a_gang_and_a_deployment_is_told_that_it_is_none(
    namespace: Namespace,
) -> None:
    namespace.kubectl("label", "namespace", namespace.name, "phalanx.dev/automatic=true")
    deadline = time.monotonic() + PATIENCE
    while "gang " not in (told := namespace.dry_run(job(2))):
        assert time.monotonic() < deadline, told
    assert "gang " not in namespace.dry_run(job(1))
    assert "gang " not in namespace.dry_run(job(2, gang="false"))
    assert "a Deployment is not made a gang yet" in namespace.dry_run(deployment())


def test_a_job_that_follows_its_automatic_namespace_at_once_is_a_gang(installation: Installation) -> None:
    plane = installation.plane
    for _ in range(10):
        name = f"automatic-{uuid.uuid4().hex[:8]}"
        labels = {"phalanx.dev/automatic": "true"}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        plane.request("POST", "/api/v1/namespaces", space)
        made = plane.request("POST", f"/apis/batch/v1/namespaces/{name}/jobs?dryRun=All", job(2))
        assert made["spec"]["template"]["metadata"]["labels"]["phalanx.dev/workload"] == "Job", made
        plane.request("DELETE", f"/api/v1/namespaces/{name}")


def test_the_pods_of_an_annotated_job_are_gated_even_under_a_generated_name(namespace: Namespace) -> None:
    status, _, errors = namespace.kubectl("create", "-f", "-", manifests=(job(2, gang="true"),))
    assert status == 0, errors
    deadline = time.monotonic() + PATIENCE
    pods: list[dict[str, Any]] = []
    while len(pods) < 2 and time.monotonic() < deadline:
        pods = namespace.get("pods")["items"]
        time.sleep(0.1)
    name = namespace.get("jobs")["items"][0]["metadata"]["name"]
    assert [each["spec"]["schedulingGates"] for each in pods] == [[{"name": "phalanx.dev/gang"}]] * 2
    assert {each["metadata"]["labels"]["phalanx.dev/gang"] for each in pods} == {name}


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (pod_group("wrong", **WRONG_SPEC), f"metadata.annotations[{SPEC}]"),
        (
            {
                "apiVersion": "phalanx.dev/v1alpha1",
                "kind": "Gang",
                "metadata": {"name": "wrong"},
                "spec": {"minMember": 4, "podSets": [{"name": "main", "count": 2}]},
            },
            "spec.minMember: 4 is more than the 2 members",
        ),
        (
            {**deployment(gang="true"), "kind": "DaemonSet"},
            "metadata.annotations[phalanx.dev/gang]: a DaemonSet cannot be made a gang by annotations yet",
        ),
    ],
    ids=["PodGroup with bad JSON", "Gang that contradicts itself", "kind that is not built yet"],
)
def test_a_wrong_request_is_refused_with_object_field_and_remedy(
    namespace: Namespace, manifest: dict[str, Any], says: str
) -> None:
    status, _, errors = namespace.kubectl("apply", "-f", "-", manifests=(manifest,))
    assert status == 1
    assert "phalanx.dev" in errors
    assert f"denied the request: {manifest['kind']} {namespace.name}/wrong: {says}" in errors


def test_while_the_webhook_is_down_only_gangs_are_refused_and_nobody_else_is_sent_there(
    installation: Installation, namespace: Namespace
) -> None:
    before = calls(namespace.plane)
    installation.stop()
    namespace.apply(pod("plain"), pod("foreign", scheduler="koord-scheduler"))
    assert "schedulingGates" not in namespace.get("pod", "plain")["spec"]
    assert calls(namespace.plane) == before
    status, _, errors = namespace.kubectl("apply", "-f", "-", manifests=(pod("member", gang="llm"),))
    assert (status, "pods.phalanx.dev" in errors) == (1, True), errors
    installation.start()
    namespace.apply(pod("member", gang="llm"))


@pytest.fixture
def tokens(installation: Installation) -> Iterator[dict[str, str]]:
    """Tokens of two accounts: the viewer is bound to phalanx-viewer, the stranger to nothing."""
    plane = installation.plane
    for name in ("viewer", "stranger"):
        plane.kubectl("create", "serviceaccount", name, "-n", "phalanx-system")
    bind(plane, "viewer")
    await_binding(plane, "viewer")
    yield {
        name: plane.kubectl("create", "token", name, "-n", "phalanx-system").strip() for name in ("viewer", "stranger")
    }
    plane.kubectl("delete", "clusterrolebinding", "test-viewer", "test-stranger", "--ignore-not-found")
    plane.kubectl("delete", "serviceaccount", "viewer", "stranger", "-n", "phalanx-system")


def bind(plane: ControlPlane, account: str) -> None:
    """Grant an account the right to use the paths of the webhook."""
    role, subject = "--clusterrole=phalanx-viewer", f"--serviceaccount=phalanx-system:{account}"
    plane.kubectl("create", "clusterrolebinding", f"test-{account}", role, subject)


def await_binding(plane: ControlPlane, account: str) -> None:
    """Wait until the API server's authorizer has heard of it: an answer before is kept for a minute."""
    user = f"system:serviceaccount:phalanx-system:{account}"
    question = ("auth", "can-i", "get", "/v1/gangs", "--as", user)
    wait_until(lambda: plane.kubectl_result(*question).returncode == 0, PATIENCE, "the binding to take effect")


def test_paths_of_our_own_ask_the_api_server_who_may_use_them(
    installation: Installation, tokens: dict[str, str]
) -> None:
    with contextlib.closing(installation.server.connect()) as connection:
        for token, path, status in (
            (tokens["viewer"], "/v1/gangs", 200),
            (tokens["viewer"], "/v1/topology", 200),
            (tokens["viewer"], "/metrics", 200),
            (tokens["stranger"], "/v1/gangs", 403),
            ("made-up", "/v1/gangs", 401),
        ):
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            response.read()
            assert (path, response.status) == (path, status)


def test_an_answer_about_access_is_kept_for_a_minute(installation: Installation, tokens: dict[str, str]) -> None:
    clock = ManualClock()
    transport = connect(str(installation.plane.kubeconfig_for("phalanx-system", "phalanx-webhook")))
    reviewer = AccessReviewer(transport, clock=clock)
    assert reviewer.access(tokens["stranger"], "get", "/metrics") is Access.FORBIDDEN
    bind(installation.plane, "stranger")
    clock.now = 59.0
    assert reviewer.access(tokens["stranger"], "get", "/metrics") is Access.FORBIDDEN
    clock.now = 61.0
    deadline = time.monotonic() + PATIENCE
    while reviewer.access(tokens["stranger"], "get", "/metrics") is not Access.ALLOWED:
        assert time.monotonic() < deadline
        clock.now += 61.0  # the API server's own authorizer hears of the binding a moment later
        time.sleep(0.1)


def test_nobody_is_let_in_while_the_api_server_cannot_be_asked(
    installation: Installation, tmp_path: Path, tokens: dict[str, str]
) -> None:
    kubeconfig = yaml.safe_load(installation.plane.kubeconfig.read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_ports(1)[0]}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(yaml.safe_dump(kubeconfig))
    with pytest.raises(AccessError, match="TokenReview failed"):
        AccessReviewer(connect(str(elsewhere))).access(tokens["viewer"], "get", "/metrics")
