"""A pod of no gang is never touched. Applying the same objects again changes nothing."""

import re

import pytest
from system import GUIDE, Phalanx, numbered, pod

pytestmark = pytest.mark.controlplane

TRAINING = numbered("training-pod", 4)


def calls(phalanx: Phalanx) -> float:
    """Return the API server's own count of its calls to Phalanx's webhooks."""
    metrics = str(phalanx.cluster.request("GET", "/metrics"))
    found = re.findall(r"^apiserver_admission_webhook_request_total\{[^}]*phalanx[^}]*\} (\S+)$", metrics, re.MULTILINE)
    return sum(float(each) for each in found)


def test_a_pod_of_no_gang_is_admitted_and_runs_while_the_webhook_is_down(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.cluster.program("webhook").kill()
    before = calls(phalanx)
    phalanx.apply(pod("stranger"))
    phalanx.await_bound(["stranger"])
    stranger = phalanx.pod("stranger")
    assert calls(phalanx) == before
    assert "schedulingGates" not in stranger["spec"]
    assert not [key for key in stranger["metadata"].get("labels", {}) if "phalanx" in key]


def test_a_gang_pod_is_refused_while_the_webhook_is_down(phalanx: Phalanx) -> None:
    phalanx.cluster.program("webhook").kill()
    answer = phalanx.cluster.kubectl_result("apply", "-f", str(GUIDE / "topology-demo-job.yaml"))
    assert answer.returncode != 0
    assert "phalanx" in answer.stderr
    assert not phalanx.pods()


@pytest.mark.long
@pytest.mark.parametrize("when", ["gated", "bound"])
def test_applying_the_same_files_again_changes_nothing_and_the_diff_is_empty(phalanx: Phalanx, when: str) -> None:
    phalanx.guide_nodes()
    if when == "gated":
        phalanx.cluster.program("controller").kill()
    phalanx.apply_files(GUIDE / "topology-demo-job.yaml")
    if when == "bound":
        phalanx.await_bound(TRAINING)
    again = phalanx.apply_files(GUIDE / "topology-demo-job.yaml")
    assert [line.rsplit(" ", 1)[1] for line in again.splitlines()] == ["unchanged"] + 4 * ["configured"] or all(
        line.endswith("unchanged") for line in again.splitlines()
    )
    difference = phalanx.cluster.kubectl_result("diff", "-f", str(GUIDE / "topology-demo-job.yaml"))
    assert (difference.returncode, difference.stdout) == (0, "")


@pytest.mark.long
def test_a_server_side_dry_run_warns_and_changes_nothing(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    answer = phalanx.cluster.kubectl_result("apply", "--dry-run=server", "-f", str(GUIDE / "topology-demo-job.yaml"))
    assert answer.returncode == 0, answer.stderr
    assert "Warning:" in answer.stderr
    assert not phalanx.pods()
    assert not phalanx.cluster.request("GET", "/apis/phalanx.dev/v1alpha1/gangs")["items"]
