"""`phalanx ui` forwards the webhook's port by itself. kwok takes the part of the kubelet that forwards.

phalanx ui ── kubectl port-forward ── API server ── kwok ── webhook
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
import urllib3
import yaml
from node_manifests import node_manifest

from certs.cluster_edge import DEFAULT_PLACE
from certs.files import write_self_signed
from cli.ui import LOOPBACK
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.deployment import Deployment
from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long, pytest.mark.timeout(1200)]

PATIENCE = 300.0
LABELS = {"app": "webhook"}
PORT = 9443
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The security context that the system namespace demands of its pods."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose kwok forwards the webhook's port of every pod to this machine."""
    folder = tmp_path_factory.mktemp("forwarding")
    write_self_signed(folder, ["localhost"], [LOOPBACK])
    with ControlPlane() as plane:
        deployment = Deployment(plane, timeout_seconds=30)
        deployment.install()
        deployment.start_webhook()
        deployment.register_webhook()
        webhook = int(deployment.webhook_url().rpartition(":")[2])
        with (plane.directory / "stages.yaml").open("a") as configuration:
            configuration.write(f"\n---\n{_forwarding_to(webhook)}")
        kubelet = _restart_kwok(plane, folder)
        plane.add_nodes([node_manifest("n0")])
        endpoint = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}}}}
        plane.request("PATCH", "/api/v1/nodes/n0/status", endpoint, "application/merge-patch+json")
        _create_service(plane)
        yield plane


def _restart_kwok(plane: ControlPlane, certificates: Path) -> int:
    """Restart kwok as the kubelet of its nodes, with TLS. Return its port."""
    kwok = plane.program("kwok")
    kwok.kill()
    (address,) = (each for each in kwok.arguments if each.startswith("--server-address="))
    port = int(address.rpartition(":")[2])
    keys = [f"--tls-cert-file={certificates / 'tls.crt'}", f"--tls-private-key-file={certificates / 'tls.key'}"]
    plane.run("kwok", [*kwok.arguments, f"--node-port={port}", *keys])
    return port


def _forwarding_to(port: int) -> str:
    spec = {"forwards": [{"ports": [PORT], "target": {"address": LOOPBACK, "port": port}}]}
    kind = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward", "metadata": {"name": "webhook"}}
    return yaml.safe_dump({**kind, "spec": spec})


def _create_service(plane: ControlPlane) -> None:
    """Create the webhook's Service and a pod behind it, which kwok runs."""
    container = {"name": "webhook", "image": "none", "ports": [{"containerPort": PORT}], "securityContext": RESTRICTED}
    metadata = {"namespace": SYSTEM_NAMESPACE, "name": DEFAULT_PLACE.service}
    pod = {"metadata": {**metadata, "labels": LABELS}, "spec": {"nodeName": "n0", "containers": [container]}}
    service = {"metadata": metadata, "spec": {"selector": LABELS, "ports": [{"port": 443, "targetPort": PORT}]}}
    base = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
    plane.apply([{"apiVersion": "v1", "kind": "Service", **service}, {"apiVersion": "v1", "kind": "Pod", **pod}])
    path = f"{base}/pods/{DEFAULT_PLACE.service}"
    wait_until(lambda: plane.request("GET", path)["status"].get("phase") == "Running", PATIENCE, "the pod to run")


@contextmanager
def page(plane: ControlPlane, *options: str) -> Iterator[urllib3.BaseHTTPResponse]:
    """Run `phalanx ui` with these options, and yield its answer to a browser that opens the printed URL."""
    command = [str(Path(sys.executable).parent / "phalanx"), "ui", "--no-open", *options]
    path = f"{Path(plane.path_of('kubectl')).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}) as process:
        try:
            assert process.stdout is not None
            url = re.sub("//[^:/]+", f"//{LOOPBACK}", process.stdout.readline().strip())
            browser = urllib3.PoolManager()
            entered = browser.request("GET", url, redirect=False)
            assert entered.status == HTTPStatus.SEE_OTHER
            cookie = entered.headers["Set-Cookie"].partition(";")[0]
            yield browser.request("GET", url.partition("?")[0], headers={"Cookie": cookie})
        finally:
            process.terminate()


@pytest.mark.parametrize("way", ["kubeconfig user", "service account", "ca-file"])
def test_the_page_opens_at_the_printed_url(plane: ControlPlane, tmp_path: Path, way: str) -> None:
    options = [f"--kubeconfig={plane.kubeconfig}"]
    if way == "service account":
        plane.kubectl("create", "serviceaccount", "reader")
        whom = "--serviceaccount=default:reader"
        plane.kubectl("create", "clusterrolebinding", "looks", "--clusterrole=phalanx-viewer", whom)
        options.append("--service-account=default/reader")
    if way == "ca-file":
        authority = tmp_path / "ca.crt"
        authority.write_bytes((plane.directory / "webhook-certs" / "ca.crt").read_bytes())
        options.append(f"--ca-file={authority}")
    with page(plane, *options) as answer:
        assert answer.status == HTTPStatus.OK
        assert b"There is no topology." in answer.data


def test_a_pod_that_does_not_run_is_named_by_kubectl(plane: ControlPlane) -> None:
    everywhere = json.dumps({"spec": {"selector": {"app": "absent"}}})
    plane.kubectl("patch", "service", DEFAULT_PLACE.service, "-n", SYSTEM_NAMESPACE, "-p", everywhere)
    command = [str(Path(sys.executable).parent / "phalanx"), "ui", "--no-open", f"--kubeconfig={plane.kubeconfig}"]
    path = f"{Path(plane.path_of('kubectl')).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "the webhook's port cannot be forwarded: " in answer.stderr
