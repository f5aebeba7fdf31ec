"""What all tests share: the real control plane, started once a session, and a clean cluster for each test that asks.

- `control_plane`: the session's `controlplane.control_plane.ControlPlane` (kubectl, request, apply, add_nodes,
  kubeconfig_for, program). Pods of priority class `low-priority` take `SLOW_SECONDS` to terminate.
- `cluster`: the same, emptied: no nodes, no pods, no objects of earlier tests, no webhooks.
- `controlplane.recording.Recorder(cluster)`: the watch stream of pods (or of another path), to assert on.

Tests that use them carry `@pytest.mark.controlplane` and run after all others.
"""

from collections.abc import Iterator

import pytest

from controlplane.binaries import find_binaries
from controlplane.control_plane import ControlPlane, Options, wait_until

SLOW_SECONDS = 3.0

KEPT_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease", "phalanx-system"}

_CLUSTER_SCOPED = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/phalanx.dev/v1alpha1/topologies",
    "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies",
)
_NAMESPACED = (
    "/apis/batch/v1/{}/jobs",
    "/apis/phalanx.dev/v1alpha1/{}/gangs",
    "/apis/scheduling.sigs.k8s.io/v1alpha1/{}/podgroups",
    "/apis/policy/v1/{}/poddisruptionbudgets",
    "/api/v1/{}/persistentvolumeclaims",
    "/api/v1/{}/pods",
    "/api/v1/{}/events",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fast ones first."""
    items.sort(key=lambda item: item.get_closest_marker("controlplane") is not None)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The session's control plane."""
    with ControlPlane(Options(slow_deletion={"low-priority": SLOW_SECONDS}), find_binaries()) as running:
        yield running


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane, emptied."""
    empty(control_plane)
    return control_plane


def empty(control_plane: ControlPlane) -> None:
    """Remove what tests have made; the definitions of kinds, access rules and the system namespace stay."""
    for path in _CLUSTER_SCOPED:
        control_plane.request("DELETE", path)
    namespaces = [n["metadata"]["name"] for n in control_plane.request("GET", "/api/v1/namespaces")["items"]]
    now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    for namespace in namespaces:
        for path in _NAMESPACED:
            control_plane.request("DELETE", path.format(f"namespaces/{namespace}"), now)
        if namespace not in KEPT_NAMESPACES:
            control_plane.request("DELETE", f"/api/v1/namespaces/{namespace}")
    for priority in control_plane.request("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")["items"]:
        name = priority["metadata"]["name"]
        if not name.startswith(("system-", "phalanx-")):
            control_plane.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    wait_until(lambda: not control_plane.request("GET", "/api/v1/pods")["items"], 30, "the pods to go")
    wait_until(lambda: not control_plane.request("GET", "/api/v1/nodes")["items"], 30, "the nodes to go")
