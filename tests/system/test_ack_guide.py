"""The three scenarios of ACK Lingjun's guide, applied as its document has them.

PoD       test-pod-1                     test-pod-2   (no labels)
ASW       test-1      test-2   test-3    test-4
node      .12   .14   .15      .16       .17          .165, without a GPU
"""

import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from system import EXAMPLES, Phalanx, scheduled_message

from cli.main import group as command

pytestmark = pytest.mark.controlplane

GUIDE = EXAMPLES / "ack"
LINGJUN = [f"cn-hongkong.10.1.0.{number}" for number in (12, 14, 15, 16, 17)]
NODES = [*LINGJUN, "cn-hongkong.10.1.0.165"]
IN_ONE_POD = LINGJUN[:4]

FAILURE = (
    "0/6 nodes are available: 1 Insufficient nvidia.com/gpu, 1 [NetworkTopology begin] cluster total nodes:6, "
    "5 node provide 5 freeSlot, 1 node unavailable cause Insufficient nvidia.com/gpu, job desireNum:5, "
    "all fail topology paths by MustGather reason: [path:RootNode->test-pod-1, freeSlotNum:4], "
    "[path:RootNode->DefaultTopologyName, freeSlotNum:0], [path:RootNode->test-pod-2, freeSlotNum:1] "
    "[NetworkTopology end], 4 NetworkTopology bestPlan empty. network topology job "
    "sample-network-topology/sample-network-topology gets rejected due to pod is unschedulable."
)
"""The document's message to the letter; where it breaks off (“...”), ours ends."""


@pytest.fixture
def lingjun(phalanx: Phalanx) -> Phalanx:
    """The guide's cluster."""
    phalanx.apply_files(GUIDE / "nodes.yaml", GUIDE / "cluster-network-topology.yaml")
    phalanx.make_namespace("sample-network-topology")
    phalanx.cluster.await_nodes(NODES)
    return phalanx


def run(phalanx: Phalanx, scenario: str = ".") -> None:
    """Apply one scenario's files, the JobNetworkTopology first, as the document does.

    The Job is refused while the webhook has not seen that the other's numbers changed.
    """
    phalanx.apply_files(GUIDE / scenario / "sample-network-topology.yaml")
    job = str(GUIDE / scenario / "pi.yaml")
    phalanx.wait(lambda: phalanx.cluster.kubectl_result("apply", "-f", job).returncode == 0, "the Job to be admitted")


def placed(phalanx: Phalanx) -> list[str]:
    """The nodes of the pods that have one."""
    return sorted(pod["spec"]["nodeName"] for pod in phalanx.pods() if pod["spec"].get("nodeName"))


def await_placed(phalanx: Phalanx, nodes: list[str]) -> None:
    phalanx.wait(lambda: placed(phalanx) == nodes, f"the pods on {nodes}")


def solved(scenario: str) -> dict[str, object]:
    """Return the gang that `phalanx solve` plans from the same files, without a cluster."""
    files = [GUIDE / name for name in ("nodes.yaml", "cluster-network-topology.yaml")]
    files += [GUIDE / scenario / name for name in ("sample-network-topology.yaml", "pi.yaml")]
    arguments = [part for file in files for part in ("-f", str(file))]
    result = CliRunner().invoke(command, ["solve", *arguments, "-o", "json"], catch_exceptions=False)
    (gang,) = json.loads(result.stdout)["gangs"]
    return dict(gang)


def nodes_of(gang: dict[str, Any]) -> list[str]:
    return sorted(each["node"] for each in gang["assignments"])


@pytest.mark.long
def test_the_three_scenarios_one_after_the_other(lingjun: Phalanx) -> None:
    run(lingjun)
    await_placed(lingjun, LINGJUN[:2])
    assert nodes_of(solved(".")) == LINGJUN[:2]

    # A Job's template cannot be changed in place, so what the document calls reapplying begins with a deletion.
    again = lingjun.cluster.kubectl_result("apply", "-f", str(GUIDE / "scenario-2" / "pi.yaml"))
    assert again.returncode != 0
    delete_job(lingjun)
    run(lingjun, "scenario-2")
    await_placed(lingjun, IN_ONE_POD)
    assert nodes_of(solved("scenario-2")) == IN_ONE_POD

    delete_job(lingjun)
    run(lingjun, "scenario-3")
    lingjun.await_phase("pi", "Unplaceable")
    lingjun.wait(lambda: len(lingjun.pods()) == 5, "five pods")
    lingjun.wait(lambda: {scheduled_message(pod) for pod in lingjun.pods()} == {FAILURE}, "the document's message")
    assert placed(lingjun) == []
    assert {pod["status"]["phase"] for pod in lingjun.pods()} == {"Pending"}
    conditions = [c for pod in lingjun.pods() for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert {(each["status"], each["reason"]) for each in conditions} == {("False", "Unschedulable")}
    assert solved("scenario-3")["outcome"] == "Unplaceable"

    # The document's remedy: PreferGather instead of MustGather. The pods that wait are planned again.
    relaxed = (
        (GUIDE / "scenario-3" / "sample-network-topology.yaml").read_text().replace("MustGather\n", "PreferGather\n")
    )
    lingjun.cluster.kubectl("apply", "-f", "-", stdin=relaxed)
    await_placed(lingjun, LINGJUN)


def delete_job(phalanx: Phalanx) -> None:
    """Delete the Job and wait until its pods are gone."""
    phalanx.cluster.kubectl("delete", "job", "pi", "--cascade=foreground", "--wait=false")
    for pod in phalanx.pods():
        with suppress(Exception):
            phalanx.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")
    phalanx.wait(lambda: not phalanx.pods(), "the old pods to be gone")


@pytest.mark.long
def test_numbers_that_disagree_are_refused_naming_all_three(lingjun: Phalanx) -> None:
    lingjun.apply_files(GUIDE / "sample-network-topology.yaml")
    wrong = yaml.safe_load((GUIDE / "pi.yaml").read_text().replace("parallelism: 2", "parallelism: 4"))
    lingjun.await_refusal(
        "Job default/pi: spec.parallelism: this Job runs 4 pods at a time, pod-group.scheduling.sigs.k8s.io/"
        "min-available is 2, and workerNum of JobNetworkTopology sample-network-topology/sample-network-topology is 2; "
        "write the same number in all three",
        wrong,
    )


@pytest.mark.long
def test_a_job_that_comes_before_its_network_waits_for_it(lingjun: Phalanx) -> None:
    job = yaml.safe_load((GUIDE / "pi.yaml").read_text())
    lingjun.apply_once_told("waits for JobNetworkTopology sample-network-topology/sample-network-topology", job)
    lingjun.await_phase("pi", "Waiting")
    assert placed(lingjun) == []
    lingjun.apply_files(GUIDE / "sample-network-topology.yaml")
    await_placed(lingjun, LINGJUN[:2])
