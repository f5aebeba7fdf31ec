"""`phalanx doctor` on a real cluster: well where all is well, an error where the webhook does not answer or is gone."""

import subprocess
import sys

import pytest
from system import Phalanx

from kube.versions import version_of, way_of_holding

pytestmark = pytest.mark.controlplane


def doctor(phalanx: Phalanx) -> subprocess.CompletedProcess[str]:
    """Ask the doctor."""
    program = [sys.executable, "-c", "from cli.main import main; main()", "doctor"]
    arguments = [*program, "--kubeconfig", str(phalanx.cluster.kubeconfig)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_a_cluster_that_is_well_and_one_whose_webhook_is_gone(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.wait(lambda: "no controller leads" not in doctor(phalanx).stdout, "a controller to lead")
    answer = doctor(phalanx)
    assert answer.returncode == 0, answer.stdout
    assert "ClusterNetworkTopology default: 12 nodes, all of them inside" in answer.stdout
    version = phalanx.cluster.request("GET", "/version")["gitVersion"]
    assert f"ok       Kubernetes {version}: {way_of_holding(version_of(version))}" in answer.stdout
    assert "ok       Admission of a gang's pod: tried: it would be gated" in answer.stdout
    webhook = phalanx.cluster.program("webhook")
    webhook.terminate()
    webhook.wait()
    answer = doctor(phalanx)
    assert answer.returncode == 1
    assert "error    Admission of a gang's pod: tried: Internal error occurred: failed calling webhook \"pods." in (
        answer.stdout
    )
    phalanx.cluster.kubectl("label", "node", "node-3", "network.topology.nvidia.com/spine-")
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-phalanx"
    phalanx.cluster.request("DELETE", path)
    answer = doctor(phalanx)
    assert answer.returncode == 1
    assert "error    MutatingWebhookConfiguration zz-phalanx: is not installed" in answer.stdout
    assert "1 node (node-3) lies outside it for want of label network.topology.nvidia.com/spine" in answer.stdout
