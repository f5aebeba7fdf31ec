"""`phalanx solve --cluster live` on a real API server: the cluster is asked, and nothing in it changes."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from contract_report import Gang, report_of

from cli.main import group
from controlplane.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]
KOORDINATOR = ROOT / "examples" / "koordinator"


def solve(plane: ControlPlane, file: str) -> tuple[int, Gang, str]:
    """Exit status, the one gang of the report, and standard error."""
    arguments = ["solve", "-v", "-f", str(KOORDINATOR / file), "--cluster", "live", "-o", "json"]
    result = CliRunner().invoke(group, [*arguments, "--kubeconfig", str(plane.kubeconfig)], catch_exceptions=False)
    (gang,) = report_of(result.stdout).gangs
    return result.exit_code, gang, result.stderr


def everything(plane: ControlPlane) -> list[str]:
    """Return the names of all objects that a command with write access could add or remove."""
    return plane.kubectl("get", "pods,podgroups,clusternetworktopologies", "-A", "-o", "name").split()


@pytest.fixture
def spines(cluster: ControlPlane) -> ControlPlane:
    """The cluster of Koordinator's document with its topology, and a pod of low priority on node-0, -1 and -5."""
    cluster.kubectl("apply", "-k", str(ROOT / "manifests" / "crds" / "koordinator"))
    cluster.add_nodes(yaml.safe_load_all((KOORDINATOR / "nodes.yaml").read_text(encoding="utf-8")))
    for name in ("cluster-network-topology", "priorityclasses", "low-priority-pods"):
        cluster.kubectl("apply", "-f", str(KOORDINATOR / f"{name}.yaml"))
    return cluster


def test_the_live_cluster_is_planned_on_and_left_as_it_is(spines: ControlPlane) -> None:
    before = everything(spines)
    status, gang, stderr = solve(spines, "high-priority-training.yaml")
    assert status == 0, stderr
    assert [each.node for each in gang.assignments] == ["node-5", "node-6", "node-7", "node-8"]
    assert [(each.pod, each.node, each.priority) for each in gang.victims] == [("low-priority-pod-5", "node-5", 1000)]
    assert everything(spines) == before


def test_a_gang_without_a_topology_in_the_cluster_waits_for_it(spines: ControlPlane) -> None:
    spines.kubectl("delete", "clusternetworktopology", "default")
    status, gang, _ = solve(spines, "high-priority-training.yaml")
    assert (status, gang.outcome) == (3, "Waiting")
    assert gang.message.startswith("waits for ClusterNetworkTopology")


def test_a_cluster_that_cannot_be_reached_is_an_error_in_a_line(tmp_path: Path) -> None:
    empty = tmp_path / "config"
    empty.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    file = str(KOORDINATOR / "high-priority-training.yaml")
    arguments = ["solve", "-f", file, "--cluster", "live", "--kubeconfig", str(empty)]
    result = CliRunner().invoke(group, arguments)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: no cluster: ")


def test_what_a_system_that_runs_there_has_is_left_to_it_and_named(spines: ControlPlane) -> None:
    entry = {"name": "vpod.koordinator.sh", "admissionReviewVersions": ["v1"], "sideEffects": "None"}
    service = {"name": "webhook-service", "namespace": "koordinator-system"}
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "koordinator-validating-webhook-configuration"},
        "webhooks": [{**entry, "clientConfig": {"service": service}}],
    }
    spines.apply([configuration])
    arguments = ["solve", "-f", str(KOORDINATOR / "high-priority-training.yaml"), "--cluster", "live", "-o", "json"]
    result = CliRunner().invoke(group, [*arguments, "--kubeconfig", str(spines.kubeconfig)], catch_exceptions=False)
    assert report_of(result.stdout).gangs == []
    assert "is left to Koordinator, which runs in this cluster" in result.stderr
