"""The manifests on the real API server: strictly valid, and applied again without a change."""

from functools import partial
from typing import Any

import pytest
import yaml
from rendered import Identity, identity, overlay

from controlplane.checkers import source
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.rendering import INSTALL, MANIFESTS

pytestmark = pytest.mark.controlplane

PATIENCE = 60.0


@pytest.fixture(scope="module")
def definitions(control_plane: ControlPlane) -> None:
    """The definitions and the namespace are there, whatever else a test has removed."""
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "default"))


def server_side(cluster: ControlPlane, *arguments: str) -> list[str]:
    """`kubectl apply --server-side` with strict validation; the lines that it prints. It has nothing to warn of."""
    answer = cluster.kubectl_result("apply", "--server-side", "--validate=strict", *arguments)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.splitlines()


def versions(cluster: ControlPlane, *arguments: str) -> dict[Identity, tuple[str, Any]]:
    """Apply the manifests and return the uid and the generation of each object afterwards.

    If an object has no generation, return another value that shows whether the object was written.
    """
    items = yaml.safe_load("\n".join(server_side(cluster, "-o", "yaml", *arguments)))["items"]
    return {identity(each): _version(each) for each in items}


def _version(manifest: dict[str, Any]) -> tuple[str, Any]:
    metadata = manifest["metadata"]
    if manifest["kind"] == "ResourceQuota":  # it has no generation, and its status changes by itself
        return metadata["uid"], str(manifest["spec"])
    if "aggregationRule" in manifest:  # a controller writes its rules, some time after it was created
        return metadata["uid"], str(manifest["aggregationRule"])
    return metadata["uid"], metadata.get("generation", metadata["resourceVersion"])


def test_the_default_is_strictly_valid_and_applied_twice_changes_nothing(cluster: ControlPlane) -> None:
    folder = str(MANIFESTS / "default")
    first = versions(cluster, "--force-conflicts", "-k", folder)
    assert first.keys() == overlay("default").keys()
    assert versions(cluster, "-k", folder) == first
    assert versions(cluster, "-f", str(INSTALL)) == first


@pytest.mark.parametrize(
    "name",
    [
        "high-availability",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("webhook-by-url", "admission-policy", "beside-kai", "beside-kueue", "beside-koordinator")
        ),
    ],
)
@pytest.mark.usefixtures("definitions")
def test_every_overlay_is_strictly_valid(cluster: ControlPlane, name: str) -> None:
    server_side(cluster, "--force-conflicts", "--dry-run=server", "-k", str(MANIFESTS / name))


@pytest.mark.long
@pytest.mark.usefixtures("definitions")
def test_what_is_asked_of_cert_manager_is_strictly_valid_by_its_own_definitions(cluster: ControlPlane) -> None:
    names = ("certificates", "issuers")
    for name in names:
        file = source("cert-manager") / "deploy" / "crds" / f"cert-manager.io_{name}.yaml"
        server_side(cluster, "--force-conflicts", "-f", str(file))
    kinds = [f"crd/{name}.cert-manager.io" for name in names]
    try:
        cluster.kubectl("wait", "--for=condition=Established", *kinds)
        server_side(cluster, "--force-conflicts", "--dry-run=server", "-k", str(MANIFESTS / "cert-manager"))
    finally:
        cluster.kubectl("delete", *kinds)


def test_the_servers_pods_pass_the_restricted_pod_security_of_their_namespace(cluster: ControlPlane) -> None:
    cluster.add_nodes(_node(f"n{index}") for index in range(3))
    server_side(cluster, "--force-conflicts", "-k", str(MANIFESTS / "default"))
    for name in ("phalanx-webhook", "phalanx-controller"):
        wait_until(partial(_available, cluster, name), PATIENCE, f"{name} to be available")


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def _available(cluster: ControlPlane, name: str) -> bool:
    found = cluster.request("GET", f"/apis/apps/v1/namespaces/phalanx-system/deployments/{name}")
    wanted = found["spec"]["replicas"]
    return bool(found["status"].get("availableReplicas") == wanted > 0)
