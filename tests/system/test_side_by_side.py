"""An upgrade as it happens: the replicas of the old and the new version side by side, one of which leads.

old  leads ───────────┤ told to end, a gang half done     ready, waits ──────┤ leads again
new         ready, waits ├ leads, ends what was begun ─────────────┤ told to end
"""

import os
import sys
from collections.abc import Iterator

import pytest
from system import GUIDE, Phalanx, numbered, ready

from controlplane.control_plane import free_ports
from controlplane.running.processes import Program
from kube.keys import CONTROLLER_LEASE, SYSTEM_NAMESPACE

pytestmark = pytest.mark.controlplane

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER_LEASE}"
NEW = "new-version"
MEMBERS = numbered("hp-training-pod", 4)
OTHERS = numbered("training-pod", 4)
SPINE_1 = [f"node-{index}" for index in range(5, 9)]


@pytest.fixture
def new(phalanx: Phalanx) -> Iterator[Program]:
    """A second controller with settings of its own, ready to lead when the first one does not."""
    (port,) = free_ports(1)
    config = phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")
    command = [sys.executable, "-c", "from cli.main import main; main()", "controller", f"--kubeconfig={config}"]
    settings = [f"--identity={NEW}", "--lease-seconds=3", "--solve-seconds=7", "--retirement-seconds=60"]
    where = ["--health-address=127.0.0.1", f"--health-port={port}", "--metrics-port=0"]
    environment = {**os.environ, "HOME": str(phalanx.cluster.directory)}
    program = phalanx.cluster.run("controller-new", [*command, *settings, *where], environment)
    phalanx.wait(lambda: ready(port), "the new controller to be ready")
    yield program
    program.terminate()
    program.wait()
    print(program.tail())  # noqa: T201 - for the report of a failed test


def leader(phalanx: Phalanx) -> str:
    """Who holds the Lease."""
    return str(phalanx.cluster.request("GET", LEASE)["spec"].get("holderIdentity") or "")


def test_the_new_version_ends_what_the_old_one_began_and_the_other_way_round(phalanx: Phalanx, new: Program) -> None:
    phalanx.guide_nodes()
    phalanx.apply_files(GUIDE / "priorityclasses.yaml", GUIDE / "low-priority-pods.yaml")
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    phalanx.wait(lambda: leader(phalanx) not in ("", NEW), "the old one to lead")
    old = phalanx.cluster.program("controller")
    with phalanx.slow_to_end("low-priority-pod-5"):
        phalanx.apply_files(GUIDE / "high-priority-training.yaml")
        phalanx.wait(lambda: bool(phalanx.status("high-priority-training").get("planId")), "the old one's plan")
        old.terminate()
        phalanx.wait(lambda: leader(phalanx) == NEW, "the new one to lead")
    assert list(phalanx.await_bound(MEMBERS).values()) == SPINE_1
    assert leader(phalanx) == NEW

    phalanx.deployment.start_controller()
    assert leader(phalanx) == NEW, "one that comes back waits"
    phalanx.cluster.kubectl("delete", "-f", str(GUIDE / "high-priority-training.yaml"))
    phalanx.cluster.kubectl("delete", "-f", str(GUIDE / "low-priority-pods.yaml"), "--ignore-not-found")
    new.terminate()
    new.wait()
    phalanx.apply_files(GUIDE / "topology-demo-job.yaml")
    assert list(phalanx.await_bound(OTHERS).values()) == SPINE_1
    assert leader(phalanx) not in ("", NEW)
